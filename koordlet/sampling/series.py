"""Samples of one quantity over time in a ring, and exact statistics over a window of it (pure).

Gaps stay gaps: a missing sample is not stored, and a window knows how much of it was really covered, so that an
hour-old pair of samples never passes for an hour of data.
"""

import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_GAP_FACTOR = 2.5
"""Samples further apart than this many intervals leave the time between them uncovered."""
_FLOAT32 = struct.Struct("f")

WIRE_PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True)
class Window:
    """The samples of a stretch of time, ascending by value; `covered_s` is the part that they speak for."""

    ordered: Sequence[float]
    covered_s: float
    length_s: float

    @property
    def is_reportable(self) -> bool:
        """Whether at least half of the window is covered, Koordinator's rule for aggregated usage."""
        return is_covered(self.covered_s, self.length_s)

    def average(self) -> float | None:
        """The arithmetic mean, None without samples."""
        return math.fsum(self.ordered) / len(self.ordered) if self.ordered else None

    def wire_percentile(self, fraction: float) -> float | None:
        """The percentile by Koordinator's rule, None without samples."""
        return wire_percentile(self.ordered, fraction) if self.ordered else None


def is_covered(covered_s: float, window_s: float) -> bool:
    """Whether enough of a window was sampled to report it."""
    return covered_s >= window_s / 2


def wire_percentile(ordered: Sequence[float], fraction: float) -> float:
    """The value at index floor(n·fraction) − 1, at least 0, with the product in 32-bit floating point.

    It under-estimates for few samples (p99 of ten is the ninth value); reports keep it so that readers of
    NodeMetric see the same numbers whichever agent wrote them. `ordered` must not be empty.
    """
    product = _float32(len(ordered) * _float32(fraction))
    return ordered[max(int(product) - 1, 0)]


def _float32(value: float) -> float:
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


class Series:
    """A ring of (time, value). Memory is 16 bytes a slot, taken at once."""

    __slots__ = ("_count", "_next", "_times", "_values", "capacity", "interval_s")

    def __init__(self, capacity: int, interval_s: float) -> None:
        """`capacity` samples; `interval_s` is the usual time between two, which tells gaps."""
        self.capacity = capacity
        self.interval_s = interval_s
        self._times = array("d", bytes(8 * capacity))
        self._values = array("d", bytes(8 * capacity))
        self._next = 0
        self._count = 0

    def add(self, at_s: float, value: float) -> None:
        """Append a sample; times must not go back. The oldest falls out of a full ring."""
        index = self._next
        self._times[index] = at_s
        self._values[index] = value
        self._next = (index + 1) % self.capacity
        if self._count < self.capacity:
            self._count += 1

    def last(self) -> tuple[float, float] | None:
        """Time and value of the newest sample."""
        if not self._count:
            return None
        index = (self._next - 1) % self.capacity
        return self._times[index], self._values[index]

    def clear(self) -> None:
        """Forget everything (the meaning of the values changed)."""
        self._count = self._next = 0

    def window(self, now_s: float, length_s: float) -> Window:
        """The samples of the last `length_s` seconds."""
        since = now_s - length_s
        gap_s = self.interval_s * _GAP_FACTOR
        values: list[float] = []
        covered = 0.0
        later: float | None = None
        for back in range(1, self._count + 1):
            index = (self._next - back) % self.capacity
            at_s = self._times[index]
            if at_s <= since:
                break
            if later is not None:
                step = later - at_s
                covered += step if step <= gap_s else self.interval_s
            later = at_s
            values.append(self._values[index])
        values.sort()
        return Window(values, covered, length_s)
