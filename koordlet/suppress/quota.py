"""From a budget to the quota of the best-effort group (pure). Quotas are microseconds per 100 ms, -1 unlimited."""

from dataclasses import dataclass
from enum import StrEnum

UNLIMITED = -1
FLOOR_US = 2_000
"""0.02 CPU: best-effort work must be able to release locks that production waits for."""
_US_PER_MILLI = 100
_IGNORED_US_PER_CORE = 1_000
_RISE_US_PER_CORE = 10_000


class QuotaReason(StrEnum):
    """Why the quota is what it is."""

    BUDGET = "budget"
    RISE_LIMITED = "rise limited to a tenth of the node"
    SMALL_CHANGE = "change below one percent of the node"
    REASSERTED = "another value was found"
    STALE = "no fresh samples"
    LOAD_STEP = "production load stepped up"


@dataclass(frozen=True)
class QuotaStep:
    """The quota to have now; `is_write` False means that it is the one already there."""

    quota_us: int
    is_write: bool
    reason: QuotaReason


def _whole_cores(capacity_milli: int) -> int:
    return -(-capacity_milli // 1000)


def quota_of(budget_milli: int) -> int:
    """The quota that stands for a budget, never below the floor."""
    return max(budget_milli * _US_PER_MILLI, FLOOR_US)


def step_quota(budget_milli: int, current_us: int, capacity_milli: int, last_us: int | None = None) -> QuotaStep:
    """One cycle: falls at once, rises by a tenth of the node, leaves changes below one percent.

    last_us: what we wrote last. When the file holds something else, somebody (kubelet, systemd) has reset it:
    the step is taken from our value and written, rather than ramping from theirs.
    """
    cores = _whole_cores(capacity_milli)
    target = quota_of(budget_milli)
    is_foreign = last_us is not None and last_us not in (current_us, UNLIMITED)
    start = last_us if is_foreign and last_us is not None else current_us
    if abs(target - start) < cores * _IGNORED_US_PER_CORE and target != FLOOR_US:
        if is_foreign:
            return QuotaStep(start, True, QuotaReason.REASSERTED)
        return QuotaStep(current_us, False, QuotaReason.SMALL_CHANGE)
    if target - start > cores * _RISE_US_PER_CORE and start != UNLIMITED:
        return QuotaStep(start + cores * _RISE_US_PER_CORE, True, QuotaReason.RISE_LIMITED)
    return QuotaStep(target, True, QuotaReason.BUDGET)


def step_down(current_us: int, capacity_milli: int, floor_milli: int | None) -> QuotaStep:
    """One cycle without fresh samples: halve, down to the configured minimum (the floor when none is).

    From unlimited it starts at the whole node, so a node of any size is at its minimum within seconds and
    best-effort work is not stopped dead by one late sample.
    """
    lowest = quota_of(floor_milli or 0)
    start = capacity_milli * _US_PER_MILLI if current_us == UNLIMITED else current_us
    lowered = max(min(start, capacity_milli * _US_PER_MILLI) // 2, lowest)
    if current_us != UNLIMITED:
        lowered = min(lowered, current_us)
    return QuotaStep(lowered, lowered != current_us, QuotaReason.STALE)
