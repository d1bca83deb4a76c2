"""Cut the quota at once when production's load steps up, between two cycles (pure). Never raises it.

A 100 ms window is noisy, so a step must be a tenth of the node to count, and last for two windows unless it is a
fifth: a steady service of 0.4 CPU under random requests strays by 0.2 every few seconds, and false cuts cost
best-effort work a tenth of its CPU. A change that is only counted in ticks must exceed their resolution as well.
The cut is what the last cycle's budget would have been with the growth: where production only takes from the system
what that stops using, there is none. The next cycle, with a second's average, decides again.
"""

from dataclasses import dataclass

from koordlet.sampling.load import Load
from koordlet.suppress.budget import Budget
from koordlet.suppress.quota import QuotaReason, QuotaStep, quota_of

STEP_FRACTION = 10
SURE_FRACTION = 5
_TICK_CORES_PER_CPU = 0.2
"""Two ticks of 10 ms in 100 ms."""


@dataclass(frozen=True)
class Baseline:
    """What the last cycle found: its budget, and the load over its second."""

    budget: Budget
    load: Load
    capacity_milli: int
    floor_milli: int


def fast_step(baseline: Baseline, load: Load, current_us: int, load_before: Load | None = None) -> QuotaStep | None:
    """The lower quota that a step of load asks for now; None to leave it. load_before: of the last window, if any."""
    growth_milli = _growth(baseline, load)
    if load_before is not None and growth_milli < baseline.capacity_milli // SURE_FRACTION:
        growth_milli = min(growth_milli, _growth(baseline, load_before))
    if growth_milli < baseline.capacity_milli // STEP_FRACTION:
        return None
    target = quota_of(max(baseline.budget.budget_milli - growth_milli, baseline.floor_milli))
    if 0 <= current_us <= target:
        return None
    return QuotaStep(target, True, QuotaReason.LOAD_STEP)


def _growth(baseline: Baseline, load: Load) -> int:
    """Milli-cores by which the budget shrank since the last cycle."""
    production_milli = int(1000 * (load.production_cores - baseline.load.production_cores))
    return production_milli + _system_growth(baseline, load)


def _system_growth(baseline: Baseline, load: Load) -> int:
    """Milli-cores by which what the system takes from the budget grew; what is reserved for it takes nothing more."""
    before, budget = baseline.load, baseline.budget
    change = (load.others_cores - load.production_cores) - (before.others_cores - before.production_cores)
    if not load.is_precise and abs(change) <= _TICK_CORES_PER_CPU * baseline.capacity_milli / 1000:
        change = 0.0
    now = max(budget.measured_system_milli + int(1000 * change), budget.reserved_milli)
    return now - budget.system_milli
