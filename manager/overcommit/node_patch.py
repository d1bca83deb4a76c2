"""What must change on a node to make it show a decision, as a JSON Patch of owned keys only.

Owned: the batch, mid and device names in status.capacity and status.allocatable (both, because the kubelet derives
what it does not know from capacity), five annotations, three labels and two conditions.

A patch begins by testing that no other manager has written since: every write leaves a note in an annotation, which
the next patch names. So a request that was held up on its way changes nothing any more, while kubelets and others may
write as often as they like. A node without a note is patched in exactly the state that was looked at.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from koord.api import names, quantity
from koord.api.quantity import InvalidQuantity
from koord.api.timestamps import format_rfc3339
from manager.overcommit.amounts import Offer
from manager.overcommit.annotations import LastOffer
from manager.overcommit.node_facts import NOT_SHOWN, NodeFacts
from manager.overcommit.shortage import CONDITIONS, REASON_COVERED, REASON_SHORT, Shortage, TierName
from manager.overcommit.wanted import Wanted

_BATCH_NAMES = (names.BATCH_CPU, names.BATCH_MEMORY)
Operation = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What is to be written. amounts: text by resource name, None to remove it. annotations: None to remove."""

    amounts: dict[str, str | None]
    annotations: dict[str, str | None]
    labels: dict[str, str]

    def shown_by(self, annotations: dict[str, str], labels: dict[str, str]) -> bool:
        """Whether a node with these has the metadata; a server may take only status from the status endpoint."""
        return all(annotations.get(name) == value for name, value in self.annotations.items()) and all(
            labels.get(name) == value for name, value in self.labels.items()
        )

    def metadata(self) -> dict[str, Any]:
        """The metadata part as a merge patch."""
        return {"annotations": self.annotations, **({"labels": self.labels} if self.labels else {})}


def changes(facts: NodeFacts, wanted: Wanted, note: LastOffer) -> NodeChanges:
    """Everything in which the node differs from what is wanted, and the note to leave beside it."""
    annotations: dict[str, str | None] = {names.ANNOTATION_LAST_OFFER: msgspec.json.encode(note).decode()}
    if not origin_is_current(facts, wanted.origin):
        annotations[names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE] = _origin_text(facts, wanted)
    if not wanted.normalization.leave and not _says_nothing(facts.normalization, wanted.normalization.text):
        annotations[names.ANNOTATION_CPU_NORMALIZATION_RATIO] = wanted.normalization.text
    if not wanted.amplification.leave and wanted.amplification.text != facts.amplification:
        annotations[names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO] = wanted.amplification.text
    labels = {name: value for name, value in wanted.labels.items() if facts.labels.get(name) != value}
    return NodeChanges(_texts(facts, wanted), annotations, labels)


def json_patch(facts: NodeFacts, version: str, found: NodeChanges) -> list[Operation]:
    """The JSON Patch for nodes/status. version: the resourceVersion of the node that `facts` are of."""
    operations: list[Operation] = []
    if facts.note:
        path = f"/metadata/annotations/{_escaped(names.ANNOTATION_LAST_OFFER)}"
        operations.append({"op": "test", "path": path, "value": facts.note})
    else:
        operations.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
    operations += [{"op": "add", "path": empty, "value": {}} for empty in facts.empty_maps]
    for position, parent in enumerate(("/status/capacity", "/status/allocatable")):
        for name, text in found.amounts.items():
            is_there = facts.published.get(name, NOT_SHOWN)[position] is not None
            operations += _set(parent, name, text, is_there=is_there)
    shown = {
        names.ANNOTATION_CPU_NORMALIZATION_RATIO: facts.normalization,
        names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO: facts.amplification,
    }
    for name, text in found.annotations.items():
        operations += _set("/metadata/annotations", name, text, is_there=shown.get(name) is not None)
    for name, value in found.labels.items():
        operations += _set("/metadata/labels", name, value, is_there=True)
    return operations


def _set(parent: str, name: str, text: str | None, *, is_there: bool) -> list[Operation]:
    path = f"{parent}/{_escaped(name)}"
    if text is not None:
        return [{"op": "add", "path": path, "value": text}]
    return [{"op": "remove", "path": path}] if is_there else []


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def condition_patch(tier: TierName, short: Shortage | None, now_s: float) -> dict[str, Any]:
    """The strategic merge patch of nodes/status that sets a tier's condition."""
    now = format_rfc3339(now_s)
    condition = {
        "type": CONDITIONS[tier],
        "status": "True" if short else "False",
        "reason": REASON_SHORT if short else REASON_COVERED,
        "message": short.message() if short else "what running pods hold is offered",
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
    return {"status": {"conditions": [condition]}}


def condition_changes(facts: NodeFacts, shortages: tuple[Shortage, ...]) -> dict[TierName, Shortage | None]:
    """The tiers whose condition on the node is not as it should be. One that was never set means False."""
    by_tier = {short.tier: short for short in shortages}
    return {
        tier: by_tier.get(tier)
        for tier, condition in CONDITIONS.items()
        if (facts.conditions.get(condition) == "True") != (tier in by_tier)
    }


def origin_is_current(facts: NodeFacts, origin: Offer) -> bool:
    """Whether the annotation already says the origin. An absent one says zeros, so that a node which never took part
    is never touched."""
    recorded = facts.origin or {}
    for name, amount in zip(_BATCH_NAMES, origin, strict=True):
        try:
            if quantity.nano(recorded.get(name, 0)) != amount * quantity.NANO:
                return False
        except (InvalidQuantity, TypeError):
            return False
    return True


def _origin_text(facts: NodeFacts, wanted: Wanted) -> str:
    resources = dict(facts.origin or {})
    resources[names.BATCH_CPU] = quantity.format_value(wanted.origin.cpu)
    resources[names.BATCH_MEMORY] = quantity.format_value(wanted.origin.memory, facts.memory_family)
    return msgspec.json.encode({"resources": resources}, order="sorted").decode()


def _says_nothing(shown: str | None, text: str | None) -> bool:
    return shown == text or (shown is None and text == "1.00")


def _texts(facts: NodeFacts, wanted: Wanted) -> dict[str, str | None]:
    """The owned names that are on the node or should be."""
    return {
        name: None if amount is None else quantity.format_value(amount, wanted.families.get(name, "decimal"))
        for name, amount in wanted.resources.items()
        if amount is not None or facts.published.get(name, NOT_SHOWN) != NOT_SHOWN
    }
