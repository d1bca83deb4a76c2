"""An explanation of a node as text for a person, and as JSON for a program."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from koord.api import quantity
from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.options import Options
from koordctl.colocation_objects import LEASE_NAME, ColocationObjects
from manager.overcommit.account import account_of
from manager.overcommit.amounts import Offer
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.explain import Explanation
from manager.overcommit.node_facts import NOT_SHOWN, Shown
from manager.overcommit.pod_share import PodShare
from manager.overcommit.shortage import RESOURCE_NAMES, TierName
from manager.overcommit.staleness import Stage, hold_s
from manager.overcommit.terms import Term, terms_of
from manager.overcommit.write_rule import WriteReason

_GIB: Final = 2**30
_NANO: Final = 10**9
_REASONS: Final = {
    Reason.CALCULATED: "the formulas apply",
    Reason.CLUSTER_DISABLED: "nothing is offered: colocation is off for the cluster (enable is not true)",
    Reason.NODE_DISABLED: "nothing is offered: colocation is off for this node",
    Reason.NO_REPORT: "nothing is offered: there is no NodeMetric, so no agent reports for this node",
    Reason.REPORT_WITHOUT_TIME: "nothing is offered: the NodeMetric holds no report yet",
    Reason.REPORT_EXPIRED: "nothing is offered: the last report is too old",
    Reason.REPORT_UNUSABLE: "nothing is offered: the last report lacks the node's usage",
}
_VERDICTS: Final = {
    WriteReason.UNCHANGED: "The node shows it; nothing is to be written.",
    WriteReason.BELOW_THRESHOLD: "The node shows something close; the difference waits for the update interval.",
    WriteReason.APPEARS: "It is to be written now: a resource appears.",
    WriteReason.DISAPPEARS: "It is to be written now: a resource is removed.",
    WriteReason.MOVED: "It is to be written now: the difference exceeds resourceDiffThreshold.",
    WriteReason.METADATA: "It is to be written now: a ratio annotation or a label differs.",
    WriteReason.OVERDUE: "It is to be written now: a small difference has waited for the update interval.",
}


def as_text(found: Explanation, objects: ColocationObjects, now_s: float, source: str) -> list[str]:
    """The report's lines. source: the ConfigMap, as a person would name it."""
    decision = found.decision
    lines = [f"Node {decision.node}, as of {format_rfc3339(now_s)}", ""]
    lines += _offers(found)
    lines += ["", f"Why: {_REASONS[decision.reason]}.", *(f"  {line}" for line in _report_lines(found, now_s))]
    lines += ["", *_strategy(found, source)]
    for tier in TierName:
        for resource in ("cpu", "memory"):
            rows = [term for term in terms_of(decision) if term.tier is tier and term.resource == resource]
            if rows:
                lines += ["", f"{tier} {resource}", *_term_table(rows)]
    lines += _pods(found)
    lines += ["", "Written", *(f"  {line}" for line in _writing(found, objects, now_s))]
    notes = [*objects.problems, *decision.notes]
    if notes:
        lines += ["", "Notes", *(f"  - {note}" for note in notes)]
    return lines


def _offers(found: Explanation) -> Iterator[str]:
    decision, facts = found.decision, found.facts
    held = {TierName.BATCH: decision.held_batch, TierName.MID: decision.held_mid}
    rows = [("", "should offer", "node shows", "running pods hold")]
    for tier, offer in decision.offers().items():
        for position, name in enumerate(RESOURCE_NAMES[tier]):
            unit = _cores if position == 0 else _gib
            should = "none" if offer is None else unit(offer[position])
            rows.append(
                (name, should, _shown(facts.published.get(name, NOT_SHOWN), unit), unit(held[tier][position]))
            )
    yield from _table(rows)
    for short in decision.shortages:
        yield f"  short: {short.message()}"


def _report_lines(found: Explanation, now_s: float) -> Iterator[str]:
    decision = found.decision
    if decision.report_age_s is None or decision.expires_at_s is None:
        return
    age = f"{decision.report_age_s:.0f} s old"
    if decision.reason is Reason.REPORT_EXPIRED:
        yield f"The report is {age}; its end was at {format_rfc3339(decision.expires_at_s)} (degradeTimeMinutes)."
        return
    stage = (
        "fresh" if decision.freshness.stage is Stage.FRESH else f"{decision.freshness.share:.0%} of it still counts"
    )
    until = format_rfc3339(decision.expires_at_s)
    yield f"The report is {age} ({stage}); without a newer one nothing is offered after {until}."
    fades_s = decision.expires_at_s - found.resolved.strategy.degrade_time_minutes * 60 + hold_s(found.resolved)
    if now_s < fades_s < decision.expires_at_s:
        yield f"The offer would begin to shrink at {format_rfc3339(fades_s)}."


