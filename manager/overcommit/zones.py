"""Batch amounts per NUMA zone, for the node's NodeResourceTopology.

The same formulas as for the node, on each zone's allocatable. System usage and reservations are split evenly; a
pod bound to zones is split evenly over these, any other over all. Shares round up to a thousandth of a unit. Unlike
on node level, a pod without a report counts by its request under maxUsageRequest too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from koord.slo_config.strategy import Strategy
from manager.overcommit.amounts import ZERO, Amounts
from manager.overcommit.decision import Batch
from manager.overcommit.formula import Ledger, ResourceName, policy_of
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodKey, PodShare
from manager.overcommit.report import UsageReport


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone of the topology object, in its list order."""

    name: str
    allocatable: Amounts


@dataclass(slots=True)
class _Sums:
    usage: Amounts = ZERO
    requests: Amounts = ZERO
    larger: Amounts = ZERO

    def add(self, usage: Amounts, request: Amounts, larger: Amounts) -> None:
        self.usage = self.usage.plus(usage)
        self.requests = self.requests.plus(request)
        self.larger = self.larger.plus(larger)


def zone_amounts(
    zones: Sequence[Zone],
    facts: NodeFacts,
    report: UsageReport,
    pods: Sequence[PodShare],
    strategy: Strategy,
) -> dict[str, Batch]:
    """The batch amounts of each zone by name. zones must not be empty."""
    count = len(zones)
    sums = _zone_sums(count, pods, report)
    measured = report.system.plus(report.host_applications).split(count)
    kubelet, annotation = facts.kubelet_reserved.split(count), facts.annotation_reserved.split(count)
    cpu_policy, _ = policy_of("cpu", strategy.cpu_calculate_policy)
    memory_policy, _ = policy_of("memory", strategy.memory_calculate_policy)

    def batch(zone: Zone, own: _Sums, resource: ResourceName) -> int:
        is_cpu = resource == "cpu"
        position = 0 if is_cpu else 1
        return Ledger(
            resource=resource,
            policy=cpu_policy if is_cpu else memory_policy,
            capacity=zone.allocatable[position],
            reclaim_percent=(
                strategy.cpu_reclaim_threshold_percent if is_cpu else strategy.memory_reclaim_threshold_percent
            ),
            system_measured=measured[position],
            host_applications=0,
            kubelet_reserved=kubelet[position],
            annotation_reserved=annotation[position],
            protected_usage=own.usage[position],
            protected_requests=own.requests[position],
            protected_max=own.larger[position],
            cap_percent=strategy.batch_cpu_threshold_percent if is_cpu else strategy.batch_memory_threshold_percent,
        ).batch

    return {
        zone.name: Batch(batch(zone, own, "cpu"), batch(zone, own, "memory"))
        for zone, own in zip(zones, sums, strict=True)
    }


def _zone_sums(count: int, pods: Sequence[PodShare], report: UsageReport) -> list[_Sums]:
    sums = [_Sums() for _ in range(count)]
    listed: set[PodKey] = set()
    for pod in pods:
        if not pod.counted:
            continue
        listed.add(pod.key)
        if not pod.protected:
            continue
        found = report.pods.get(pod.key)
        use = pod.request if found is None else Amounts(found.cpu, found.memory)
        charged = Amounts(pod.request.cpu, use.memory) if pod.exclusive else use
        bound = [zone for zone in pod.zones if 0 <= zone < count] or range(count)
        parts = len(bound)
        for zone in bound:
            larger = use.at_least(pod.request)
            sums[zone].add(charged.split(parts), pod.request.split(parts), larger.split(parts))
    for key, (cpu, memory, protected) in report.pods.items():
        if protected and key not in listed:
            share = Amounts(cpu, memory).split(count)
            for zone_sums in sums:
                zone_sums.add(share, ZERO, share)
    return sums
