"""When a node's status is worth a write.

Nothing is written while everything is as wanted. A resource that appears, disappears, or moves by more than the
threshold (strictly, relative to the old value) is written at once; a smaller difference waits until the last write
is older than the update interval.
"""

from enum import StrEnum
from typing import NamedTuple

from koord.api import quantity
from koord.api.objects import ResourceList
from koord.api.quantity import InvalidQuantity
from manager.overcommit.decision import BatchDecision
from manager.overcommit.node_facts import BATCH_NAMES, NodeFacts
from manager.overcommit.node_patch import origin_is_current


class WriteReason(StrEnum):
    """Why a write happens, or why not."""

    UNCHANGED = "unchanged"
    BELOW_THRESHOLD = "below-threshold"
    APPEARS = "appears"
    DISAPPEARS = "disappears"
    MOVED = "moved"
    OVERDUE = "overdue"


class WriteVerdict(NamedTuple):
    """write now, or not; retry_after_s: when a difference below the threshold becomes due."""

    write: bool
    reason: WriteReason
    retry_after_s: float | None = None


def judge(facts: NodeFacts, decision: BatchDecision, since_last_write_s: float) -> WriteVerdict:
    """Whether the node must be written to show the decision."""
    strategy = decision.resolved.strategy
    pending = not origin_is_current(facts, decision)
    for position, name in enumerate(BATCH_NAMES):
        wanted_milli = None if decision.published is None else decision.published[position] * 1000
        for text in facts.published[name]:
            current = _milli(text)
            if current == wanted_milli:
                continue
            if current is None:
                return WriteVerdict(True, WriteReason.APPEARS)
            if wanted_milli is None:
                return WriteVerdict(True, WriteReason.DISAPPEARS)
            if moved(current, wanted_milli, strategy.resource_diff_threshold):
                return WriteVerdict(True, WriteReason.MOVED)
            pending = True
    if not pending:
        return WriteVerdict(False, WriteReason.UNCHANGED)
    left_s = strategy.update_time_threshold_seconds - since_last_write_s
    if left_s < 0:
        return WriteVerdict(True, WriteReason.OVERDUE)
    return WriteVerdict(False, WriteReason.BELOW_THRESHOLD, left_s)


def moved(old_milli: int, new_milli: int, threshold: float) -> bool:
    """Whether the change exceeds the fraction of the old value; from 0 any change does."""
    return abs(new_milli - old_milli) > old_milli * threshold


def differs(old: ResourceList, new: ResourceList, name: str, threshold: float) -> bool:
    """Whether a resource differs enough between two lists: in presence, or by more than the threshold."""
    if (name in old) != (name in new):
        return True
    return name in old and moved(quantity.milli(old[name]), quantity.milli(new[name]), threshold)


def _milli(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return quantity.milli(text)
    except InvalidQuantity:
        return -1  # unreadable: differs from anything
