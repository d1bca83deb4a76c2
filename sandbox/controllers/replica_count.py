"""How many pods a ReplicaSet makes or removes, which ones, and what its status says. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.timestamps import parse_rfc3339
from sandbox.admission.request import JsonObject
from sandbox.controllers.templates import labels_of
from sandbox.lifecycle.pods import condition, is_finished, is_ready, is_terminating, phase

BURST: Final = 500
"""Pods that one pass makes or removes at most."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_RANK: Final = {"Pending": 0, "": 0, "Unknown": 1}


@dataclass(frozen=True)
class ReplicaPlan:
    """create: pods to make. delete: pods to remove. again_s: when a pod becomes available by time alone."""

    create: int
    delete: tuple[JsonObject, ...]
    status: JsonObject
    again_s: float | None


def is_active(pod: JsonObject) -> bool:
    """Neither ended nor on its way out: what a controller counts as a replica."""
    return not is_terminating(pod) and not is_finished(pod)


def plan_replicas(workload: JsonObject, pods: Sequence[JsonObject], now_s: float) -> ReplicaPlan:
    """Compare spec.replicas with the active pods."""
    spec = workload.get("spec") or {}
    active = [pod for pod in pods if is_active(pod)]
    wanted = 0 if workload["metadata"].get("deletionTimestamp") else int(spec.get("replicas", 1))
    missing = wanted - len(active)
    surplus: tuple[JsonObject, ...] = ()
    if workload["metadata"].get("deletionTimestamp"):
        missing = 0  # garbage collection takes the pods
    elif missing < 0:
        surplus = tuple(deletion_order(active)[: min(-missing, BURST)])
    status, again_s = replica_status(workload, pods, now_s)
    return ReplicaPlan(min(max(missing, 0), BURST), surplus, status, again_s)


def deletion_order(pods: Sequence[JsonObject]) -> list[JsonObject]:
    """First the pods whose loss matters least.

    Unassigned before assigned, pending before running, unready before ready, cheap before dear
    (pod-deletion-cost), crowded nodes before others, briefly ready before long ready, young before old.
    """
    crowd = Counter((pod.get("spec") or {}).get("nodeName", "") for pod in pods)
    return sorted(pods, key=lambda pod: _rank(pod, crowd))


def _rank(pod: JsonObject, crowd: Mapping[str, int]) -> tuple[int, int, int, int, int, float, int, float]:
    node = (pod.get("spec") or {}).get("nodeName", "")
    ready = condition(pod, "Ready") or {}
    return (
        1 if node else 0,
        _PHASE_RANK.get(phase(pod), 2),
        1 if is_ready(pod) else 0,
        _cost(pod),
        -crowd[node],
        -_seconds(ready.get("lastTransitionTime")),
        -_restarts(pod),
        -_seconds(pod["metadata"].get("creationTimestamp")),
    )


def _cost(pod: JsonObject) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0"))
    return int(text) if text.lstrip("-").isdigit() else 0


def _restarts(pod: JsonObject) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(entry.get("restartCount", 0)) for entry in statuses), default=0)


def _seconds(stamp: str | None) -> float:
    return parse_rfc3339(stamp) if stamp else 0.0


def available_in_s(pod: JsonObject, min_ready_s: int, now_s: float) -> float | None:
    """Seconds until a pod counts as available: 0 already is, None not ready at all."""
    if not is_ready(pod):
        return None
    since = _seconds((condition(pod, "Ready") or {}).get("lastTransitionTime"))
    return max(since + min_ready_s - now_s, 0.0) if min_ready_s else 0.0


def replica_status(workload: JsonObject, pods: Sequence[JsonObject], now_s: float) -> tuple[JsonObject, float | None]:
    """The counts of a ReplicaSet's status, and when they change by time alone."""
    spec = workload.get("spec") or {}
    template_labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    active = [pod for pod in pods if is_active(pod)]
    waits = [available_in_s(pod, int(spec.get("minReadySeconds") or 0), now_s) for pod in active]
    status: JsonObject = {
        "replicas": len(active),
        "observedGeneration": workload["metadata"].get("generation", 0),
        "fullyLabeledReplicas": sum(template_labels.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(wait is not None for wait in waits),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
        "terminatingReplicas": sum(is_terminating(pod) and not is_finished(pod) for pod in pods),
    }
    later = [wait for wait in waits if wait]
    return status, min(later) if later else None
