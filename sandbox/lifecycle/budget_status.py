"""The status documents of PodDisruptionBudgets. Pure."""

from sandbox.admission.request import JsonObject
from sandbox.lifecycle.budget import Budget
from sandbox.lifecycle.pods import set_condition


def status_of(pdb: JsonObject, budget: Budget, now: str) -> JsonObject:
    """The status that tells a budget's numbers; unchanged numbers give an unchanged document."""
    status: JsonObject = {
        "observedGeneration": pdb["metadata"].get("generation", 0),
        "expectedPods": budget.expected,
        "desiredHealthy": budget.desired,
        "currentHealthy": budget.healthy,
        "disruptionsAllowed": budget.allowed,
        "conditions": (pdb.get("status") or {}).get("conditions") or [],
    }
    if budget.disrupted:
        status["disruptedPods"] = dict(budget.disrupted)
    allowed = budget.allowed > 0
    return set_condition(
        status,
        {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
        },
        now,
    )


def failed_status(pdb: JsonObject, why: str, now: str) -> JsonObject:
    """The status of a budget that cannot be computed: it allows nothing and says why."""
    status = {**(pdb.get("status") or {}), "disruptionsAllowed": 0}
    status["observedGeneration"] = pdb["metadata"].get("generation", 0)
    for key in ("expectedPods", "desiredHealthy", "currentHealthy"):
        status.setdefault(key, 0)
    entry = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": why}
    return set_condition(status, {**entry, "observedGeneration": status["observedGeneration"]}, now)
