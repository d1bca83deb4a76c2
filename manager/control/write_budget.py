"""A ceiling on writes per second, shared by all loops, so that a change for all nodes does not storm the API."""

import asyncio
import time

from koord.kube.tokens import TokenBucket


class WriteBudget:
    """Lets `burst` writes through at once and `per_s` per second after that, in the order of asking."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._bucket = TokenBucket(burst, per_s)
        self._turn = asyncio.Lock()

    async def take(self) -> None:
        """Return when the next write may start."""
        async with self._turn:
            await asyncio.sleep(self._bucket.seconds_until_next(time.monotonic()))
            self._bucket.take(time.monotonic())
