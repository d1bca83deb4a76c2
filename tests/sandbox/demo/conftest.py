"""A complete, plausible result to draw and print; what a demo could leave on the machine."""

import os
import tempfile
import time
from pathlib import Path
from random import Random

import pytest

from sandbox.demo.result import (
    CpuUse,
    DemoResult,
    LoadStep,
    Machine,
    Phase,
    PhaseName,
    Pod,
    Restart,
    Round,
    Sample,
)


def make_phase(random, name, began_s):
    batch = 0.0 if name is PhaseName.ALONE else 1.42
    slowdown = {PhaseName.ALONE: 1.0, PhaseName.PLAIN: 2.3, PhaseName.KOORD: 1.08}[name]
    latencies = [1.0 + random.expovariate(1.4 / slowdown) for _ in range(3200)]
    ordered = sorted(latencies)
    cpu = CpuUse(2, 8.0, 0.41, batch, 0.02, 0.03, 0.04, 0.01, 0.0, 2 - 0.51 - batch)
    return Phase(
        name,
        began_s,
        cpu,
        p50_ms=ordered[1600],
        p99_ms=ordered[3168],
        requests=3200,
        errors=0,
        batch_work=int(batch * 40_000),
        latencies_ms=tuple(latencies),
    )


def make_samples(random, rounds, until_s):
    samples = []
    for second in range(int(until_s)):
        phases = [phase for item in rounds for phase in (item.alone, item.koord, item.plain)]
        current = next((phase for phase in phases if phase.began_s <= second < phase.ended_s), None)
        batch = current.cpu.batch if current else 0.0
        plain = current is not None and current.name is PhaseName.PLAIN
        samples.append(
            Sample(
                at_s=float(second),
                batch_cpu_milli=None if second < 6 else (120 if plain else 1400 + random.randrange(-60, 60)),
                batch_memory_bytes=None if second < 6 else 9_000_000_000,
                quota_cpus=None if plain or second < 8 else 1.5 + random.uniform(-0.05, 0.05),
                besteffort_weight=2,
                service_weight=1024,
                service_cpus=0.4 if current else 0.0,
                batch_cpus=batch,
                busy_cpus=min(2.0, 0.1 + batch + (0.4 if current else 0.0)),
            )
        )
    return samples


@pytest.fixture
def result():
    random = Random(5)
    rounds, at = [], 12.0
    for _ in range(5):
        alone, koord, plain = (
            make_phase(random, name, at + index * 11)
            for index, name in enumerate((PhaseName.ALONE, PhaseName.KOORD, PhaseName.PLAIN))
        )
        rounds.append(Round(alone, plain, koord))
        at += 33
    quota = [(-3 + index / 50, 1.85 if index < 200 else 1.25) for index in range(500)]
    p99 = [(-2.75 + index / 2, 3.0 + (index > 5) * random.uniform(4, 6)) for index in range(18)]
    executor = {"cpu": "300m", "memory": "64Mi"}
    batch = {"kubernetes.io/batch-cpu": "300", "kubernetes.io/batch-memory": "64Mi"}
    return DemoResult(
        measured=True,
        why_not_measured="",
        machine=Machine(2, "A <plausible> & quoted processor", 24 * 2**30, "6.18.0", "v1", "3.11.2"),
        seed=1,
        rps=400,
        rounds=tuple(rounds),
        step=LoadStep(at + 5, 100, 700, 950.0, tuple(quota), tuple(p99), 4000),
        samples=tuple(make_samples(random, rounds, at + 20)),
        restarts=(Restart("manager", 33.0, "killed by SIGKILL"),),
        pods=(
            Pod("shop", "web", "LS", "koord-prod", "Burstable", "this-machine", {"cpu": "500m"}, {}),
            Pod("spark-plain", "executor-1", "", "", "Burstable", "this-machine", executor, {}),
            Pod("spark", "executor-1", "BE", "koord-batch", "BestEffort", "this-machine", batch, batch),
        ),
        generator_scheduling="fifo",
        took_s=at + 20,
        versions={"koord": "0.1.0", "kubectl": "v1.37.1"},
    )


MARK = "koord-demo-"


def cgroups():
    """Directories of a demo in any hierarchy."""
    root = Path("/sys/fs/cgroup")
    mounts = [root, *(path for path in root.iterdir() if path.is_dir())]
    return {str(path) for mount in mounts for path in mount.glob(f"{MARK}*")}


def processes():
    """Command lines that name a demo's directory or cgroup parent, or one of its workloads."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if MARK in line:
                found[int(entry.name)] = line
    return found


def directories():
    """Temporary directories of a demo."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob(f"{MARK}*")}


class MachineState:
    """Everything of the three kinds when it was made, to compare with afterwards."""

    def __init__(self):
        self._before = self._now()

    def _now(self):
        return cgroups(), set(processes()), directories()

    def wait_unchanged(self, timeout_s=20.0):
        """Wait until nothing is there that was not there before; fails naming what stays."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = [now - then for now, then in zip(self._now(), self._before, strict=True)]
            if not any(left):
                return
            assert time.monotonic() < deadline, f"left behind: {left}, {processes()}"
            time.sleep(0.1)


@pytest.fixture
def machine_state():
    """The machine before the test."""
    return MachineState()
