"""The queue of keys: coalescing, spacing, timers, retries, and that one key's trouble is nobody else's."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from koord.kube.errors import TooManyRequests, Unavailable
from manager.control.work_queue import NOTHING, Step, WorkQueue
from manager.control.write_budget import WriteBudget

DEADLINE_S = 5.0


class Recorder:
    """Decides keys as the test says and keeps when that was."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, float]] = []
        self.steps: dict[str, list[Step | Exception]] = {}
        self._changed = asyncio.Event()

    def decide(self, key: str) -> Step:
        self.decided.append((key, time.monotonic()))
        self._changed.set()
        planned = self.steps.get(key)
        step = planned.pop(0) if planned else NOTHING
        if isinstance(step, Exception):
            raise step
        return step

    def times_of(self, key: str) -> list[float]:
        return [moment for decided, moment in self.decided if decided == key]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_decided(self, key: str, times: int) -> None:
        await self.wait_for(lambda: len(self.times_of(key)) >= times)


@asynccontextmanager
async def running(
    recorder: Recorder, *, min_interval_s: float = 0.0, writes_at_once: int = 4
) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue("test", recorder.decide, min_interval_s=min_interval_s, writes_at_once=writes_at_once)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.wait({task})


def failing(error: Exception) -> Callable[[], Awaitable[None]]:
    async def write() -> None:
        raise error

    return write


async def test_many_requests_of_one_key_are_one_decision() -> None:
    recorder = Recorder()
    queue = WorkQueue("test", recorder.decide, min_interval_s=0.0, writes_at_once=1)
    for _ in range(1000):
        queue.request("a")
    queue.request("b")
    task = asyncio.create_task(queue.run())
    await recorder.wait_decided("b", 1)
    task.cancel()
    await asyncio.wait({task})
    assert [key for key, _ in recorder.decided] == ["a", "b"]


async def test_a_key_is_not_decided_more_often_than_the_interval_allows() -> None:
    recorder = Recorder()
    async with running(recorder, min_interval_s=0.1) as queue:
        queue.request("a")
        await recorder.wait_decided("a", 1)
        queue.request("a")
        queue.request("b")
        await recorder.wait_decided("a", 2)
    first, second = recorder.times_of("a")
    assert second - first >= 0.1
    assert recorder.times_of("b")[0] < second


async def test_a_timer_needs_no_event_and_an_event_does_not_wait_for_a_timer() -> None:
    recorder = Recorder()
    recorder.steps["timed"] = [Step(retry_after_s=0.05)]
    recorder.steps["patient"] = [Step(retry_after_s=3600.0)]
    async with running(recorder) as queue:
        queue.request("timed")
        queue.request("patient")
        await recorder.wait_decided("timed", 2)
        assert len(recorder.times_of("patient")) == 1
        queue.request("patient")
        await recorder.wait_decided("patient", 2)
    first, second = recorder.times_of("timed")
    assert second - first >= 0.05


async def test_a_decision_that_raises_is_tried_again_and_stops_nobody() -> None:
    recorder = Recorder()
    recorder.steps["bad"] = [ValueError("odd object"), ValueError("still odd")]
    async with running(recorder) as queue:
        for key in ("bad", "good", "better"):
            queue.request(key)
        await recorder.wait_decided("better", 1)
        await recorder.wait_decided("bad", 3)


async def test_a_write_that_fails_is_decided_again_after_the_time_the_server_asked_for() -> None:
    recorder = Recorder()
    busy = TooManyRequests(429, "TooManyRequests", "later", retry_after_s=0.2)
    recorder.steps["busy"] = [Step(failing(busy))]
    recorder.steps["down"] = [Step(failing(Unavailable(0, "ConnectionFailed", "no")))]
    async with running(recorder) as queue:
        queue.request("busy")
        queue.request("down")
        await recorder.wait_decided("busy", 2)
        await recorder.wait_decided("down", 2)
    first, second = recorder.times_of("busy")
    assert second - first >= 0.2


async def test_writes_of_a_key_never_overlap_and_a_request_meanwhile_is_not_lost() -> None:
    recorder = Recorder()
    released = asyncio.Event()
    writing = 0
    most = 0

    async def write() -> None:
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        await released.wait()
        writing -= 1

    recorder.steps["a"] = [Step(write), Step(write)]
    async with running(recorder) as queue:
        queue.request("a")
        await recorder.wait_decided("a", 1)
        queue.request("a")
        queue.request("b")
        await recorder.wait_decided("b", 1)
        assert len(recorder.times_of("a")) == 1
        released.set()
        await recorder.wait_decided("a", 2)
    assert most == 1


async def test_cancelling_ends_writes_in_flight_and_a_later_run_goes_on() -> None:
    recorder = Recorder()
    ended = asyncio.Event()

    async def write() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    recorder.steps["a"] = [Step(write)]
    async with running(recorder) as queue:
        queue.request("a")
        await recorder.wait_decided("a", 1)
        await asyncio.sleep(0)
    assert ended.is_set()
    queue.request("a")
    task = asyncio.create_task(queue.run())
    await recorder.wait_decided("a", 2)
    task.cancel()
    await asyncio.wait({task})


async def test_no_more_writes_at_once_than_allowed() -> None:
    recorder = Recorder()
    writing = 0
    most = 0

    async def write() -> None:
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        await asyncio.sleep(0.005)
        writing -= 1

    keys = [f"node-{number}" for number in range(20)]
    for key in keys:
        recorder.steps[key] = [Step(write, retry_after_s=0.0)]
    async with running(recorder, writes_at_once=3) as queue:
        for key in keys:
            queue.request(key)
        await recorder.wait_for(lambda: all(len(recorder.times_of(key)) >= 2 for key in keys))
    assert most == 3


async def test_the_budget_lets_a_burst_through_and_then_keeps_the_rate() -> None:
    budget = WriteBudget(per_s=50.0, burst=5)
    started = time.monotonic()
    for _ in range(5):
        await budget.take()
    burst_s = time.monotonic() - started
    await asyncio.gather(*(budget.take() for _ in range(10)))
    assert burst_s < 0.1
    assert time.monotonic() - started >= 10 / 50 * 0.9
