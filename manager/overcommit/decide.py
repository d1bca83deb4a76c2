"""Deciding the batch resources of one node from its facts, its report and its pods."""

from collections.abc import Collection

from koord.slo_config.resolve import Resolved
from manager.overcommit.amounts import ceil_div
from manager.overcommit.decision import NO_BATCH, Batch, BatchDecision, Reason
from manager.overcommit.formula import Ledger, policy_of
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import UsageReport
from manager.overcommit.sums import ProtectedSums, add_up


def decide(
    facts: NodeFacts,
    report: UsageReport | None,
    pods: Collection[PodShare],
    resolved: Resolved,
    now_s: float,
    cpu_normalization: float | None = None,
) -> BatchDecision:
    """The batch resources that the node should show at `now_s` (epoch seconds by the manager's clock).

    report None: there is no NodeMetric. cpu_normalization: the node's ratio, None when it has none.
    """
    expires_at_s = expiry_s(report, resolved)
    reason = _reason(report, resolved, expires_at_s, now_s)
    age_s = None if report is None or report.updated_s is None else now_s - report.updated_s
    if reason is not Reason.CALCULATED or report is None:
        notes = (*facts.problems, *resolved.notes, *(report.problems if report else ()))
        return BatchDecision(
            facts.name, reason, resolved, NO_BATCH, None, report_age_s=age_s, expires_at_s=expires_at_s, notes=notes
        )
    sums = add_up(pods, report)
    cpu, memory, policy_notes = _ledgers(facts, report, sums, resolved)
    calculated = Batch(cpu.batch, memory.batch)
    origin = Batch(normalized(calculated.cpu, cpu_normalization), calculated.memory)
    third_party = Batch(*facts.third_party)
    published = Batch(max(origin.cpu - third_party.cpu, 0), max(origin.memory - third_party.memory, 0))
    pod_notes = [share.problem for share in pods if share.problem]
    return BatchDecision(
        node=facts.name,
        reason=reason,
        resolved=resolved,
        origin=origin,
        published=published,
        calculated=calculated,
        cpu=cpu,
        memory=memory,
        cpu_normalization=cpu_normalization,
        third_party=third_party,
        report_age_s=age_s,
        expires_at_s=expires_at_s,
        unmeasured=sums.unmeasured,
        dangling=sums.dangling,
        notes=(*facts.problems, *resolved.notes, *policy_notes, *report.problems, *pod_notes),
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


def _ledgers(
    facts: NodeFacts, report: UsageReport, sums: ProtectedSums, resolved: Resolved
) -> tuple[Ledger, Ledger, tuple[str, ...]]:
    strategy = resolved.strategy
    cpu_policy, cpu_note = policy_of("cpu", strategy.cpu_calculate_policy)
    memory_policy, memory_note = policy_of("memory", strategy.memory_calculate_policy)
    cpu = Ledger(
        resource="cpu",
        policy=cpu_policy,
        capacity=facts.capacity.cpu,
        reclaim_percent=strategy.cpu_reclaim_threshold_percent,
        system_measured=report.system.cpu,
        host_applications=report.host_applications.cpu,
        kubelet_reserved=facts.kubelet_reserved.cpu,
        annotation_reserved=facts.annotation_reserved.cpu,
        protected_usage=sums.usage_cpu,
        protected_requests=sums.request_cpu,
        protected_max=sums.larger_cpu,
        cap_percent=strategy.batch_cpu_threshold_percent,
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
        protected_usage=sums.usage_memory,
        protected_requests=sums.request_memory,
        protected_max=sums.larger_memory,
        cap_percent=strategy.batch_memory_threshold_percent,
    )
    return cpu, memory, tuple(note for note in (cpu_note, memory_note) if note)
