"""The JSON merge patches that make a node show a decision: owned keys only.

Owned: the batch, mid and device names in status.capacity and status.allocatable (both, because the kubelet derives
what it does not know from capacity), five annotations, three labels and two conditions. A patch carries the
resourceVersion that it was decided on, so that it changes nothing that was not seen: not after another manager, and
not after the kubelet.
"""

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


def status_patch(facts: NodeFacts, wanted: Wanted, version: str, note: LastOffer) -> dict[str, Any]:
    """The merge patch for nodes/status, metadata included; null removes a resource.

    version: the resourceVersion of the node that `facts` are of, "" for none. note: kept beside what is written.
    """
    amounts = _texts(facts, wanted)
    metadata = metadata_changes(facts, wanted, note)
    if version:
        metadata["resourceVersion"] = version
    patch: dict[str, Any] = {"metadata": metadata}
    if amounts:
        patch["status"] = {"capacity": amounts, "allocatable": amounts}
    return patch


def metadata_changes(facts: NodeFacts, wanted: Wanted, note: LastOffer) -> dict[str, Any]:
    """The metadata part: annotations and labels that differ, and the note."""
    annotations: dict[str, str | None] = {names.ANNOTATION_LAST_OFFER: msgspec.json.encode(note).decode()}
    if not origin_is_current(facts, wanted.origin):
        annotations[names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE] = _origin_text(facts, wanted)
    if not wanted.normalization.leave and not _says_nothing(facts.normalization, wanted.normalization.text):
        annotations[names.ANNOTATION_CPU_NORMALIZATION_RATIO] = wanted.normalization.text
    if not wanted.amplification.leave and wanted.amplification.text != facts.amplification:
        annotations[names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO] = wanted.amplification.text
    changes: dict[str, Any] = {"annotations": annotations}
    labels = {name: value for name, value in wanted.labels.items() if facts.labels.get(name) != value}
    if labels:
        changes["labels"] = labels
    return changes


def taken_in(changes: dict[str, Any], annotations: dict[str, str], labels: dict[str, str]) -> bool:
    """Whether a node shows the metadata of a patch; a server may take only status from the status endpoint."""
    return all(annotations.get(name) == value for name, value in changes["annotations"].items()) and all(
        labels.get(name) == value for name, value in changes.get("labels", {}).items()
    )


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
