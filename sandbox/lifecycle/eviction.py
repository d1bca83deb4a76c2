"""The eviction subresource: may this pod be taken away now, and what has to be written for it.

The decision reads the store as it is this moment, budgets included, and writes nothing. One event
loop owns the store, so what the caller writes without awaiting in between cannot be raced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.timestamps import format_rfc3339
from sandbox.admission.request import JsonObject, Reader
from sandbox.apiserver.status import Cause, StatusError, bad_request, conflict, not_found, too_many_requests
from sandbox.lifecycle.budget import Budget, ScaleUnknown, live_budget, selected_pods
from sandbox.lifecycle.budget_status import status_of
from sandbox.lifecycle.pods import is_finished, is_ready, is_terminating, phase, set_condition

_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE: Final = "DisruptionBudget"
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@dataclass(frozen=True)
class Granted:
    """An eviction that may go ahead. Write in this order, all in one go.

    budget: the PodDisruptionBudget with its new status, None when none changes (dry runs included).
    pod: the pod with condition DisruptionTarget, None on dry runs.
    delete_options: the DeleteOptions document for the pod's deletion, dryRun included.
    """

    budget: JsonObject | None
    pod: JsonObject | None
    delete_options: JsonObject


def evict(
    reader: Reader, namespace: str, name: str, eviction: JsonObject, now: float, *, dry_run: bool = False
) -> Granted:
    """Decide on an Eviction document (policy/v1) for a pod.

    now: epoch seconds. dry_run: the request's own dryRun; the document's deleteOptions.dryRun counts,
    too. Raises StatusError: 404 no such pod, 409 another uid or version, 429 the budget has no room,
    500 more than one budget.
    """
    told = (eviction.get("metadata") or {}).get("name") or name
    if told != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions") or {})
    if dry_run or options.get("dryRun"):
        options["dryRun"] = ["All"]
    pod = reader.read("", "pods", namespace, name)
    if pod is None:
        raise not_found("", "pods", name)
    _check_preconditions(pod, options.get("preconditions") or {})
    is_dry = bool(options.get("dryRun"))
    marked = None if is_dry else _mark(pod, now)
    if is_finished(pod) or phase(pod) in ("", "Pending") or is_terminating(pod):
        return Granted(None, marked, options)
    pdb = _only_budget(pod, reader.read_all("policy", "poddisruptionbudgets", namespace))
    if pdb is None:
        return Granted(None, marked, options)
    budget = _budget_of(pdb, reader, now)
    if not is_ready(pod) and _spares_unhealthy(pdb, budget):
        return Granted(None, marked, options)
    if budget.allowed <= 0:
        why = (
            f"The disruption budget {pdb['metadata']['name']} needs {budget.desired} healthy pods "
            f"and has {budget.healthy} currently"
        )
        raise too_many_requests(_REFUSED, 0, [Cause(_CAUSE, why)])
    return Granted(None if is_dry else _charge(pdb, budget, name, now), marked, options)


def _check_preconditions(pod: JsonObject, preconditions: JsonObject) -> None:
    metadata = pod["metadata"]
    for key, word, found in (
        ("uid", "UID", metadata.get("uid")),
        ("resourceVersion", "ResourceVersion", metadata.get("resourceVersion")),
    ):
        wanted = preconditions.get(key)
        if wanted and wanted != found:
            why = (
                f"the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict("", "pods", metadata["name"], why)


def _only_budget(pod: JsonObject, budgets: Sequence[JsonObject]) -> JsonObject | None:
    covering = [pdb for pdb in budgets if selected_pods(pdb, [pod])]
    if len(covering) > 1:
        raise StatusError(500, "InternalError", _SEVERAL)
    return covering[0] if covering else None


def _budget_of(pdb: JsonObject, reader: Reader, now: float) -> Budget:
    try:
        return live_budget(pdb, reader, now)
    except (ScaleUnknown, ValueError) as error:
        why = (
            f"The disruption budget {pdb['metadata']['name']} does not allow evicting pods currently "
            f"because it failed sync: {error}"
        )
        raise too_many_requests(_REFUSED, 0, [Cause(_CAUSE, why)]) from error


def _spares_unhealthy(pdb: JsonObject, budget: Budget) -> bool:
    """Whether a pod that is not ready may go without charging the budget."""
    if (pdb.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return budget.healthy >= budget.desired > 0


def _charge(pdb: JsonObject, budget: Budget, name: str, now: float) -> JsonObject:
    stamp = format_rfc3339(now)
    taken = Budget(
        expected=budget.expected,
        desired=budget.desired,
        healthy=budget.healthy,
        allowed=budget.allowed - 1,
        disrupted={**budget.disrupted, name: stamp},
    )
    return {**pdb, "status": status_of(pdb, taken, stamp)}


def _mark(pod: JsonObject, now: float) -> JsonObject:
    entry = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
    }
    return {**pod, "status": set_condition(pod.get("status") or {}, entry, format_rfc3339(now))}
