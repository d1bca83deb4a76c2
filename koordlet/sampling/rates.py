"""Rates from counters that only grow, until they restart (pure)."""

MAX_GAP_S = 10.0
"""Two readings further apart say nothing about now: the gap stays a gap."""


class CounterRate:
    """Turns readings of one counter into rates per second of the caller's monotonic clock."""

    __slots__ = ("_at", "_count")

    def __init__(self) -> None:
        self._at = 0.0
        self._count = -1.0

    def update(self, at_s: float, count: float) -> float | None:
        """The rate since the reading before, in units per second, never negative.

        None for the first reading, a counter that went back (its cgroup was replaced), no time between two
        readings, or a gap.
        """
        elapsed = at_s - self._at
        before = self._count
        self._at, self._count = at_s, count
        if before < 0 or count < before or elapsed <= 0 or elapsed > MAX_GAP_S:
            return None
        return (count - before) / elapsed
