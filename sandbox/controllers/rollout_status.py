"""What a Deployment's status says, so that `kubectl rollout status` can follow it. Pure."""

from collections.abc import Sequence

from koord.api.timestamps import format_rfc3339, parse_rfc3339
from sandbox.admission.request import JsonObject
from sandbox.controllers.rollout import bounds_of, has
from sandbox.lifecycle.pods import condition


def rollout_status(
    deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject], now_s: float, *, created: bool = False
) -> JsonObject:
    """Counts and conditions. `created`: the new ReplicaSet has been made just now."""
    present = [*old, new] if new is not None else list(old)
    total = sum(has(rs, "replicas") for rs in present)
    available = sum(has(rs, "availableReplicas") for rs in present)
    counts: JsonObject = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": has(new, "replicas") if new is not None else 0,
        "readyReplicas": sum(has(rs, "readyReplicas") for rs in present),
        "availableReplicas": available,
        "unavailableReplicas": max(bounds_of(deployment).replicas - available, 0),
        "terminatingReplicas": sum(has(rs, "terminatingReplicas") for rs in present),
    }
    conditions = {
        "Available": _available(deployment, available),
        "Progressing": _progressing(deployment, counts, new, now_s, created=created),
        "ReplicaFailure": _failure(present),
    }
    counts["conditions"] = [
        _stamped(deployment, name, entry, now_s) for name, entry in conditions.items() if entry is not None
    ]
    return counts


def progress_check_in_s(deployment: JsonObject, status: JsonObject, now_s: float) -> float | None:
    """Seconds until the progress deadline has to be looked at; None when it cannot pass."""
    deadline_s = (deployment.get("spec") or {}).get("progressDeadlineSeconds")
    progressing = condition({"status": status}, "Progressing")
    if deadline_s is None or progressing is None or progressing["reason"] not in _MOVING:
        return None
    left_s: float = parse_rfc3339(progressing["lastUpdateTime"]) + deadline_s - now_s
    return max(left_s, 0.0) + 1.0


_MOVING = ("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "DeploymentResumed")


def _available(deployment: JsonObject, available: int) -> JsonObject:
    if available >= bounds_of(deployment).least_available:
        return {
            "type": "Available",
            "status": "True",
            "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        }
    return {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }


def _progressing(
    deployment: JsonObject, counts: JsonObject, new: JsonObject | None, now_s: float, *, created: bool
) -> JsonObject | None:
    spec = deployment.get("spec") or {}
    current = condition(deployment, "Progressing")
    name = new["metadata"]["name"] if new is not None else ""
    entry = {"type": "Progressing", "status": "True"}
    if spec.get("progressDeadlineSeconds") is None:
        return None
    if spec.get("paused"):
        return entry | {"status": "Unknown", "reason": "DeploymentPaused", "message": "Deployment is paused"}
    if created:
        return entry | {"reason": "NewReplicaSetCreated", "message": f'Created new replica set "{name}"'}
    if new is None:
        return current
    if _is_complete(deployment, counts):
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return entry | {"reason": "NewReplicaSetAvailable", "message": message}
    if current is not None and current.get("reason") == "DeploymentPaused":
        return entry | {"status": "Unknown", "reason": "DeploymentResumed", "message": "Deployment is resumed"}
    if current is None:
        return entry | {"reason": "FoundNewReplicaSet", "message": f'Found new replica set "{name}"'}
    if _has_moved(deployment.get("status") or {}, counts):
        message = f'ReplicaSet "{name}" is progressing.'
        return entry | {"reason": "ReplicaSetUpdated", "message": message, "lastUpdateTime": format_rfc3339(now_s)}
    if current["reason"] in _MOVING:
        deadline_s = parse_rfc3339(current["lastUpdateTime"]) + spec["progressDeadlineSeconds"]
        if now_s > deadline_s:
            message = f'ReplicaSet "{name}" has timed out progressing.'
            return entry | {"status": "False", "reason": "ProgressDeadlineExceeded", "message": message}
    return current


def _is_complete(deployment: JsonObject, counts: JsonObject) -> bool:
    replicas = bounds_of(deployment).replicas
    return bool(counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == replicas)


def _has_moved(old: JsonObject, new: JsonObject) -> bool:
    """Whether the rollout got on since the last status."""
    before_old = (old.get("replicas") or 0) - (old.get("updatedReplicas") or 0)
    after_old = new["replicas"] - new["updatedReplicas"]
    moved: bool = (
        new["updatedReplicas"] > (old.get("updatedReplicas") or 0)
        or after_old < before_old
        or new["readyReplicas"] > (old.get("readyReplicas") or 0)
        or new["availableReplicas"] > (old.get("availableReplicas") or 0)
    )
    return moved


def _failure(replica_sets: Sequence[JsonObject]) -> JsonObject | None:
    for rs in replica_sets:
        failure = condition(rs, "ReplicaFailure")
        if failure is not None:
            return {key: failure.get(key, "") for key in ("type", "status", "reason", "message")}
    return None


def _stamped(deployment: JsonObject, name: str, entry: JsonObject, now_s: float) -> JsonObject:
    """Keep the times of a condition that says the same as before."""
    stamp = format_rfc3339(now_s)
    current = condition(deployment, name) or {}
    same_status = current.get("status") == entry["status"]
    same = same_status and current.get("reason") == entry["reason"] and current.get("message") == entry["message"]
    update = entry.get("lastUpdateTime") or (current.get("lastUpdateTime") if same else None) or stamp
    transition = (current.get("lastTransitionTime") if same_status else None) or stamp
    return {**entry, "lastUpdateTime": update, "lastTransitionTime": transition}
