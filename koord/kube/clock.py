"""The clock for durations that must be right even when the machine was asleep."""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def local_time_s() -> float:
    """Seconds of a clock that nobody sets and that counts while the machine sleeps."""
    return time.clock_gettime(_CLOCK)
