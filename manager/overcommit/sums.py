"""Adding up what protected pods use and request on one node."""

from collections.abc import Iterable
from dataclasses import dataclass

from manager.overcommit.pod_share import PodKey, PodShare
from manager.overcommit.report import PodUse, UsageReport


@dataclass(frozen=True, slots=True)
class ProtectedSums:
    """Sums over protected pods, nano units.

    usage counts a pod without a report by its request, and an LSE pod's cpu always by its request. larger is
    max(request, usage), over reported pods only. unmeasured: pods counted by request for want of a report.
    dangling: reported pods that are not (or no longer) listed as running, counted by their reported use.
    """

    usage_cpu: int
    usage_memory: int
    request_cpu: int
    request_memory: int
    larger_cpu: int
    larger_memory: int
    unmeasured: tuple[PodKey, ...]
    dangling: tuple[PodKey, ...]


def add_up(pods: Iterable[PodShare], report: UsageReport) -> ProtectedSums:
    """The sums over the pods of a node. Pods that are not counted are as if absent; batch and free add nothing."""
    reported = report.pods
    usage_cpu = usage_memory = request_cpu = request_memory = larger_cpu = larger_memory = 0
    unmeasured: list[PodKey] = []
    listed: set[PodKey] = set()
    for key, _, counted, protected, exclusive, (asked_cpu, asked_memory), _, _ in pods:
        if not counted:
            continue
        listed.add(key)
        if not protected:
            continue
        request_cpu += asked_cpu
        request_memory += asked_memory
        found = reported.get(key)
        if found is None:
            usage_cpu += asked_cpu
            usage_memory += asked_memory
            unmeasured.append(key)
            continue
        used_cpu, used_memory, _ = found
        usage_cpu += asked_cpu if exclusive else used_cpu
        usage_memory += used_memory
        larger_cpu += used_cpu if used_cpu > asked_cpu else asked_cpu
        larger_memory += used_memory if used_memory > asked_memory else asked_memory
    dangling: list[PodKey] = []
    for key, (used_cpu, used_memory, protected) in _unlisted(reported, listed):
        if protected:
            usage_cpu += used_cpu
            usage_memory += used_memory
            larger_cpu += used_cpu
            larger_memory += used_memory
            dangling.append(key)
    return ProtectedSums(
        usage_cpu,
        usage_memory,
        request_cpu,
        request_memory,
        larger_cpu,
        larger_memory,
        tuple(unmeasured),
        tuple(dangling),
    )


def _unlisted(reported: dict[PodKey, PodUse], listed: set[PodKey]) -> Iterable[tuple[PodKey, PodUse]]:
    if reported.keys() <= listed:
        return ()
    return [(key, found) for key, found in reported.items() if key not in listed]
