"""A ceiling on writes per second, shared by all loops, so that a change for all nodes does not storm the API."""

import asyncio
import time
from collections.abc import Callable

from koord.kube.tokens import TokenBucket


class NotLeading(Exception):  # noqa: N818 - named by what it says
    """This process may not write any more: another one leads, or may do so at any moment."""


class WriteBudget:
    """Lets `burst` writes through at once and `per_s` per second after that, in the order of asking."""

    def __init__(self, per_s: float, burst: int, may_write: Callable[[], bool] = lambda: True) -> None:
        """may_write: asked when a write's turn has come, since waiting may have outlasted the lease."""
        self._bucket = TokenBucket(burst, per_s)
        self._may_write = may_write
        self._turn = asyncio.Lock()

    async def take(self) -> None:
        """Return when the next write may start. Raises NotLeading when this process may not write any more."""
        async with self._turn:
            await asyncio.sleep(self._bucket.seconds_until_next(time.monotonic()))
            self.check()
            self._bucket.take(time.monotonic())

    def check(self) -> None:
        """Raises NotLeading when this process may not write any more."""
        if not self._may_write():
            raise NotLeading("the lease is lost; nothing is written")