def _strategy(found: Explanation, source: str) -> Iterator[str]:
    resolved, facts = found.resolved, found.facts
    yield f"Strategy in force ({source}, key colocation-config, unless another source is named)"
    rows = [
        (field, _value(value), resolved.source_of(field))
        for field, value in sorted(resolved.effective.items())
        if field != "extensions"
    ]
    yield from _table(rows)
    options = msgspec.to_builtins(resolved.options)
    if resolved.options != Options():
        yield f"  extensions.koord  {msgspec.json.encode(options).decode()}  {resolved.source_of('extensions')}"
    config = found.configuration.colocation
    if config is not None and config.entries:
        yield "  nodeConfigs:"
        yield from (f"    {line}" for line in _entries(config, facts.labels))


def _entries(config: ColocationConfig, labels: Any) -> Iterator[str]:
    chosen = config.entry_for(labels)
    for entry in config.entries:
        if entry.problem:
            verdict = f"passed over: {entry.problem}"
        elif entry is chosen:
            verdict = "applies"
        elif entry.selector is not None and entry.selector.matches(labels):
            verdict = "matches too, but an earlier one applies"
        else:
            verdict = "does not match this node's labels"
        yield f"{entry.label()}: {verdict}"


def _term_table(terms: list[Term]) -> Iterator[str]:
    yield from _table([(term.name, _readable(term), term.source) for term in terms])


def _readable(term: Term) -> str:
    """Byte counts also in GiB, milli-cores also in cores."""
    if not term.amount[:1].isdigit() and term.amount[:1] != "-":
        return term.amount
    if "ercent" in term.name or term.name == "cpuNormalization":
        return term.amount
    try:
        amount = quantity.nano(term.amount) / _NANO
    except quantity.InvalidQuantity:
        return term.amount
    if term.resource == "memory":
        return f"{term.amount} ({amount / _GIB:.2f} GiB)" if abs(amount) >= _GIB / 100 else term.amount
    in_milli = term.name in ("calculated", "published", "held", "thirdParty", "afterNormalization", "jointLedger")
    return f"{term.amount} ({amount / 1000:g} cores)" if in_milli and amount else term.amount


def _pods(found: Explanation) -> Iterator[str]:
    decision, report = found.decision, found.report
    if decision.calculation is None or report is None:
        return
    rows = [("pod", "class", "asks", "uses", "counts as")]
    listed = set()
    for share in sorted(found.pods, key=lambda share: share.key):
        if not share.counted:
            continue
        listed.add(share.key)
        use = report.pods.get(share.key)
        uses = "not measured" if use is None else _pair(use.cpu, use.memory)
        rows.append(
            ("/".join(share.key), _class(share), _pair(*share.request), uses, _counts_as(share, use is not None))
        )
    for key, use in sorted(report.pods.items()):
        if key not in listed:
            band = "production" if use.protected else "batch"
            how = "its usage: it ended, but the report still has it" if use.protected else "nothing"
            rows.append(("/".join(key), band, "-", _pair(use.cpu, use.memory), how))
    if len(rows) > 1:
        yield ""
        yield "Pods (cores, GiB)"
        yield from _table(rows)


def _class(share: PodShare) -> str:
    if not share.protected:
        return "batch"
    return "mid" if share.mid else "production"


def _counts_as(share: PodShare, measured: bool) -> str:
    if not share.protected:
        return "nothing: what it uses is what is being sold"
    if not measured:
        return "its request, until its first sample (0 under maxUsageRequest)"
    return "its cpu request (LSE) and memory usage" if share.exclusive else "its usage"


def _writing(found: Explanation, objects: ColocationObjects, now_s: float) -> Iterator[str]:
    last = found.last_offer
    if found.since_last_write_s is None:
        yield "The node bears no note of a write by the manager."
    else:
        by = f" by {last.by}" if last.by else ""
        report = f", on the report of {last.report}" if last.report else ""
        yield f"Last at {last.at} ({found.since_last_write_s:.0f} s ago){by}: {last.why}{report}."
    verdict = found.verdict
    yield _VERDICTS[verdict.reason] + (f" ({verdict.resource})" if verdict.resource else "")
    if verdict.retry_after_s is not None:
        yield f"It is due at {format_rfc3339(now_s + verdict.retry_after_s)}."
    if verdict.write:
        yield from _leader(objects.leases.get(LEASE_NAME))


