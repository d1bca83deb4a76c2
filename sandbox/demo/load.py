"""Runs the load generator as a process of its own and evaluates what it measured."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.demo.arrivals import NS_PER_S, Step
from sandbox.demo.loadgen import LoadResult

LEAD_S = 0.8
DRAIN_S = 10.0


class LoadFailed(Exception):  # noqa: N818 - what happened
    """The generator could not do its work; the message is the end of what it said."""


@dataclass(slots=True)
class RunningLoad:
    """A generator on its way: requests start at `start_s` (CLOCK_MONOTONIC seconds)."""

    start_s: float
    process: asyncio.subprocess.Process

    async def finish(self) -> LoadResult:
        """Wait for the end of the load. Raises LoadFailed."""
        output, complaint = await self.process.communicate()
        if self.process.returncode != 0:
            last = complaint.decode(errors="replace").strip().splitlines()[-1:]
            raise LoadFailed(f"the load generator ended with {self.process.returncode}: {' '.join(last)}")
        return LoadResult(**json.loads(output))

    async def abort(self) -> None:
        """End it early."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


async def start_load(port: int, steps: Sequence[Step], seed: int, root_procs: Sequence[Path]) -> RunningLoad:
    """Start the generator some time ahead, so that it has loaded when the first request is due."""
    start_ns = time.monotonic_ns() + int(LEAD_S * NS_PER_S)
    command = [
        *(sys.executable, "-m", "sandbox.demo.loadgen", "--port", str(port), "--seed", str(seed)),
        *("--start-ns", str(start_ns), "--drain-s", str(DRAIN_S)),
    ]
    for step in steps:
        command += ["--step", str(step)]
    for procs in root_procs:
        command += ["--root-procs", str(procs)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=2**24
    )
    return RunningLoad(start_ns / NS_PER_S, process)


def latencies_ms(result: LoadResult, from_s: float, until_s: float) -> list[float]:
    """The latencies of requests that were due in [from, until) seconds after the start. Pure."""
    low, high = from_s * 1e6, until_s * 1e6
    pairs = zip(result.scheduled_us, result.latency_us, strict=True)
    return [latency / 1000 for scheduled, latency in pairs if low <= scheduled < high]


def generator_cpus(result: LoadResult) -> float:
    """The mean CPUs that the generator used over its schedule. Pure."""
    ended_us = max(result.scheduled_us, default=0)
    return result.cpu_s / (ended_us / 1e6) if ended_us else 0.0
