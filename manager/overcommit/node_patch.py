"""The JSON merge patch that makes a node show a decision: owned keys only.

Owned: batch-cpu and batch-memory in status.capacity and status.allocatable (both, because the kubelet derives
what it does not know from capacity), and the originExtendedAllocatable annotation.
"""

from typing import Any

import msgspec

from koord.api import names, quantity
from koord.api.quantity import InvalidQuantity
from manager.overcommit.decision import BatchDecision
from manager.overcommit.node_facts import BATCH_NAMES, NodeFacts


def status_patch(facts: NodeFacts, decision: BatchDecision) -> dict[str, Any]:
    """The merge patch for nodes/status, annotation included when it differs; null removes a resource."""
    amounts = _texts(decision, facts)
    patch: dict[str, Any] = {"status": {"capacity": amounts, "allocatable": amounts}}
    if not origin_is_current(facts, decision):
        patch.update(metadata_patch(facts, decision))
    return patch


def metadata_patch(facts: NodeFacts, decision: BatchDecision) -> dict[str, Any]:
    """The merge patch of the annotation alone; resources that others put there are kept."""
    resources = dict(facts.origin or {})
    resources[names.BATCH_CPU] = quantity.format_value(decision.origin.cpu)
    resources[names.BATCH_MEMORY] = quantity.format_value(decision.origin.memory, facts.memory_family)
    text = msgspec.json.encode({"resources": resources}, order="sorted").decode()
    return {"metadata": {"annotations": {names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE: text}}}


def origin_is_current(facts: NodeFacts, decision: BatchDecision) -> bool:
    """Whether the annotation already says the decision's origin. An absent one says zeros, so that a node which
    never took part is never touched."""
    recorded = facts.origin or {}
    for position, name in enumerate(BATCH_NAMES):
        try:
            if quantity.nano(recorded.get(name, 0)) != decision.origin[position] * quantity.NANO:
                return False
        except (InvalidQuantity, TypeError):
            return False
    return True


def _texts(decision: BatchDecision, facts: NodeFacts) -> dict[str, str | None]:
    if decision.published is None:
        return dict.fromkeys(BATCH_NAMES)
    return {
        names.BATCH_CPU: quantity.format_value(decision.published.cpu),
        names.BATCH_MEMORY: quantity.format_value(decision.published.memory, facts.memory_family),
    }