def _leader(lease: JsonObject | None) -> Iterator[str]:
    if lease is None:
        yield f"If it is not: is a manager running? Its Lease {LEASE_NAME} was not found among what was read."
        return
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or "nobody"
    yield f"The manager that would write it: {holder}, which renewed its lease at {spec.get('renewTime', 'no time')}."


def as_json(found: Explanation, objects: ColocationObjects, now_s: float, source: str) -> str:
    """The same as one JSON object."""
    decision = found.decision
    document = {
        "node": decision.node,
        "asOf": format_rfc3339(now_s),
        "reason": str(decision.reason),
        "meaning": _REASONS[decision.reason],
        "offers": _json_offers(found),
        "report": _json_report(decision),
        "strategy": {
            "configMap": source,
            "enabled": found.resolved.enabled,
            "fields": {
                field: {"value": value, "source": found.resolved.source_of(field)}
                for field, value in sorted(found.resolved.effective.items())
            },
            "options": msgspec.to_builtins(found.resolved.options),
            "nodeConfigs": []
            if found.configuration.colocation is None
            else list(_entries(found.configuration.colocation, found.facts.labels)),
        },
        "terms": [term._asdict() for term in terms_of(decision)],
        "cuts": [
            {
                "tier": cut.tier,
                "by": cut.by,
                "before": cut.before._asdict(),
                "after": cut.after._asdict(),
                "why": cut.why,
            }
            for cut in decision.cuts
        ],
        "shortages": {str(short.tier): short.message() for short in decision.shortages},
        "unmeasured": ["/".join(key) for key in decision.unmeasured],
        "dangling": ["/".join(key) for key in decision.dangling],
        "account": {name: amount._asdict() for name, amount in _account(found).items()},
        "written": {
            "last": msgspec.to_builtins(found.last_offer) if found.since_last_write_s is not None else None,
            "secondsAgo": found.since_last_write_s,
            "verdict": str(found.verdict.reason),
            "write": found.verdict.write,
            "resource": found.verdict.resource,
            "dueInSeconds": found.verdict.retry_after_s,
        },
        "notes": [*objects.problems, *decision.notes],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _account(found: Explanation) -> dict[str, Offer]:
    account = account_of(found.decision, found.facts.capacity)
    return {
        "capacity": account.capacity,
        "batchUsed": account.batch_used,
        "productionUsed": account.production_used,
        "violated": account.violated,
    }


def _json_offers(found: Explanation) -> dict[str, Any]:
    decision = found.decision
    held = {TierName.BATCH: decision.held_batch, TierName.MID: decision.held_mid}
    document: dict[str, Any] = {}
    for tier, offer in decision.offers().items():
        for position, name in enumerate(RESOURCE_NAMES[tier]):
            capacity, allocatable = found.facts.published.get(name, NOT_SHOWN)
            document[name] = {
                "decided": None if offer is None else offer[position],
                "shown": {"capacity": capacity, "allocatable": allocatable},
                "held": held[tier][position],
            }
    return document


def _json_report(decision: NodeDecision) -> dict[str, Any] | None:
    if decision.expires_at_s is None:
        return None
    return {
        "ageSeconds": decision.report_age_s,
        "expiresAt": format_rfc3339(decision.expires_at_s),
        "stage": str(decision.freshness.stage),
        "share": decision.freshness.share,
    }


def _shown(texts: Shown, unit: Callable[[int], str]) -> str:
    """What stands on the node; capacity and allocatable apart when they differ."""
    capacity, allocatable = (None if text is None else _or_text(text, unit) for text in texts)
    if capacity == allocatable:
        return allocatable or "none"
    return f"allocatable {allocatable or 'none'}, capacity {capacity or 'none'}"


def _or_text(text: str, unit: Callable[[int], str]) -> str:
    try:
        return unit(quantity.value(text))
    except quantity.InvalidQuantity:
        return f'"{text}", which cannot be read'


def _cores(milli: int) -> str:
    return f"{milli} ({milli / 1000:g} cores)"


def _gib(amount: int) -> str:
    return f"{amount} ({amount / _GIB:.2f} GiB)"


def _pair(cpu_nano: int, memory_nano: int) -> str:
    return f"{cpu_nano / _NANO:.3g}, {memory_nano / _NANO / _GIB:.3g}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows with aligned columns, indented by two; the last column is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        yield "  " + "  ".join([*cells, row[-1]]).rstrip()
