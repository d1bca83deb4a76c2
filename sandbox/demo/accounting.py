"""Who used the CPUs of this machine between two moments.

Pods are read from their cgroups, processes of the experiment from /proc/PID/stat, the whole machine from
/proc/stat; what is left over is `outside`: the measure of how far a phase can be trusted.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sandbox.demo.cgroup_values import KUBEPODS, CgroupValues
from sandbox.demo.result import CpuUse

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds since some fixed past, at one moment (`at_s`, CLOCK_MONOTONIC seconds).

    Groups of cgroups and processes are kept by member: one that appears between two moments counts from
    zero, one that has gone does not count.
    """

    at_s: float
    idle: float
    steal: float
    service: Mapping[str, float] = field(default_factory=dict)
    batch: Mapping[str, float] = field(default_factory=dict)
    components: Mapping[str, float] = field(default_factory=dict)
    cluster: Mapping[str, float] = field(default_factory=dict)


def use_between(before: CpuTimes, after: CpuTimes, cpus: int, generator: float = 0.0) -> CpuUse:
    """Mean CPUs in use by whom; `generator` is known from the generator itself, in CPUs. Pure."""
    seconds = after.at_s - before.at_s
    if seconds <= 0:
        raise ValueError(f"no time between the two moments: {seconds} s")
    idle = min(float(cpus), (after.idle - before.idle) / seconds)
    steal = max(0.0, (after.steal - before.steal) / seconds)
    service = _grown(before.service, after.service) / seconds
    batch = _grown(before.batch, after.batch) / seconds
    components = _grown(before.components, after.components) / seconds
    cluster = _grown(before.cluster, after.cluster) / seconds
    known = service + batch + components + cluster + generator
    return CpuUse(
        cpus=cpus,
        seconds=seconds,
        service=service,
        batch=batch,
        generator=generator,
        components=components,
        cluster=cluster,
        outside=max(0.0, cpus - idle - steal - known),
        steal=steal,
        idle=idle,
    )


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return sum(max(0.0, value - before.get(name, 0.0)) for name, value in after.items())


class Accountant:
    """Takes `CpuTimes` of this machine for a changing set of pods and processes.

    Processes count with all that they started, but for `own_pids`, whose children are counted elsewhere.
    """

    def __init__(self, values: CgroupValues, proc_root: Path = Path("/proc")) -> None:
        self._values = values
        self._proc = proc_root
        self.service_path: PurePosixPath | None = None
        self.batch_paths: tuple[PurePosixPath, ...] = ()
        self.component_pids: tuple[int, ...] = ()
        self.cluster_pids: tuple[int, ...] = ()
        self.own_pids: tuple[int, ...] = ()

    def take(self) -> CpuTimes:
        """The times now; a few milliseconds of work."""
        children = self._children()
        idle, steal = self._machine()
        component_pids = descendants(children, self.component_pids)
        cluster_pids = descendants(children, self.cluster_pids) - component_pids
        return CpuTimes(
            at_s=time.monotonic(),
            idle=idle,
            steal=steal,
            service=self._cgroups([self.service_path] if self.service_path else []),
            batch=self._cgroups(self.batch_paths),
            components=self._processes(component_pids),
            cluster=self._processes([*self.own_pids, *(pid for pid in cluster_pids if not self._in_pod(pid))]),
        )

    def take_pods(self) -> CpuTimes:
        """As `take`, without the processes: well under a millisecond of work."""
        idle, steal = self._machine()
        return CpuTimes(
            at_s=time.monotonic(),
            idle=idle,
            steal=steal,
            service=self._cgroups([self.service_path] if self.service_path else []),
            batch=self._cgroups(self.batch_paths),
        )

    def _cgroups(self, paths: Iterable[PurePosixPath]) -> dict[str, float]:
        usages = ((str(path), self._values.usage_s(path)) for path in paths)
        return {path: usage for path, usage in usages if usage is not None}

    def _machine(self) -> tuple[float, float]:
        words = (self._proc / "stat").read_text().split("\n", 1)[0].split()
        numbers = [int(word) / TICKS_PER_S for word in words[1:9]]
        return numbers[3] + numbers[4], numbers[7]

    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                fields = self._stat(int(entry.name))
                if fields is not None:
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
        return children

    def _processes(self, pids: Iterable[int]) -> dict[str, float]:
        found = {}
        for pid in pids:
            fields = self._stat(pid)
            if fields is not None:
                # With its start time the key stays unique when a pid is used again.
                found[f"{pid}@{fields[19]}"] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        return found

    def _stat(self, pid: int) -> list[str] | None:
        """The fields of /proc/PID/stat from the state on, or None when the process is gone."""
        try:
            return (self._proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None

    def _in_pod(self, pid: int) -> bool:
        with suppress(OSError):
            return f"/{KUBEPODS}/" in (self._proc / str(pid) / "cgroup").read_text()
        return True


def descendants(children: Mapping[int, Iterable[int]], roots: Iterable[int]) -> set[int]:
    """The roots and everything below them. Pure."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found
