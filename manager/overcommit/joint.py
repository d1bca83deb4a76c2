"""The joint ledger: what production may need, what mid and what batch are offered fit on the node together.

    peak of production + mid + batch <= capacity - reserve

Mid is paid first, then batch. Without the ledger each tier is computed as if the other were not there, as in
Koordinator, and both can be offered the same idle cores.
"""

from dataclasses import dataclass

from manager.overcommit.formula import UNIT, Ledger


@dataclass(frozen=True, slots=True)
class JointLedger:
    """The terms of one resource; nano units but for mid and batch, which are in milli-cores or bytes.

    production: system (at least the reserve) and production at its peak. mid_usage: what mid pods use, which is
    theirs even where it is more than what they are offered.
    """

    capacity: int
    production: int
    mid_usage: int
    mid: int
    batch: int
    unit: int

    @property
    def mid_paid(self) -> int:
        """What mid can be offered."""
        return min(self.mid, max(self.capacity - self.production, 0) // self.unit)

    @property
    def batch_paid(self) -> int:
        """What is then left for batch."""
        mid = max(self.mid_paid * self.unit, self.mid_usage)
        return min(self.batch, max(self.capacity - self.production - mid, 0) // self.unit)

    @property
    def sold_twice(self) -> int:
        """How much of what the tiers are offered without the ledger is not there; milli-cores or bytes."""
        return self.mid + self.batch - self.mid_paid - self.batch_paid


def joint_ledger(ledger: Ledger, batch: int, mid_usage: int, mid: int) -> JointLedger:
    """The ledger over a batch formula, its result, and the mid amount of the same resource."""
    return JointLedger(ledger.capacity, ledger.peak - mid_usage, mid_usage, mid, batch, UNIT[ledger.resource])
