"""Turns what a cycle did into log lines and metrics."""

import logging
from collections.abc import Mapping

from koordlet import metrics
from koordlet.protection import Protection
from koordlet.snapshot import Snapshot
from koordlet.suppress.strategy import Suppression
from koordlet.sysfs.changes import Applied, Owner

logger = logging.getLogger("koord.koordlet.decisions")

LISTED_CHANGES = 20
"""Changes that one log line names; the others are counted."""


def changes(applied: Applied, decisions: Mapping[Owner, object]) -> None:
    """One log line per owner whose files changed, with the whole decision; counters for the rest."""
    for owner in Owner:
        changed = [change for change in applied.changed if change.owner == owner]
        if not changed:
            continue
        restored = sum(change.is_restore for change in changed)
        metrics.WRITES.labels(owner).inc(len(changed) - restored)
        metrics.RESTORES.inc(restored)
        fields = {
            "strategy": str(owner),
            "changed": len(changed),
            "restored": restored,
            "changes": [
                {"group": one.group, "knob": str(one.knob), "from": one.before, "to": one.after}
                for one in changed[:LISTED_CHANGES]
            ],
            "decision": decisions.get(owner),
        }
        logger.info("control files changed", extra=fields)
    for failure in applied.failed:
        metrics.WRITE_FAILURES.labels(failure.knob).inc()
    for foreign in applied.foreign:
        metrics.FOREIGN.labels(foreign.owner).inc()
        fields = {"group": foreign.group, "knob": str(foreign.knob), "found": foreign.found, "left": foreign.left}
        logger.info("somebody else wrote a control file of ours", extra=fields)
    if applied.conflicts:
        logger.error("two strategies want one control file", extra={"files": applied.conflicts[:LISTED_CHANGES]})


def cycle(node_name: str, snapshot: Snapshot, suppression: Suppression, protection: Protection) -> None:
    """The gauges of one cycle."""
    sample = snapshot.sample
    if sample.node_cpu_cores is not None:
        metrics.NODE_USED_CPU.labels(node_name).set(sample.node_cpu_cores)
    if sample.node_memory is not None:
        metrics.NODE_USED_MEMORY.labels(node_name).set(sample.node_memory.used)
    if sample.best_effort_cpu_cores is not None:
        metrics.BE_SUPPRESS_BE_USED.labels(node_name).set(sample.best_effort_cpu_cores)
    if snapshot.sample_age_s is not None:
        metrics.SAMPLE_AGE.set(snapshot.sample_age_s)
    decision = suppression.last_decision
    if decision is not None and decision.budget is not None:
        metrics.BE_SUPPRESS_LS_USED.labels(node_name).set(decision.budget.protected_pods_milli / 1000)
        if decision.quota is not None:
            metrics.BE_SUPPRESS_CPU.labels(node_name, "cfsQuota").set(decision.quota.quota_us / 100_000)
        if decision.cpuset is not None:
            metrics.BE_SUPPRESS_CPU.labels(node_name, "cpuset").set(len(decision.cpuset.cpus))
    if protection.last_decision is not None:
        metrics.LEAST_WEIGHT_RATIO.set(protection.last_decision.least_ratio)
