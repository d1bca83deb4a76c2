"""The batch formula of one resource, with every term kept.

    usage            batch = capacity - margin - max(system, reserved) - usage of protected pods
    request          batch = capacity - margin - reserved              - requests of protected pods
    maxUsageRequest  batch = capacity - margin - max(system, reserved) - sum of max(request, usage)

never below 0, and at most the cap if there is one. With a peak policy the charge is at least system + usage of
protected pods + the burst that is estimated above that average. All amounts are exact nano integers; the two products
with a percentage are binary-float products cut toward zero, as Koordinator computes them, so that the results agree
to the unit.
"""

from dataclasses import dataclass
from typing import Final, Literal

from koord.api.quantity import NANO, NANO_PER_MILLI
from manager.overcommit.amounts import ceil_div

Policy = Literal["usage", "request", "maxUsageRequest"]
ResourceName = Literal["cpu", "memory"]

POLICIES: Final[dict[ResourceName, tuple[Policy, ...]]] = {
    "cpu": ("usage", "maxUsageRequest"),
    "memory": ("usage", "request", "maxUsageRequest"),
}
# The unit of the percentage products and of the result: milli-cores for cpu, bytes for memory.
UNIT: Final[dict[ResourceName, int]] = {"cpu": NANO_PER_MILLI, "memory": NANO}


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
    peak_burst: int = 0

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
        """What is taken from capacity beside the margin: by the policy, and at least the estimated peak."""
        if self.policy == "request":
            by_policy = self.reserved + self.protected_requests
        else:
            by_policy = self.system + (
                self.protected_max if self.policy == "maxUsageRequest" else self.protected_usage
            )
        return max(by_policy, self.peak) if self.peak_burst else by_policy

    @property
    def peak(self) -> int:
        """What system and protected pods are expected to take at their peak: the average, unless a peak policy
        estimates a burst above it."""
        return self.system + self.protected_usage + self.peak_burst

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
        return max(ceil_div(self.sellable, UNIT[self.resource]), 0)

    def _percent_of_capacity(self, percent: int) -> int:
        return percent_of(self.capacity, percent, self.resource)


def percent_of(amount: int, percent: int, resource: ResourceName) -> int:
    """A percentage of a nano amount, computed in the resource's unit by a binary float and cut toward zero."""
    unit = UNIT[resource]
    return int(float(ceil_div(amount, unit)) * (float(percent) / 100.0)) * unit


def policy_of(resource: ResourceName, written: str) -> tuple[Policy, str]:
    """The policy that a written name means for a resource, and a note when it is not one of the resource's.

    Any other name means usage, as in Koordinator.
    """
    for policy in POLICIES[resource]:
        if written == policy:
            return policy, ""
    allowed = ", ".join(POLICIES[resource])
    return "usage", f'{resource}CalculatePolicy: "{written}" is not one of {allowed}; usage applies'
