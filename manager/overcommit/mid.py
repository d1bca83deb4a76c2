"""The mid formula of one resource, with every term kept.

    static   mid = static percent of capacity
    dynamic  mid = max(min(reclaimable, capacity - node usage), 0)
                   + unallocated percent of max(capacity - max(system, reserved) - production requests, 0)

never above the threshold percent of capacity. Reclaimable is what production asked for and, by the agent's
prediction, will not need. Percentages are cut toward zero in the resource's unit, as Koordinator computes them.
"""

from dataclasses import dataclass
from typing import Final

from manager.overcommit.amounts import ceil_div
from manager.overcommit.formula import UNIT, ResourceName, percent_of

STATIC: Final = "static"


@dataclass(frozen=True, slots=True)
class MidLedger:
    """The terms of one resource; amounts in nano units, percents of capacity.

    static_percent: None in dynamic mode. node_usage: None when the report lacks it, so that nothing is known to be
    free. system_measured: what runs outside pods, with production's host applications. production_requests: of
    pods that are production or of no class.
    """

    resource: ResourceName
    capacity: int
    threshold_percent: int
    static_percent: int | None
    reclaimable: int
    node_usage: int | None
    unallocated_percent: int
    system_measured: int
    host_production: int
    reserved: int
    production_requests: int

    @property
    def free(self) -> int:
        """What nobody uses now; negative when usage exceeds capacity."""
        return 0 if self.node_usage is None else self.capacity - self.node_usage

    @property
    def reclaimed(self) -> int:
        """What production does not need of what it asked for, as far as it is idle now."""
        return max(min(self.reclaimable, self.free), 0)

    @property
    def system(self) -> int:
        """What the system takes: its measured use and production's host applications, at least the reserve."""
        return max(self.system_measured + self.host_production, self.reserved)

    @property
    def unallocated(self) -> int:
        """What production did not ask for."""
        return max(self.capacity - self.system - self.production_requests, 0)

    @property
    def unallocated_share(self) -> int:
        """The part of it that mid may have."""
        return percent_of(self.unallocated, self.unallocated_percent, self.resource)

    @property
    def cap(self) -> int:
        """The most that may be sold."""
        return percent_of(self.capacity, self.threshold_percent, self.resource)

    @property
    def base(self) -> int:
        """The amount before the cap."""
        if self.static_percent is not None:
            return percent_of(self.capacity, self.static_percent, self.resource)
        return self.reclaimed + self.unallocated_share

    @property
    def mid(self) -> int:
        """The result in milli-cores or bytes, rounded up."""
        return max(ceil_div(min(self.base, self.cap), UNIT[self.resource]), 0)
