"""When a node offers less than what running pods hold of it: allowed, since production comes first, but never silent.

No pod loses anything by it; new ones are not placed until enough has ended. A condition on the Node says so for as
long as it lasts.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koord.api import names, quantity
from manager.overcommit.amounts import NO_OFFER, Offer


class TierName(StrEnum):
    """The two tiers that are offered."""

    BATCH = "batch"
    MID = "mid"


CONDITIONS: Final = {TierName.BATCH: "BatchResourcesShort", TierName.MID: "MidResourcesShort"}
"""The type of the Node condition of each tier: True while less is offered than held."""
REASON_SHORT: Final = "BelowRunningPods"
REASON_COVERED: Final = "Covered"
RESOURCE_NAMES: Final = {
    TierName.BATCH: (names.BATCH_CPU, names.BATCH_MEMORY),
    TierName.MID: (names.MID_CPU, names.MID_MEMORY),
}


@dataclass(frozen=True, slots=True)
class Shortage:
    """A tier that offers less than its running pods hold; milli-cores and bytes."""

    tier: TierName
    offered: Offer
    held: Offer

    @property
    def missing(self) -> Offer:
        """How much of what is held is not offered."""
        return self.held.minus(self.offered)

    def message(self) -> str:
        """What is missing, for a person."""
        parts = [
            f"{name}: running pods hold {quantity.format_value(held)}, {quantity.format_value(offered)} is offered"
            for name, held, offered in zip(RESOURCE_NAMES[self.tier], self.held, self.offered, strict=True)
            if held > offered
        ]
        return "; ".join(parts)


def shortage(tier: TierName, published: Offer | None, held: Offer) -> Shortage | None:
    """The shortage of a tier, None when what is held is covered. published None: the resources are removed."""
    offered = published or NO_OFFER
    if held.cpu <= offered.cpu and held.memory <= offered.memory:
        return None
    return Shortage(tier, offered, held)
