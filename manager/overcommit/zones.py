"""Batch amounts per NUMA zone, for the node's NodeResourceTopology.

The same formulas as for the node, on each zone's allocatable. System usage and reservations are split evenly; a
pod bound to zones is split evenly over these, any other over all. Shares round up to a thousandth of a unit. Unlike
on node level, a pod without a report counts by its request under maxUsageRequest too.

Where the node offers less than its formula gave (joint ledger, stale report, damping), each zone offers the same
fraction less, so that the zones never promise what the node does not.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from koord.slo_config.strategy import Strategy
from manager.overcommit.amounts import ZERO, Amounts, Offer
from manager.overcommit.decide import normalized
from manager.overcommit.decision import NodeDecision
from manager.overcommit.formula import Ledger, ResourceName, policy_of
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodKey, PodShare
from manager.overcommit.report import UsageReport


@dataclass(frozen=True, slots=True)
class ZoneFacts:
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
    zones: Sequence[ZoneFacts],
    facts: NodeFacts,
    report: UsageReport,
    pods: Collection[PodShare],
    strategy: Strategy,
) -> list[Offer]:
    """The formula's batch amount of each zone, in their order. zones must not be empty."""
    count = len(zones)
    sums = _zone_sums(count, pods, report)
    measured = report.system.plus(report.host_applications).split(count)
    kubelet, annotation = facts.kubelet_reserved.split(count), facts.annotation_reserved.split(count)
    cpu_policy, _ = policy_of("cpu", strategy.cpu_calculate_policy)
    memory_policy, _ = policy_of("memory", strategy.memory_calculate_policy)

    def batch(zone: ZoneFacts, own: _Sums, resource: ResourceName) -> int:
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

    return [Offer(batch(zone, own, "cpu"), batch(zone, own, "memory")) for zone, own in zip(zones, sums, strict=True)]


def offered_by_zones(
    zones: Sequence[ZoneFacts],
    facts: NodeFacts,
    report: UsageReport,
    pods: Collection[PodShare],
    decision: NodeDecision,
) -> list[Offer]:
    """What each zone should offer, as the node's decision has it: normalized, and cut where the node is."""
    amounts = zone_amounts(zones, facts, report, pods, decision.resolved.strategy)
    calculated = decision.calculated
    if calculated is None:
        return [Offer(0, 0)] * len(zones)
    ratio = decision.cpu_normalization
    whole = Offer(normalized(calculated.cpu, ratio), calculated.memory)
    left_cpu, left_memory = _left(whole.cpu, decision.origin.cpu), _left(whole.memory, decision.origin.memory)
    return [Offer(int(_times(amount.cpu, ratio) * left_cpu), int(amount.memory * left_memory)) for amount in amounts]


def _left(whole: int, offered: int) -> Fraction:
    return Fraction(offered, whole) if 0 <= offered < whole else Fraction(1)


def _times(cpu_milli: int, ratio: float | None) -> int:
    """Unlike the node's amount, a zone's is not rounded up again."""
    return cpu_milli if ratio is None or ratio <= 1.0 else int(float(cpu_milli) * ratio)


def _zone_sums(count: int, pods: Collection[PodShare], report: UsageReport) -> list[_Sums]:
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
        shares = (charged.split(parts), pod.request.split(parts), use.at_least(pod.request).split(parts))
        for zone in bound:
            sums[zone].add(*shares)
    for key, (cpu, memory, protected) in report.pods.items():
        if protected and key not in listed:
            share = Amounts(cpu, memory).split(count)
            for zone_sums in sums:
                zone_sums.add(share, ZERO, share)
    return sums
