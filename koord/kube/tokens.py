"""A token bucket: so many at once, then so many a second. Pure: time is an argument."""

from __future__ import annotations


class TokenBucket:
    """Starts full. Times are seconds of any clock that does not go back."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = float(burst)
        self._per_s = per_s
        self._tokens = float(burst)
        self._at_s: float | None = None

    def take(self, now_s: float) -> bool:
        """Take one token if there is one."""
        self._refill(now_s)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def seconds_until_next(self, now_s: float) -> float:
        """Seconds until `take` will succeed; 0 when it would now."""
        self._refill(now_s)
        return max(0.0, (1.0 - self._tokens) / self._per_s)

    def _refill(self, now_s: float) -> None:
        if self._at_s is not None:
            gained = max(0.0, now_s - self._at_s) * self._per_s
            self._tokens = min(self._burst, self._tokens + gained)
        self._at_s = now_s
