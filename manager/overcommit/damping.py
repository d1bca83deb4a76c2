"""Growing slowly: an offer that flaps is worth less than a smaller one that stays. Shrinking is never delayed.

Two independent limits, both off by default: an offer grows only to the smallest amount calculated within a
stabilization window, and only by so much of the capacity a minute.
"""

from typing import Final, NamedTuple

from koord.slo_config.options import Damping
from manager.overcommit.amounts import Offer

_MINUTE_S: Final = 60.0
LOOK_AGAIN_S: Final = 15.0
"""A growing offer is looked at so often."""


class Recent(NamedTuple):
    """What is remembered of one tier on one node. lowest: the smallest offer calculated within the stabilization
    window, None while the memory does not reach back that far. unchanged_s: seconds since the node's amounts were
    last written."""

    lowest: Offer | None
    unchanged_s: float


NOTHING_RECENT: Final = Recent(None, 0.0)


class Damped(NamedTuple):
    """The offer to make, and when a larger one may be due (seconds from now); None when nothing was held back."""

    offer: Offer
    look_again_s: float | None = None


def damp(target: Offer, shown: Offer | None, capacity: Offer, options: Damping, recent: Recent) -> Damped:
    """The offer on the way from what the node shows to the target.

    shown None: nothing is shown yet, so nothing can flap. capacity: of the node, in milli-cores and bytes.
    """
    if not options.is_on or shown is None:
        return Damped(target)
    offer = Offer(
        _damp(target.cpu, shown.cpu, capacity.cpu, options, recent.lowest and recent.lowest.cpu, recent.unchanged_s),
        _damp(
            target.memory,
            shown.memory,
            capacity.memory,
            options,
            recent.lowest and recent.lowest.memory,
            recent.unchanged_s,
        ),
    )
    return Damped(offer, None if offer == target else LOOK_AGAIN_S)


def _damp(target: int, shown: int, capacity: int, options: Damping, lowest: int | None, unchanged_s: float) -> int:
    if target <= shown:
        return target
    allowed = target
    if options.stabilization_seconds > 0:
        allowed = min(allowed, shown if lowest is None else max(lowest, shown))
    if options.growth_percent_per_minute > 0:
        growth = capacity * options.growth_percent_per_minute / 100.0 * max(unchanged_s, 0.0) / _MINUTE_S
        allowed = min(allowed, shown + int(growth))
    return allowed
