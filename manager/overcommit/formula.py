"""The batch formula of one resource, with every term kept.

    usage            batch = capacity - margin - max(system, reserved) - usage of protected pods
    request          batch = capacity - margin - reserved              - requests of protected pods
    maxUsageRequest  batch = capacity - margin - max(system, reserved) - sum of max(request, usage)

never below 0, and at most the cap if there is one. All amounts are exact nano integers; the two products with a
percentage are binary-float products cut toward zero, as Koordinator computes them, so that the results agree to
the unit.
"""

from dataclasses import dataclass
from typing import Final, Literal

from koord.api import names
from koord.api.quantity import NANO, NANO_PER_MILLI
from manager.overcommit.amounts import ceil_div

Policy = Literal["usage", "request", "maxUsageRequest"]
ResourceName = Literal["cpu", "memory"]

POLICIES: Final[dict[ResourceName, tuple[Policy, ...]]] = {
    "cpu": ("usage", "maxUsageRequest"),
    "memory": ("usage", "request", "maxUsageRequest"),
}
# The unit of the percentage products and of the result: milli-cores for cpu, bytes for memory.
_UNIT: Final[dict[ResourceName, int]] = {"cpu": NANO_PER_MILLI, "memory": NANO}


@dataclass(frozen=True, slots=True)
class Ledger:
    """The terms of one resource; amounts in nano units (nano-cores, nano-bytes), percents of capacity."""

    resource: ResourceName
    policy: Policy
    capacity: int
    reclaim_percent: int
    system_measured: int
    host_applications: int
    kubelet_reserved: int
    annotation_reserved: int
    protected_usage: int
    protected_requests: int
    protected_max: int
    cap_percent: int | None = None

    @property
    def margin(self) -> int:
        """What is never sold: (100 - reclaim percent) of capacity. Negative when the percent exceeds 100."""
        return self._percent_of_capacity(100 - self.reclaim_percent)

    @property
    def reserved(self) -> int:
        """The larger of what the kubelet holds back and what the reservation annotation states."""
        return max(self.kubelet_reserved, self.annotation_reserved)

    @property
    def system(self) -> int:
        """What the system takes: its measured use and protected host applications, at least the reserved amount."""
        return max(self.system_measured + self.host_applications, self.reserved)

    @property
    def charged(self) -> int:
        """What is taken from capacity beside the margin, by the policy."""
        if self.policy == "request":
            return self.reserved + self.protected_requests
        protected = self.protected_max if self.policy == "maxUsageRequest" else self.protected_usage
        return self.system + protected

    @property
    def cap(self) -> int | None:
        """The most that may be sold, None without a cap."""
        return None if self.cap_percent is None else self._percent_of_capacity(self.cap_percent)

    @property
    def sellable(self) -> int:
        """The formula's result in nano units."""
        rest = max(self.capacity - self.margin - self.charged, 0)
        cap = self.cap
        return rest if cap is None else min(rest, cap)

    @property
    def batch(self) -> int:
        """The result in the unit of the batch resource: milli-cores or bytes, rounded up."""
        return max(ceil_div(self.sellable, _UNIT[self.resource]), 0)

    def _percent_of_capacity(self, percent: int) -> int:
        unit = _UNIT[self.resource]
        return int(float(ceil_div(self.capacity, unit)) * (float(percent) / 100.0)) * unit


def policy_of(resource: ResourceName, written: str) -> tuple[Policy, str]:
    """The policy that a written name means for a resource, and a note when it is not one of the resource's.

    Any other name means usage, as in Koordinator.
    """
    for policy in POLICIES[resource]:
        if written == policy:
            return policy, ""
    allowed = ", ".join(POLICIES[resource])
    return "usage", f'{resource}CalculatePolicy: "{written}" is not one of {allowed}; usage applies'


def batch_name(resource: ResourceName) -> str:
    """The node resource that a ledger's result is published under."""
    return names.BATCH_CPU if resource == "cpu" else names.BATCH_MEMORY
