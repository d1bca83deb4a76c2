"""Adding up what the pods of one node use, request and hold."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from manager.overcommit.amounts import Amounts
from manager.overcommit.pod_share import PodKey, PodShare
from manager.overcommit.report import PodUse, UsageReport


@dataclass(frozen=True, slots=True)
class PodSums:
    """Sums over the pods of a node, nano units.

    Over protected pods: usage counts a pod without a report by its request, and an LSE pod's cpu always by its
    request; request; larger is max(request, usage), over reported pods only. mid_usage and mid_request: the part of
    usage and request that is mid pods'. batch_usage: what unprotected pods were reported to use. held_batch and
    held_mid: what pods hold of the tiers' resources, in cores and bytes. unmeasured: pods counted by request for want
    of a report. dangling: reported pods that are not (or no longer) listed as running, counted by their reported use.
    """

    usage: Amounts
    request: Amounts
    larger: Amounts
    mid_usage: Amounts
    mid_request: Amounts
    batch_usage: Amounts
    held_batch: Amounts
    held_mid: Amounts
    unmeasured: tuple[PodKey, ...]
    dangling: tuple[PodKey, ...]


def add_up(pods: Collection[PodShare], report: UsageReport) -> PodSums:
    """The sums over the pods of a node. Pods that are not counted are as if absent."""
    reported = report.pods
    usage_cpu = usage_memory = request_cpu = request_memory = larger_cpu = larger_memory = 0
    batch_cpu = batch_memory = 0
    unmeasured: list[PodKey] = []
    matched = 0
    others: list[PodShare] = []
    for share in pods:
        key, _, counted, protected, exclusive, (asked_cpu, asked_memory), _, _, mid, _ = share
        if not counted:
            continue
        found = reported.get(key)
        if found is not None:
            matched += 1
        if not protected:
            others.append(share)
            if found is not None:
                batch_cpu += found[0]
                batch_memory += found[1]
            continue
        if mid:
            others.append(share)
        request_cpu += asked_cpu
        request_memory += asked_memory
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
    for key, (used_cpu, used_memory, protected) in _unlisted(reported, pods, matched):
        if protected:
            usage_cpu += used_cpu
            usage_memory += used_memory
            larger_cpu += used_cpu
            larger_memory += used_memory
            dangling.append(key)
        else:
            batch_cpu += used_cpu
            batch_memory += used_memory
    return PodSums(
        Amounts(usage_cpu, usage_memory),
        Amounts(request_cpu, request_memory),
        Amounts(larger_cpu, larger_memory),
        *_of_others(others, reported),
        Amounts(batch_cpu, batch_memory),
        *_held(others),
        tuple(unmeasured),
        tuple(dangling),
    )


def _of_others(others: Iterable[PodShare], reported: dict[PodKey, PodUse]) -> tuple[Amounts, Amounts]:
    """Usage and requests of the mid pods among the given ones, counted as protected pods are."""
    usage_cpu = usage_memory = request_cpu = request_memory = 0
    for share in others:
        if not share.mid:
            continue
        request_cpu += share.request.cpu
        request_memory += share.request.memory
        found = reported.get(share.key)
        used_cpu, used_memory = share.request if found is None else found[:2]
        usage_cpu += share.request.cpu if share.exclusive else used_cpu
        usage_memory += used_memory
    return Amounts(usage_cpu, usage_memory), Amounts(request_cpu, request_memory)


def _held(others: Iterable[PodShare]) -> tuple[Amounts, Amounts]:
    batch_cpu = batch_memory = mid_cpu = mid_memory = 0
    for share in others:
        cpu, memory = share.held
        if share.mid:
            mid_cpu += cpu
            mid_memory += memory
        else:
            batch_cpu += cpu
            batch_memory += memory
    return Amounts(batch_cpu, batch_memory), Amounts(mid_cpu, mid_memory)


def held(pods: Iterable[PodShare]) -> tuple[Amounts, Amounts]:
    """What counted pods hold of the batch and of the mid resources, when there is no report to add up."""
    return _held([share for share in pods if share.counted and (share.mid or not share.protected)])


def _unlisted(
    reported: dict[PodKey, PodUse], pods: Collection[PodShare], matched: int
) -> Iterable[tuple[PodKey, PodUse]]:
    """The reported pods of which none is listed and counted; `matched` is how many are."""
    if matched == len(reported):
        return ()
    listed = {share.key for share in pods if share.counted}
    return [(key, found) for key, found in reported.items() if key not in listed]
