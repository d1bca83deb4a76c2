"""A decision as a list of terms: every number with its name, and the object and field it is from."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from koord.api import names, quantity
from manager.overcommit.amounts import NO_OFFER
from manager.overcommit.decision import Calculation, NodeDecision
from manager.overcommit.formula import Ledger, ResourceName
from manager.overcommit.joint import JointLedger
from manager.overcommit.mid import MidLedger
from manager.overcommit.shortage import RESOURCE_NAMES, TierName

_SHOWN_PODS = 20
_POSITION = {"cpu": 0, "memory": 1}


class Term(NamedTuple):
    """One number of a formula. amount: a quantity text (cores or bytes), a percent or a name; source: the object and
    field it is from, or how it follows from the terms above it."""

    tier: TierName
    resource: str
    name: str
    amount: str
    source: str


def terms_of(decision: NodeDecision) -> tuple[Term, ...]:
    """Every term of all formulas in the order they are applied; empty when nothing was calculated."""
    calculation = decision.calculation
    if calculation is None:
        return ()
    found: list[Term] = []
    for ledger, mid, joint in (
        (calculation.cpu, calculation.mid_cpu, calculation.joint_cpu),
        (calculation.memory, calculation.mid_memory, calculation.joint_memory),
    ):
        resource = ledger.resource
        found += [Term(TierName.BATCH, resource, *row) for row in _batch(decision, calculation, ledger)]
        found += [Term(TierName.BATCH, resource, *row) for row in _joint(decision, joint, TierName.BATCH)]
        found += [Term(TierName.BATCH, resource, *row) for row in _published_batch(decision, resource)]
        found += [Term(TierName.MID, resource, *row) for row in _mid(decision, mid)]
        found += [Term(TierName.MID, resource, *row) for row in _joint(decision, joint, TierName.MID)]
        found += [Term(TierName.MID, resource, *row) for row in _published_mid(decision, resource)]
    return tuple(found)


def _amount(nano: int | None) -> str:
    return "none" if nano is None else quantity.format_nano(nano)


def _batch(decision: NodeDecision, calculation: Calculation, ledger: Ledger) -> Iterator[tuple[str, str, str]]:
    resource, strategy = ledger.resource, decision.resolved
    node, report = f"Node/{decision.node}", f"NodeMetric/{decision.node}"
    cap_field = "batchCPUThresholdPercent" if resource == "cpu" else "batchMemoryThresholdPercent"
    burst_by = calculation.burst.cpu_by if resource == "cpu" else calculation.burst.memory_by
    reclaim, policy = f"{resource}ReclaimThresholdPercent", f"{resource}CalculatePolicy"
    yield "capacity", _amount(ledger.capacity), f"{node} status.capacity[{resource}]"
    yield "reclaimPercent", str(ledger.reclaim_percent), f"{reclaim}: {strategy.source_of(reclaim)}"
    yield "margin", _amount(ledger.margin), "(100 - reclaimPercent) % of capacity"
    yield "systemUsage", _amount(ledger.system_measured), f"{report} status.nodeMetric.systemUsage[{resource}]"
    yield (
        "hostApplications",
        _amount(ledger.host_applications),
        f"{report} status.hostApplicationMetric, prod and mid",
    )
    yield "kubeletReserved", _amount(ledger.kubelet_reserved), f"{node} status.capacity - status.allocatable"
    yield (
        "annotationReserved",
        _amount(ledger.annotation_reserved),
        f"{node} annotation {names.ANNOTATION_NODE_RESERVATION}",
    )
    yield "system", _amount(ledger.system), "max(systemUsage + hostApplications, kubeletReserved, annotationReserved)"
    yield "protectedUsage", _amount(ledger.protected_usage), f"{report} status.podsMetric; requests where unmeasured"
    yield "protectedRequests", _amount(ledger.protected_requests), "Pods' spec, production and mid"
    yield "protectedMax", _amount(ledger.protected_max), "max(request, usage) of each measured pod"
    yield "policy", ledger.policy, f"{policy}: {strategy.source_of(policy)}"
    if strategy.options.peak.is_on:
        yield "peakBurst", _amount(ledger.peak_burst), burst_by or "no predictor has its input"
        yield "peak", _amount(ledger.peak), "system + protectedUsage + peakBurst"
    yield "charged", _amount(ledger.charged), _charge(ledger)
    yield "cap", _amount(ledger.cap), f"{cap_field}: {strategy.source_of(cap_field)}"
    formula = "max(capacity - margin - charged, 0)" + (", at most cap" if ledger.cap is not None else "")
    yield "calculated", str(ledger.batch), formula


def _charge(ledger: Ledger) -> str:
    by_policy = {
        "usage": "system + protectedUsage",
        "request": "max(kubeletReserved, annotationReserved) + protectedRequests",
        "maxUsageRequest": "system + protectedMax",
    }[ledger.policy]
    return f"max({by_policy}, peak)" if ledger.peak_burst else by_policy


def _mid(decision: NodeDecision, mid: MidLedger) -> Iterator[tuple[str, str, str]]:
    resource, strategy = mid.resource, decision.resolved
    node, report = f"Node/{decision.node}", f"NodeMetric/{decision.node}"
    upper = "CPU" if resource == "cpu" else "Memory"
    threshold, static = f"mid{upper}ThresholdPercent", f"midStatic{upper}ReservedPercent"
    yield "capacity", _amount(mid.capacity), f"{node} status.capacity[{resource}]"
    if mid.static_percent is not None:
        yield "mode", "static", f"midReclaimMode: {strategy.source_of('midReclaimMode')}"
        yield "staticPercent", str(mid.static_percent), f"{static}: {strategy.source_of(static)}"
        yield "base", _amount(mid.base), "staticPercent % of capacity"
    else:
        yield "mode", "dynamic", f"midReclaimMode: {strategy.source_of('midReclaimMode')}"
        yield "prodReclaimable", _amount(mid.reclaimable), f"{report} status.prodReclaimableMetric[{resource}]"
        yield "nodeUsage", _amount(mid.node_usage), f"{report} status.nodeMetric.nodeUsage[{resource}]"
        yield "free", _amount(mid.free), "capacity - nodeUsage; 0 when the report lacks cpu or memory"
        yield "reclaimed", _amount(mid.reclaimed), "max(min(prodReclaimable, free), 0)"
        yield "systemUsage", _amount(mid.system_measured), f"{report} status.nodeMetric.systemUsage[{resource}]"
        yield "hostProduction", _amount(mid.host_production), f"{report} status.hostApplicationMetric, prod"
        yield (
            "reserved",
            _amount(mid.reserved),
            f"the larger of {node} capacity - allocatable and annotation {names.ANNOTATION_NODE_RESERVATION}",
        )
        yield "system", _amount(mid.system), "max(systemUsage + hostProduction, reserved)"
        yield "productionRequests", _amount(mid.production_requests), "Pods' spec, production"
        yield "unallocated", _amount(mid.unallocated), "max(capacity - system - productionRequests, 0)"
        yield (
            "unallocatedPercent",
            str(mid.unallocated_percent),
            f"midUnallocatedPercent: {strategy.source_of('midUnallocatedPercent')}",
        )
        yield "base", _amount(mid.base), "reclaimed + unallocatedPercent % of unallocated"
    yield (
        "cap",
        _amount(mid.cap),
        f"{threshold} {mid.threshold_percent} % of capacity: {strategy.source_of(threshold)}",
    )
    yield "calculated", str(mid.mid), "min(base, cap)"


def _joint(decision: NodeDecision, joint: JointLedger, tier: TierName) -> Iterator[tuple[str, str, str]]:
    if not decision.resolved.options.joint_ledger:
        return
    yield "productionPeak", _amount(joint.production), "system + production's usage at its peak"
    if tier is TierName.MID:
        yield "jointLedger", str(joint.mid_paid), "min(calculated, capacity - productionPeak)"
    else:
        yield "jointLedger", str(joint.batch_paid), "min(calculated, capacity - productionPeak - mid)"


def _cuts(decision: NodeDecision, tier: TierName, resource: ResourceName) -> Iterator[tuple[str, str, str]]:
    for cut in decision.cuts:
        if cut.tier is tier and cut.by != "joint ledger":
            yield f"after {cut.by}", str(cut.after[_POSITION[resource]]), cut.why


def _published_batch(decision: NodeDecision, resource: ResourceName) -> Iterator[tuple[str, str, str]]:
    position = _POSITION[resource]
    node = f"Node/{decision.node}"
    if resource == "cpu" and decision.cpu_normalization:
        yield (
            "cpuNormalization",
            f"{decision.cpu_normalization:g}",
            f"{node} annotation {names.ANNOTATION_CPU_NORMALIZATION_RATIO}",
        )
    yield from _cuts(decision, TierName.BATCH, resource)
    yield (
        "afterNormalization",
        str(decision.origin[position]),
        "times cpuNormalization, less what the steps above cut",
    )
    yield (
        "thirdParty",
        str(decision.third_party[position]),
        f"{node} annotation {names.ANNOTATION_THIRD_PARTY_ALLOCATIONS}",
    )
    offered = (decision.published or NO_OFFER)[position]
    yield (
        "published",
        str(offered),
        f"{RESOURCE_NAMES[TierName.BATCH][position]}: max(afterNormalization - thirdParty, 0)",
    )
    yield "held", str(decision.held_batch[position]), f"running pods' {RESOURCE_NAMES[TierName.BATCH][position]}"


def _published_mid(decision: NodeDecision, resource: ResourceName) -> Iterator[tuple[str, str, str]]:
    position = _POSITION[resource]
    yield from _cuts(decision, TierName.MID, resource)
    offered = (decision.mid_published or NO_OFFER)[position]
    yield "published", str(offered), RESOURCE_NAMES[TierName.MID][position]
    yield "held", str(decision.held_mid[position]), f"running pods' {RESOURCE_NAMES[TierName.MID][position]}"


def as_log(decision: NodeDecision) -> dict[str, Any]:
    """The decision for a log line: reason, results, terms, cuts, and the pods that deserve a word.

    `terms` are the batch tier's, `mid_terms` the other's, by resource and name.
    """
    fields: dict[str, Any] = {"node": decision.node, "reason": str(decision.reason)}
    if decision.report_age_s is not None:
        fields["report_age_s"] = round(decision.report_age_s, 3)
    fields |= {name: amount for name, amount in decision.resources().items() if amount is not None}
    for term in terms_of(decision):
        title = "terms" if term.tier is TierName.BATCH else "mid_terms"
        fields.setdefault(title, {}).setdefault(term.resource, {})[term.name] = term.amount
    if decision.cuts:
        fields["cuts"] = [
            f"{cut.tier} by {cut.by}: {tuple(cut.before)} to {tuple(cut.after)}" for cut in decision.cuts
        ]
    if decision.shortages:
        fields["short"] = {str(short.tier): short.message() for short in decision.shortages}
    for title, pods in (("unmeasured", decision.unmeasured), ("dangling", decision.dangling)):
        if pods:
            fields[title] = [f"{namespace}/{name}" for namespace, name in pods[:_SHOWN_PODS]]
            fields[f"{title}_count"] = len(pods)
    if decision.notes:
        fields["notes"] = list(decision.notes)
    return fields
