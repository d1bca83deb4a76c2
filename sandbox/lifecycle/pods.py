"""What the lifecycle code reads of raw pods. Pure."""

from sandbox.admission.request import JsonObject


def condition(obj: JsonObject, name: str) -> JsonObject | None:
    """The status condition of a type, or None."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == name:
            found: JsonObject = entry
            return found
    return None


def is_ready(pod: JsonObject) -> bool:
    """Whether the pod's Ready condition is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def is_terminating(pod: JsonObject) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def phase(pod: JsonObject) -> str:
    """Pending, Running, Succeeded, Failed or Unknown; "" before any status."""
    return str((pod.get("status") or {}).get("phase") or "")


def is_finished(pod: JsonObject) -> bool:
    """Whether all containers have ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The ownerReference of the managing controller, or None."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: JsonObject = owner
            return found
    return None


def set_condition(status: JsonObject, entry: JsonObject, now: str) -> JsonObject:
    """A status with one condition set. lastTransitionTime moves only when the condition's status does."""
    kept = []
    transition = now
    for existing in status.get("conditions") or ():
        if existing.get("type") != entry["type"]:
            kept.append(existing)
        elif existing.get("status") == entry["status"]:
            transition = existing.get("lastTransitionTime") or now
    return {**status, "conditions": [*kept, {**entry, "lastTransitionTime": transition}]}
