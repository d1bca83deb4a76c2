"""Writes a workload's status, only where it differs."""

from koord.kube.client import Client
from koord.kube.requests import MERGE_PATCH
from koord.kube.resources import Resource
from sandbox.admission.request import JsonObject

# Pointers in Kubernetes, so that none is told apart from unknown.
_TOLD_WHEN_EMPTY = ("terminatingReplicas", "ready", "terminating", "uncountedTerminatedPods")


async def write_status(client: Client, resource: Resource[JsonObject], obj: JsonObject, status: JsonObject) -> bool:
    """Make the stored status equal to `status`; returns whether something was written.

    The patch names only what changes, and carries the resourceVersion that the decision was made on.
    Raises Conflict when the object has changed since.
    """
    changes = status_changes(obj.get("status") or {}, status)
    if not changes:
        return False
    metadata = obj["metadata"]
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": changes}
    await client.patch(
        resource,
        metadata["name"],
        body,
        namespace=metadata.get("namespace", ""),
        subresource="status",
        content_type=MERGE_PATCH,
    )
    return True


def status_changes(old: JsonObject, new: JsonObject) -> JsonObject:
    """The merge patch from one status to another; empty and zero are the same as absent but for _TOLD_WHEN_EMPTY."""
    changes: JsonObject = {}
    for key, value in new.items():
        known = old.get(key)
        missing = known is None and key in _TOLD_WHEN_EMPTY
        if known == value or (not value and not known and not missing):
            continue
        if isinstance(value, dict) and isinstance(known, dict):
            # A merge patch merges maps: what is to go from one must be named.
            if below := status_changes(known, value):
                changes[key] = below
        else:
            changes[key] = value
    return changes | {key: None for key in old if key not in new}
