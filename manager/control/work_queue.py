"""Work per key: coalesced, spaced, timed, retried; one key's trouble is nobody else's.

Deciding is synchronous and cheap, so it runs inline; only a decision that needs the network gets a task.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from koord.kube.backoff import Backoff
from koord.kube.errors import ApiError
from manager import metrics
from manager.control.write_budget import NotLeading

logger = logging.getLogger("koord.manager.queue")

DECISIONS_AT_ONCE: Final = 50
"""Decisions taken before other tasks of the process get their turn."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a decision asks for. apply: the write, if any. retry_after_s: decide again then, even without an event;
    counted from the end of the write. forget: the object is gone, nothing needs to be remembered of the key."""

    apply: Callable[[], Awaitable[None]] | None = None
    retry_after_s: float | None = None
    forget: bool = False


NOTHING: Final = Step()
GONE: Final = Step(forget=True)
Decide = Callable[[str], Step]


class WorkQueue:
    """Decides keys when they are due. Use from one event loop only."""

    def __init__(self, name: str, decide: Decide, *, min_interval_s: float, writes_at_once: int) -> None:
        """min_interval_s: a key is not decided more often; requests in between become one. writes_at_once: writes
        of different keys in flight; those of one key never overlap."""
        self._name = name
        self._decide = decide
        self._min_interval_s = min_interval_s
        self._slots = asyncio.Semaphore(writes_at_once)
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._last: dict[str, float] = {}
        self._backoff: dict[str, Backoff] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._length = metrics.QUEUE_LENGTH.labels(name)
        self._seconds = metrics.DECIDE_SECONDS.labels(name)
        self._success = metrics.LAST_SUCCESS.labels(name)

    def request(self, key: str, after_s: float = 0.0) -> None:
        """Decide the key in `after_s` seconds, or earlier if that was requested already."""
        due = time.monotonic() + after_s
        last = self._last.get(key)
        if last is not None:
            due = max(due, last + self._min_interval_s)
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        if key in self._writing:
            return  # looked at again when the write has ended
        heapq.heappush(self._heap, (due, key))
        if self._heap[0][1] == key:
            self._wake.set()

    async def run(self) -> None:
        """Decide for ever. Cancelling it cancels the writes in flight and waits for them."""
        try:
            while True:
                await self._run_due()
                await self._wait()
        finally:
            tasks = list(self._writing.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_due(self) -> None:
        decided = 0
        while self._heap and self._heap[0][0] <= time.monotonic():
            due, key = heapq.heappop(self._heap)
            if key in self._writing or self._due.get(key) != due:
                continue
            del self._due[key]
            self._run_one(key)
            decided += 1
            if decided % DECISIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._length.set(len(self._due))

    async def _wait(self) -> None:
        timeout_s = max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _run_one(self, key: str) -> None:
        started = self._last[key] = time.monotonic()
        try:
            step = self._decide(key)
        except Exception as error:  # noqa: BLE001 - the edge where one bad object is contained
            self._failed(key, error)
            return
        self._seconds.observe(time.monotonic() - started)
        if step.apply is None:
            self._succeeded(key, step)
            return
        task = asyncio.create_task(self._write(key, step, step.apply), name=f"{self._name} {key}")
        self._writing[key] = task

    async def _write(self, key: str, step: Step, apply: Callable[[], Awaitable[None]]) -> None:
        error: Exception | None = None
        try:
            async with self._slots:
                await apply()
        except Exception as caught:  # noqa: BLE001 - the same edge, for the network half
            error = caught
        finally:
            del self._writing[key]
            if (due := self._due.get(key)) is not None:
                heapq.heappush(self._heap, (due, key))
                self._wake.set()
        if error is None:
            self._succeeded(key, step)
        else:
            self._failed(key, error)

    def _succeeded(self, key: str, step: Step) -> None:
        self._backoff.pop(key, None)
        self._success.set(time.time())
        if step.forget and key not in self._due:
            self._last.pop(key, None)
        if step.retry_after_s is not None:
            self.request(key, step.retry_after_s)

    def _failed(self, key: str, error: Exception) -> None:
        asked_s: float | None = None
        if isinstance(error, NotLeading):
            logger.info("%s %s: %s", self._name, key, error)
        elif isinstance(error, ApiError):
            asked_s = error.retry_after_s
            logger.warning("%s %s: %s", self._name, key, error)
        else:
            logger.error("%s %s: failed", self._name, key, exc_info=error)
        metrics.FAILURES.labels(self._name, type(error).__name__).inc()
        self.request(key, self._backoff.setdefault(key, Backoff()).next_delay(asked_s))
