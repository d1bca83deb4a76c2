"""How long, how often and how hard the demo measures. Pure."""

from dataclasses import dataclass, field

from sandbox.demo.arrivals import Step
from sandbox.demo.manifests import Policy


@dataclass(frozen=True, slots=True)
class Plan:
    """The experiment's numbers; seconds, requests per second.

    Batch pods run for `settle_s`, then beside the load for `warm_s`, before each measured window: starting them
    makes the node busy, and koordlet gives the quota that this costs back by a tenth of the node a second.
    `extra_rounds` may replace rounds that met foreign load. The load step runs once, `step_before_s` at
    `step_from_rps`, then `step_after_s` at `step_to_rps`.
    """

    rounds: int = 5
    extra_rounds: int = 2
    warm_s: float = 1.5
    measure_s: float = 8.0
    settle_s: float = 3.0
    rps: float = 400.0
    step_from_rps: float = 100.0
    step_to_rps: float = 700.0
    step_before_s: float = 5.0
    step_after_s: float = 5.0
    cpu_ms: float = 1.0
    seed: int = 1
    policy: Policy = field(default_factory=Policy)

    def phase_load(self) -> list[Step]:
        """The load of one phase, warm-up included."""
        return [Step(self.rps, self.warm_s + self.measure_s)]

    def step_load(self) -> list[Step]:
        """The load of the step."""
        return [Step(self.step_from_rps, self.step_before_s), Step(self.step_to_rps, self.step_after_s)]

    def round_seed(self, number: int) -> int:
        """The arrivals of a round: the same in its phases, others in the next round."""
        return self.seed * 1000 + number


FULL = Plan()
QUICK = Plan(
    rounds=1,
    extra_rounds=0,
    warm_s=1.2,
    measure_s=6.0,
    step_before_s=3.0,
    step_after_s=2.5,
)
