"""The queue that all loops share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from koord.kube.errors import Conflict
from sandbox.controllers.workqueue import WorkQueue


@asynccontextmanager
async def running(queue: WorkQueue[str]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(queue.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def within(condition: Any, timeout_s: float = 5.0) -> None:
    for _ in range(round(timeout_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


async def test_a_key_runs_one_at_a_time_and_once_more_for_what_came_meanwhile() -> None:
    runs, at_once, most = Counter[str](), 0, 0
    gate = asyncio.Event()

    async def reconcile(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        runs[key] += 1
        await gate.wait()
        at_once -= 1

    queue = WorkQueue("test", reconcile)
    async with running(queue):
        queue.add("a")
        await within(lambda: runs["a"] == 1)
        for _ in range(5):
            queue.add("a")
        gate.set()
        await within(lambda: runs["a"] == 2 and at_once == 0)
    assert most == 1


async def test_failures_are_tried_again_and_hold_up_no_other_key() -> None:
    runs = Counter[str]()

    async def reconcile(key: str) -> None:
        runs[key] += 1
        if key == "bad" and runs[key] < 4:
            raise Conflict(409, "Conflict", "changed") if runs[key] % 2 else ValueError("broken")

    queue = WorkQueue("test", reconcile, workers=1)
    async with running(queue):
        queue.add("bad")
        queue.add("good")
        await within(lambda: runs["bad"] == 4)
    assert runs["good"] == 1


async def test_a_reconciler_names_the_time_of_its_next_run_and_an_earlier_reason_goes_first() -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()

    async def reconcile(key: str) -> float | None:
        times.append(loop.time())
        return 0.1 if len(times) == 1 else None

    queue = WorkQueue("test", reconcile)
    async with running(queue):
        queue.add("a")
        await within(lambda: len(times) == 2)
        queue.add_after("a", 60)
        queue.add_after("a", 0.01)
        await within(lambda: len(times) == 3)
    assert times[1] - times[0] >= 0.09


async def test_a_delay_lets_reasons_come_together() -> None:
    runs = Counter[str]()

    async def reconcile(key: str) -> None:
        runs[key] += 1

    queue = WorkQueue("test", reconcile, delay_s=0.05)
    async with running(queue):
        for _ in range(10):
            queue.add("a")
            await asyncio.sleep(0)
        await within(lambda: runs["a"] == 1)
    assert runs["a"] == 1
