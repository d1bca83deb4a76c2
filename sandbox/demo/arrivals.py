"""The arrival times of an open-loop load: a Poisson process whose rate may step. Pure.

The sequence depends on the seed and the steps alone, so each phase of a round meets the very same
requests at the very same moments, and differences between phases are not differences of luck.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """A constant rate (requests per second, > 0) for a time (seconds, > 0)."""

    rate_rps: float
    duration_s: float

    def __str__(self) -> str:
        return f"{self.rate_rps:g}:{self.duration_s:g}"


def parse_step(text: str) -> Step:
    """Read "RATE:SECONDS", e.g. "400:8"; raises ValueError naming what is wrong."""
    rate, separator, duration = text.partition(":")
    try:
        step = Step(float(rate), float(duration))
    except ValueError:
        raise ValueError(f"load step {text!r}: allowed: RATE:SECONDS, for example 400:8") from None
    if not separator or not 0 < step.rate_rps < 1e6 or not 0 < step.duration_s < 1e5:
        raise ValueError(f"load step {text!r}: allowed: a rate in (0, 1e6) and seconds in (0, 1e5)")
    return step


def poisson_arrivals(steps: Sequence[Step], seed: int) -> list[int]:
    """Scheduled arrivals in nanoseconds after the start, ascending."""
    random = Random(seed)
    arrivals: list[int] = []
    began_s = 0.0
    for step in steps:
        ends_s = began_s + step.duration_s
        moment_s = began_s + random.expovariate(step.rate_rps)
        while moment_s < ends_s:
            arrivals.append(int(moment_s * NS_PER_S))
            moment_s += random.expovariate(step.rate_rps)
        began_s = ends_s
    return arrivals
