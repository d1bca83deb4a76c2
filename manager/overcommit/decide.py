"""Deciding the batch and mid resources of one node from its facts, its report and its pods."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from koord.slo_config.resolve import Resolved
from manager.overcommit import staleness
from manager.overcommit.amounts import Offer, ceil_div, to_offer
from manager.overcommit.damping import NOTHING_RECENT, Recent, damp
from manager.overcommit.decision import Calculation, Cut, NodeDecision, Reason
from manager.overcommit.formula import Ledger, policy_of
from manager.overcommit.joint import joint_ledger
from manager.overcommit.mid import STATIC, MidLedger
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.peak import NO_BURST, Burst, Usage, estimate
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import UsageReport
from manager.overcommit.shortage import TierName, shortage
from manager.overcommit.staleness import Freshness
from manager.overcommit.sums import PodSums, add_up, held


@dataclass(frozen=True, slots=True)
class Memory:
    """What the manager remembers of a node beyond the objects: nothing of it is used by default."""

    batch: Recent = NOTHING_RECENT
    mid: Recent = NOTHING_RECENT
    past: tuple[Usage, ...] = ()


NO_MEMORY = Memory()


def decide(
    facts: NodeFacts,
    report: UsageReport | None,
    pods: Collection[PodShare],
    resolved: Resolved,
    now_s: float,
    cpu_normalization: float | None = None,
    memory: Memory = NO_MEMORY,
) -> NodeDecision:
    """The resources that the node should show at `now_s` (epoch seconds by the manager's clock).

    report None: there is no NodeMetric. cpu_normalization: the node's ratio, None when it has none.
    """
    expires_at_s = expiry_s(report, resolved)
    reason = _reason(report, resolved, expires_at_s, now_s)
    age_s = None if report is None or report.updated_s is None else now_s - report.updated_s
    if reason is not Reason.CALCULATED or report is None or expires_at_s is None:
        return _removed(facts, report, pods, resolved, reason, age_s, expires_at_s)
    sums = add_up(pods, report)
    calculation, policy_notes = _calculate(facts, report, sums, resolved, memory.past)
    stale = staleness.freshness(report.updated_s or 0.0, expires_at_s, resolved, now_s)
    cutter = _Cutter(facts, resolved, calculation, to_offer(sums.held_batch), to_offer(sums.held_mid))
    batch, mid = cutter.joint(calculation.batch, calculation.mid)
    batch = Offer(normalized(batch.cpu, cpu_normalization), batch.memory)
    batch, mid = cutter.stale(batch, mid, stale, age_s)
    origin, mid_published, look_again_s = cutter.damped(batch, mid, memory)
    published = origin.minus(facts.third_party)
    shortages = (
        shortage(TierName.BATCH, published, cutter.held_batch),
        shortage(TierName.MID, mid_published, cutter.held_mid),
    )
    pod_notes = [share.problem for share in pods if share.problem]
    moments = [stale.next_look_s, None if look_again_s is None else now_s + look_again_s]
    return NodeDecision(
        node=facts.name,
        reason=reason,
        resolved=resolved,
        origin=origin,
        published=published,
        mid_published=mid_published,
        calculation=calculation,
        target=batch,
        mid_target=mid,
        cpu_normalization=cpu_normalization,
        third_party=facts.third_party,
        held_batch=cutter.held_batch,
        held_mid=cutter.held_mid,
        cuts=tuple(cutter.cuts),
        shortages=tuple(short for short in shortages if short is not None),
        freshness=stale,
        report_age_s=age_s,
        expires_at_s=expires_at_s,
        look_again_s=min((moment for moment in moments if moment is not None), default=None),
        unmeasured=sums.unmeasured,
        dangling=sums.dangling,
        notes=(*facts.problems, *resolved.notes, *policy_notes, *report.problems, *pod_notes, *cutter.notes),
    )


def expiry_s(report: UsageReport | None, resolved: Resolved) -> float | None:
    """The last moment (epoch seconds) at which the report may be used; None when there is no dated report."""
    if report is None or report.updated_s is None:
        return None
    return report.updated_s + resolved.strategy.degrade_time_minutes * 60


def normalized(batch_cpu_milli: int, ratio: float | None) -> int:
    """batch-cpu scaled to the node's normalized cores, rounded up; a ratio of 1 or less changes nothing."""
    if ratio is None or ratio <= 1.0:
        return batch_cpu_milli
    return ceil_div(int(float(batch_cpu_milli * 1000) * ratio), 1000)


def _reason(report: UsageReport | None, resolved: Resolved, expires_at_s: float | None, now_s: float) -> Reason:
    if not resolved.cluster_enabled:
        return Reason.CLUSTER_DISABLED
    if not resolved.enabled:
        return Reason.NODE_DISABLED
    if report is None:
        return Reason.NO_REPORT
    if expires_at_s is None:
        return Reason.REPORT_WITHOUT_TIME
    if now_s > expires_at_s:
        return Reason.REPORT_EXPIRED
    return Reason.CALCULATED if report.usable else Reason.REPORT_UNUSABLE


def _removed(
    facts: NodeFacts,
    report: UsageReport | None,
    pods: Collection[PodShare],
    resolved: Resolved,
    reason: Reason,
    age_s: float | None,
    expires_at_s: float | None,
) -> NodeDecision:
    held_batch, held_mid = (to_offer(amounts) for amounts in held(pods))
    shortages = (shortage(TierName.BATCH, None, held_batch), shortage(TierName.MID, None, held_mid))
    return NodeDecision(
        node=facts.name,
        reason=reason,
        resolved=resolved,
        held_batch=held_batch,
        held_mid=held_mid,
        shortages=tuple(short for short in shortages if short is not None),
        report_age_s=age_s,
        expires_at_s=expires_at_s,
        notes=(*facts.problems, *resolved.notes, *(report.problems if report else ())),
    )


class _Cutter:
    """The steps between the formulas and the node that can only make less of an offer, each leaving its trace."""

    def __init__(
        self, facts: NodeFacts, resolved: Resolved, calculation: Calculation, held_batch: Offer, held_mid: Offer
    ) -> None:
        self._facts = facts
        self._options = resolved.options
        self._calculation = calculation
        self.held_batch = held_batch
        self.held_mid = held_mid
        self.cuts: list[Cut] = []
        self.notes: list[str] = []

    def joint(self, batch: Offer, mid: Offer) -> tuple[Offer, Offer]:
        """Enforce the joint ledger, or say what is sold twice without it."""
        cpu, memory = self._calculation.joint_cpu, self._calculation.joint_memory
        if not (cpu.sold_twice or memory.sold_twice):
            return batch, mid
        if not self._options.joint_ledger:
            self.notes.append(
                f"mid and batch are offered the same resources: {cpu.sold_twice}m cpu, {memory.sold_twice} bytes of"
                " memory more than there is beside production; extensions.koord.jointLedger ends that"
            )
            return batch, mid
        why = "peak of production + mid + batch <= capacity - reserve"
        return (
            self._cut(TierName.BATCH, "joint ledger", batch, Offer(cpu.batch_paid, memory.batch_paid), why),
            self._cut(TierName.MID, "joint ledger", mid, Offer(cpu.mid_paid, memory.mid_paid), why),
        )

    def stale(self, batch: Offer, mid: Offer, stale: Freshness, age_s: float | None) -> tuple[Offer, Offer]:
        """Let the offers decay with the age of the report, down to what is held."""
        if stale.share >= 1.0:
            return batch, mid
        why = f"the report is {age_s or 0:.0f} s old: {stale.share:.0%} of what no running pod holds is left"
        floor = self.held_batch.plus(self._facts.third_party)
        return (
            self._cut(TierName.BATCH, "stale report", batch, staleness.decayed(batch, floor, stale.share), why),
            self._cut(TierName.MID, "stale report", mid, staleness.decayed(mid, self.held_mid, stale.share), why),
        )

    def damped(self, batch: Offer, mid: Offer, memory: Memory) -> tuple[Offer, Offer, float | None]:
        """Slow down growth; also gives the seconds after which more may be due."""
        options = self._options.damping
        if not options.is_on:
            return batch, mid, None
        facts, capacity = self._facts, to_offer(self._facts.capacity)
        shown = facts.shown(TierName.BATCH)
        batch_shown = None if shown is None else shown.plus(facts.third_party)
        grown = damp(batch, batch_shown, capacity, options, memory.batch)
        mid_grown = damp(mid, facts.shown(TierName.MID), capacity, options, memory.mid)
        why = "grows slowly, as extensions.koord.damping says"
        moments = [moment for moment in (grown.look_again_s, mid_grown.look_again_s) if moment is not None]
        return (
            self._cut(TierName.BATCH, "damping", batch, grown.offer, why),
            self._cut(TierName.MID, "damping", mid, mid_grown.offer, why),
            min(moments, default=None),
        )

    def _cut(self, tier: TierName, by: str, before: Offer, after: Offer, why: str) -> Offer:
        if before != after:
            self.cuts.append(Cut(tier, by, before, after, why))
        return after


def _calculate(
    facts: NodeFacts, report: UsageReport, sums: PodSums, resolved: Resolved, past: Sequence[Usage]
) -> tuple[Calculation, tuple[str, ...]]:
    strategy = resolved.strategy
    cpu_policy, cpu_note = policy_of("cpu", strategy.cpu_calculate_policy)
    memory_policy, memory_note = policy_of("memory", strategy.memory_calculate_policy)
    burst = _burst(facts, report, sums, resolved, past)
    cpu = Ledger(
        resource="cpu",
        policy=cpu_policy,
        capacity=facts.capacity.cpu,
        reclaim_percent=strategy.cpu_reclaim_threshold_percent,
        system_measured=report.system.cpu,
        host_applications=report.host_applications.cpu,
        kubelet_reserved=facts.kubelet_reserved.cpu,
        annotation_reserved=facts.annotation_reserved.cpu,
        protected_usage=sums.usage.cpu,
        protected_requests=sums.request.cpu,
        protected_max=sums.larger.cpu,
        cap_percent=strategy.batch_cpu_threshold_percent,
        peak_burst=burst.amounts.cpu,
    )
    memory = Ledger(
        resource="memory",
        policy=memory_policy,
        capacity=facts.capacity.memory,
        reclaim_percent=strategy.memory_reclaim_threshold_percent,
        system_measured=report.system.memory,
        host_applications=report.host_applications.memory,
        kubelet_reserved=facts.kubelet_reserved.memory,
        annotation_reserved=facts.annotation_reserved.memory,
        protected_usage=sums.usage.memory,
        protected_requests=sums.request.memory,
        protected_max=sums.larger.memory,
        cap_percent=strategy.batch_memory_threshold_percent,
        peak_burst=burst.amounts.memory,
    )
    mid_cpu, mid_memory = _mid_ledgers(facts, report, sums, resolved)
    batch, mid = Offer(cpu.batch, memory.batch), Offer(mid_cpu.mid, mid_memory.mid)
    calculation = Calculation(
        batch=batch,
        mid=mid,
        cpu=cpu,
        memory=memory,
        mid_cpu=mid_cpu,
        mid_memory=mid_memory,
        joint_cpu=joint_ledger(cpu, batch.cpu, sums.mid_usage.cpu, mid.cpu),
        joint_memory=joint_ledger(memory, batch.memory, sums.mid_usage.memory, mid.memory),
        sums=sums,
        burst=burst,
    )
    return calculation, tuple(note for note in (cpu_note, memory_note) if note)


def _burst(facts: NodeFacts, report: UsageReport, sums: PodSums, resolved: Resolved, past: Sequence[Usage]) -> Burst:
    if not resolved.options.peak.is_on:
        return NO_BURST
    system = report.system.plus(report.host_applications)
    system = system.at_least(facts.kubelet_reserved).at_least(facts.annotation_reserved)
    return estimate(resolved.options.peak, report, sums, system, past)


def _mid_ledgers(
    facts: NodeFacts, report: UsageReport, sums: PodSums, resolved: Resolved
) -> tuple[MidLedger, MidLedger]:
    strategy = resolved.strategy
    is_static = strategy.mid_reclaim_mode == STATIC
    reserved = facts.kubelet_reserved.at_least(facts.annotation_reserved)
    usage: tuple[int, int] | tuple[None, None] = (None, None) if report.node_usage is None else report.node_usage
    cpu = MidLedger(
        resource="cpu",
        capacity=facts.capacity.cpu,
        threshold_percent=strategy.mid_cpu_threshold_percent,
        static_percent=strategy.mid_static_cpu_reserved_percent if is_static else None,
        reclaimable=report.prod_reclaimable.cpu,
        node_usage=usage[0],
        unallocated_percent=strategy.mid_unallocated_percent,
        system_measured=report.system.cpu,
        host_production=report.host_production.cpu,
        reserved=reserved.cpu,
        production_requests=sums.request.cpu - sums.mid_request.cpu,
    )
    memory = MidLedger(
        resource="memory",
        capacity=facts.capacity.memory,
        threshold_percent=strategy.mid_memory_threshold_percent,
        static_percent=strategy.mid_static_memory_reserved_percent if is_static else None,
        reclaimable=report.prod_reclaimable.memory,
        node_usage=usage[1],
        unallocated_percent=strategy.mid_unallocated_percent,
        system_measured=report.system.memory,
        host_production=report.host_production.memory,
        reserved=reserved.memory,
        production_requests=sums.request.memory - sums.mid_request.memory,
    )
    return cpu, memory
