"""Cut the quota at once when production's load steps up, between two cycles (pure). Never raises it.

A 100 ms window is noisy, so a step must be a tenth of the node to count, and what is only counted in ticks must
exceed their resolution as well. The cut is what the last cycle's budget would have been with the growth; the
next cycle, with a second's average, decides again.
"""

from dataclasses import dataclass

from koordlet.sampling.fast import Load
from koordlet.suppress.budget import Budget
from koordlet.suppress.quota import QuotaReason, QuotaStep, quota_of

STEP_FRACTION = 10
_TICK_CORES_PER_CPU = 0.2
"""Two ticks of 10 ms in 100 ms."""


@dataclass(frozen=True)
class Baseline:
    """What the last cycle found: its budget, and the load over its second."""

    budget: Budget
    load: Load
    capacity_milli: int
    floor_milli: int


def fast_step(baseline: Baseline, load: Load, current_us: int) -> QuotaStep | None:
    """The lower quota that a step of load asks for now; None to leave it."""
    noise = 0.0 if load.is_precise else _TICK_CORES_PER_CPU * baseline.capacity_milli / 1000
    growth = max(
        load.production_cores - baseline.load.production_cores,
        load.others_cores - baseline.load.others_cores - noise,
    )
    growth_milli = int(1000 * growth)
    if growth_milli < baseline.capacity_milli // STEP_FRACTION:
        return None
    target = quota_of(max(baseline.budget.budget_milli - growth_milli, baseline.floor_milli))
    if 0 <= current_us <= target:
        return None
    return QuotaStep(target, True, QuotaReason.LOAD_STEP)
