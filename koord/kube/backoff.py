"""How long to wait before the next try: fast at first, then patient, never in step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

ASKED_CAP_S: Final = 60.0
"""No server may silence a loop for longer, whatever its Retry-After says."""


@dataclass(slots=True)
class Backoff:
    """Exponential delays with jitter. `reset` after something has worked."""

    first_s: float = 0.1
    cap_s: float = 30.0
    factor: float = 2.0
    source: random.Random = field(default_factory=random.Random)
    failures: int = 0
    """How many times in a row `next_delay` was asked."""

    def next_delay(self, at_least_s: float | None = None) -> float:
        """Seconds to wait now: between half and all of the current step.

        `at_least_s` (a Retry-After) is a lower bound as far as ASKED_CAP_S, and is spread
        upwards by a tenth so that clients refused together do not come back together.
        """
        step = min(self.cap_s, self.first_s * self.factor ** min(self.failures, 40))
        self.failures += 1
        delay = step * self.source.uniform(0.5, 1.0)
        if at_least_s is not None:
            delay = max(delay, min(at_least_s, ASKED_CAP_S) * self.source.uniform(1.0, 1.1))
        return delay

    def reset(self) -> None:
        """Start over with short delays."""
        self.failures = 0
