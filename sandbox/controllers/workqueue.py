"""A queue of keys to reconcile: each key once at a time, failures again after a growing delay."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from koord.kube.errors import ApiError, Conflict, NotFound

log = logging.getLogger("koord.sandbox.controllers")

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]

FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 15.0
_WORKERS: Final = 4


class WorkQueue(Generic[K]):
    """Runs `reconcile(key)` for every key added.

    A key that is added while it is being reconciled runs once more afterwards. reconcile returns the
    seconds after which it wants to run again, or None; what it raises is logged and tried again.
    delay_s: how long a new key waits for further reasons to come together.
    """

    def __init__(self, name: str, reconcile: Reconcile[K], *, workers: int = _WORKERS, delay_s: float = 0.0) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._delay_s = delay_s
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in the queue
        self._active: set[K] = set()
        self._again: set[K] = set()  # added while active
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Reconcile a key soon."""
        if self._delay_s:
            self.add_after(key, self._delay_s)
        else:
            self._enqueue(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Reconcile a key in some seconds, or earlier when it is due earlier anyway."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._expire, key)

    async def run(self) -> None:
        """Work for ever; returns by cancellation only."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _expire(self, key: K) -> None:
        self._timers.pop(key, None)
        self._enqueue(key)

    def _enqueue(self, key: K) -> None:
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._active.add(key)
            try:
                await self._attempt(key)
            finally:
                self._active.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self._enqueue(key)

    async def _attempt(self, key: K) -> None:
        try:
            again_s = await self._reconcile(key)
        except (Conflict, NotFound) as error:
            log.debug("%s %s: %s", self._name, key, error)
            self._retry(key)
        except ApiError as error:
            log.warning("%s %s: %s", self._name, key, error)
            self._retry(key)
        except Exception:
            log.exception("%s %s: reconciling failed", self._name, key)
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if again_s is not None:
                self.add_after(key, again_s)

    def _retry(self, key: K) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY_S * 2.0 ** min(failures, 20), LAST_RETRY_S))
