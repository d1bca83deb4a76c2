"""When a node is worth a write.

Nothing is written while everything is as wanted. A resource that appears, disappears, or moves by more than the
threshold (strictly, relative to the old value), and a ratio or label that differs, is written at once; a smaller
difference waits until the last write is older than the update interval.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from koord.api import quantity
from koord.api.objects import ResourceList
from koord.api.quantity import InvalidQuantity
from koord.slo_config.strategy import Strategy
from manager.overcommit import ratios
from manager.overcommit.node_facts import NOT_SHOWN, NodeFacts
from manager.overcommit.node_patch import origin_is_current
from manager.overcommit.wanted import Wanted

_UNREADABLE: Final = -1
"""Differs from anything."""


class WriteReason(StrEnum):
    """Why a write happens, or why not."""

    UNCHANGED = "unchanged"
    BELOW_THRESHOLD = "below-threshold"
    APPEARS = "appears"
    DISAPPEARS = "disappears"
    MOVED = "moved"
    METADATA = "metadata"
    OVERDUE = "overdue"


class WriteVerdict(NamedTuple):
    """write now, or not; retry_after_s: when a difference below the threshold becomes due. resource: the first one
    that differs enough, "" for none."""

    write: bool
    reason: WriteReason
    retry_after_s: float | None = None
    resource: str = ""


def judge(facts: NodeFacts, wanted: Wanted, strategy: Strategy, since_last_write_s: float) -> WriteVerdict:
    """Whether the node must be written to show what is wanted."""
    pending = not origin_is_current(facts, wanted.origin)
    for name, amount in wanted.resources.items():
        wanted_milli = None if amount is None else amount * 1000
        for text in facts.published.get(name, NOT_SHOWN):
            current = _milli(text)
            if current == wanted_milli:
                continue
            if current is None:
                return WriteVerdict(True, WriteReason.APPEARS, resource=name)
            if wanted_milli is None:
                return WriteVerdict(True, WriteReason.DISAPPEARS, resource=name)
            if moved(current, wanted_milli, strategy.resource_diff_threshold):
                return WriteVerdict(True, WriteReason.MOVED, resource=name)
            pending = True
    if metadata_differs(facts, wanted):
        return WriteVerdict(True, WriteReason.METADATA)
    if not pending:
        return WriteVerdict(False, WriteReason.UNCHANGED)
    left_s = strategy.update_time_threshold_seconds - since_last_write_s
    if left_s < 0:
        return WriteVerdict(True, WriteReason.OVERDUE)
    return WriteVerdict(False, WriteReason.BELOW_THRESHOLD, left_s)


def metadata_differs(facts: NodeFacts, wanted: Wanted) -> bool:
    """Whether a ratio annotation or a label must be written."""
    normalization, amplification = wanted.normalization, wanted.amplification
    if not normalization.leave and ratios.differs(facts.normalization, normalization.text):
        return True
    if not amplification.leave and amplification.text != facts.amplification:
        return True
    return any(facts.labels.get(name) != value for name, value in wanted.labels.items())


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
        return _UNREADABLE
