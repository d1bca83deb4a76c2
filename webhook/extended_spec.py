"""The annotation node.koordinator.sh/extended-resource-spec: batch resources as the node agent reads them. Pure.

It records batch-cpu and batch-memory of the app containers, as Koordinator does: no init containers, no
overhead, no mid resources.
"""

from __future__ import annotations

import msgspec

from koord.api import names, quantity
from koord.api.quantity import InvalidQuantity
from webhook.decision import Reason, Refusal
from webhook.draft import Draft
from webhook.texts import canonical_text
from webhook.views import Resources

_Spec = dict[str, dict[str, dict[str, dict[str, str]]]]


class _Recorded(msgspec.Struct):
    limits: Resources | None = None
    requests: Resources | None = None


class _Annotation(msgspec.Struct):
    containers: dict[str, _Recorded] | None = None


_DECODER = msgspec.json.Decoder(_Annotation)


def update_extended_spec(draft: Draft) -> bool:
    """Make the annotation say what the containers ask for; True when it had to change.

    An annotation of a pod without batch resources becomes `{}`. Raises Refusal when the present annotation is
    not readable, InvalidQuantity when a container's batch resource is not a quantity.
    """
    containers: dict[str, dict[str, dict[str, str]]] = {}
    for block in draft.blocks:
        if not block.is_init:
            recorded = _recorded(block.limits, block.requests)
            if recorded:
                containers[block.name] = recorded
    present = draft.annotations.get(names.ANNOTATION_EXTENDED_RESOURCE_SPEC)
    if present is None:
        if containers:
            draft.annotations[names.ANNOTATION_EXTENDED_RESOURCE_SPEC] = _encode(containers)
        return bool(containers)
    wanted = _encode(containers)
    if present == wanted or _amounts(present) == _amounts(wanted):
        return False
    draft.annotations[names.ANNOTATION_EXTENDED_RESOURCE_SPEC] = wanted
    return True


def _recorded(limits: Resources | None, requests: Resources | None) -> dict[str, dict[str, str]]:
    recorded: dict[str, dict[str, str]] = {}
    for kind, resources in (("limits", limits), ("requests", requests)):
        if not resources:
            continue
        batch: dict[str, str] = {}
        # By ascending name, as the annotation's readers compare text.
        if names.BATCH_CPU in resources:
            batch[names.BATCH_CPU] = canonical_text(resources[names.BATCH_CPU])
        if names.BATCH_MEMORY in resources:
            batch[names.BATCH_MEMORY] = canonical_text(resources[names.BATCH_MEMORY])
        if batch:
            recorded[kind] = batch
    return recorded


def _encode(containers: dict[str, dict[str, dict[str, str]]]) -> str:
    spec: _Spec = {"containers": dict(sorted(containers.items()))} if containers else {}
    return msgspec.json.encode(spec).decode()


def _amounts(text: str) -> dict[tuple[str, str, str], int]:
    """Every amount of an annotation in nano units, by container, kind and resource."""
    try:
        containers = _DECODER.decode(text).containers or {}
        return {
            (container, kind, name): quantity.nano(amount)
            for container, recorded in containers.items()
            for kind, resources in (("limits", recorded.limits), ("requests", recorded.requests))
            for name, amount in (resources or {}).items()
        }
    except (msgspec.MsgspecError, InvalidQuantity) as error:
        raise Refusal(
            Reason.EXTENDED_SPEC_UNREADABLE,
            f"failed to get current extended resource spec: annotation"
            f" {names.ANNOTATION_EXTENDED_RESOURCE_SPEC}: {error}",
        ) from error
