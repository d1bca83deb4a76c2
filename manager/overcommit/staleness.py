"""What an ageing report is still worth: hold, then decay, then nothing.

While reports come in time, and for some missed ones (`hold`), the node offers what was calculated. After that the
offer falls evenly, down to what running pods hold of it when the report reaches its end of life; then it is removed.
So new work stops being placed long before the resources go, and no pod loses its place at once.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from koord.slo_config.resolve import Resolved
from manager.overcommit.amounts import Offer

MISSED_REPORTS: Final = 3
"""Report intervals for which the offer stands without news, unless the strategy says how long."""
AGENT_FLOOR_S: Final = 30
"""Agents report at most this often, whatever the strategy says."""
STEPS: Final = 24
"""A decaying offer is looked at so often."""
SHORTEST_STEP_S: Final = 1.0


class Stage(StrEnum):
    """How far a report has come."""

    FRESH = "fresh"
    DECAYING = "decaying"


class Freshness(NamedTuple):
    """stage: fresh or decaying. share: what is left of the offer above its floor, 1 to 0. next_look_s: when the
    share will have changed enough to look again (epoch seconds); None while only expiry is ahead."""

    stage: Stage
    share: float
    next_look_s: float | None = None


FRESH: Final = Freshness(Stage.FRESH, 1.0)


def hold_s(resolved: Resolved) -> float:
    """How long after a report the offer stands in full; seconds. The whole life of the report for a cliff."""
    strategy, options = resolved.strategy, resolved.options.stale_reports
    life_s = strategy.degrade_time_minutes * 60.0
    if options.mode == "cliff":
        return life_s
    chosen_s = options.hold_seconds
    interval_s = max(strategy.metric_report_interval_seconds, AGENT_FLOOR_S)
    held_s = MISSED_REPORTS * interval_s if chosen_s is None else chosen_s
    return min(float(held_s), life_s)


def freshness(updated_s: float, expires_at_s: float, resolved: Resolved, now_s: float) -> Freshness:
    """How a report made at `updated_s` stands at `now_s`, which must not be past its expiry; epoch seconds."""
    begins_s = updated_s + hold_s(resolved)
    if begins_s >= expires_at_s:
        return FRESH
    if now_s <= begins_s:
        return Freshness(Stage.FRESH, 1.0, begins_s)
    step_s = max((expires_at_s - begins_s) / STEPS, SHORTEST_STEP_S)
    share = max(0.0, (expires_at_s - now_s) / (expires_at_s - begins_s))
    return Freshness(Stage.DECAYING, share, now_s + step_s)


def decayed(offer: Offer, floor: Offer, share: float) -> Offer:
    """The offer with so much left of what lies above the floor. A floor above the offer changes nothing."""
    return Offer(_decayed(offer.cpu, floor.cpu, share), _decayed(offer.memory, floor.memory, share))


def _decayed(amount: int, floor: int, share: float) -> int:
    kept = min(floor, amount)
    return kept + int((amount - kept) * share)
