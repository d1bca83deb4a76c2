"""Load in two parts, as the fast path compares it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """Cores in use that are not best-effort's: by pods, and by all.

    `is_precise`: the second is counted in nanoseconds like the first, not in ticks of 10 ms.
    """

    production_cores: float
    others_cores: float
    is_precise: bool = False
