"""Reads the batch quota every few milliseconds around the load step, and finds its first cut."""

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sandbox.demo.cgroup_values import parse_quota

PERIOD_S = 0.01
Point = tuple[float, float | None]


class QuotaWatch:
    """A thread that reads the quota file of one cgroup and keeps every change with its moment."""

    def __init__(self, file: Path, period_us: int = 0) -> None:
        """`period_us`: of a version 1 cgroup, whose quota file holds no period; 0 for version 2."""
        self._file = file
        self._suffix = f" {period_us}" if period_us else ""
        self._changes: list[Point] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, name="quota watch", daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    async def stop(self) -> list[Point]:
        """End; (moment in CLOCK_MONOTONIC seconds, CPUs or None for unlimited) of the first state and each change."""
        self._ending.set()
        await asyncio.to_thread(self._thread.join)
        return self._changes

    def _read(self) -> None:
        with suppress(OSError), self._file.open("rb", buffering=0) as file:
            while not self._ending.is_set():
                text = os.pread(file.fileno(), 64, 0).decode().strip() + self._suffix
                quota = parse_quota(text)
                if not self._changes or self._changes[-1][1] != quota:
                    self._changes.append((time.monotonic(), quota))
                time.sleep(PERIOD_S)


def first_cut_s(changes: Sequence[Point], step_s: float, cpus: int, lookback_s: float = 2.5) -> float | None:
    """Seconds from the step to the first cut, None without one. Pure.

    A cut is a quota that is lower than every one in force during `lookback_s` before the step, by at least
    5 % of the machine: less than that is the usual wavering. No quota counts as all CPUs.
    """
    in_force = [change for change in changes if change[0] <= step_s]
    recent = [change for change in in_force if change[0] >= step_s - lookback_s]
    before = [cpus if quota is None else quota for _, quota in [*in_force[-1:], *recent]]
    limit = min([float(cpus), *before]) - 0.05 * cpus
    for moment, quota in changes:
        if moment > step_s and quota is not None and quota <= limit:
            return moment - step_s
    return None


def as_steps(changes: Sequence[Point], began_s: float, ended_s: float, origin_s: float) -> list[Point]:
    """The quota over [began, ended] for drawing, relative to `origin_s`; the last state reaches to the end. Pure."""
    before = [quota for moment, quota in changes if moment <= began_s]
    within = [(moment, quota) for moment, quota in changes if began_s < moment < ended_s]
    first = before[-1] if before else (changes[0][1] if changes else None)
    points = [(began_s, first), *within]
    points.append((ended_s, points[-1][1]))
    return [(moment - origin_s, quota) for moment, quota in points]
