"""Reads the node, the best-effort group, every pod and every container once a cycle.

CPU comes every cycle. Memory costs ten times as much to read (the kernel sums and prints forty lines), so a pod's
is read every few cycles in turns; what is shown in between is the last one. Times are the caller's monotonic clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from koordlet.sampling.rates import CounterRate
from koordlet.sampling.series import Series
from koordlet.sysfs.discovery import PodGroup
from koordlet.sysfs.errors import CgroupGone, Unsupported, WriteRefused
from koordlet.sysfs.groupstats import GroupStats
from koordlet.sysfs.mounts import CgroupMounts
from koordlet.sysfs.proc import NodeFiles, NodeMemory

MEMORY_CYCLES = 10
CONTAINER_MEMORY_CYCLES = 30
_BAD_READS = (CgroupGone, Unsupported, WriteRefused, OSError, ValueError)


@dataclass(frozen=True)
class Windows:
    """How long samples are kept, and how often they come."""

    cycle_s: float
    node_s: float
    """The longest window of the node's and the system's percentiles."""
    pod_s: float
    """The window of the pods' averages."""


class GroupSample:
    """What is known of one cgroup's use: the newest values and, for pods, rings of them.

    `cpu_cores` and `throttled_ratio` are None until two readings give a rate. Memory is in bytes, without page
    cache (anonymous and unevictable pages); `memory_with_cache` counts file pages too; `working_set` is all that
    is charged less inactive file pages.
    """

    __slots__ = (
        "_cpu_rate",
        "_periods",
        "_throttled",
        "_turn",
        "cpu_cores",
        "cpu_series",
        "memory_bytes",
        "memory_series",
        "memory_with_cache_bytes",
        "sampled_at_s",
        "stats",
        "throttled_ratio",
        "working_set_bytes",
    )

    def __init__(self, stats: GroupStats, turn: int, windows: Windows | None) -> None:
        self.stats = stats
        self.cpu_cores: float | None = None
        self.throttled_ratio: float | None = None
        self.memory_bytes: int | None = None
        self.memory_with_cache_bytes: int | None = None
        self.working_set_bytes: int | None = None
        self.sampled_at_s = 0.0
        self._cpu_rate = CounterRate()
        self._periods = self._throttled = -1
        self._turn = turn
        slots = 0 if windows is None else int(windows.pod_s / windows.cycle_s) + 2
        self.cpu_series = Series(slots, windows.cycle_s) if windows else None
        self.memory_series = Series(slots // MEMORY_CYCLES + 2, windows.cycle_s * MEMORY_CYCLES) if windows else None

    def sample(self, at_s: float, cycle: int, memory_cycles: int, with_cache: bool = False) -> None:
        """Read now; `with_cache` says which memory goes into the series. Raises CgroupGone when the cgroup ended."""
        self.cpu_cores = self._cpu_rate.update(at_s, self.stats.usage_ns() * 1e-9)
        # Without a quota the counters stand still; that one was set is noticed in the group's turn.
        if self._periods != 0 or (cycle + self._turn) % MEMORY_CYCLES == 0:
            self._sample_throttling()
        if self.cpu_cores is not None:
            self.sampled_at_s = at_s
            if self.cpu_series is not None:
                self.cpu_series.add(at_s, self.cpu_cores)
        if self.memory_bytes is None or (cycle + self._turn) % memory_cycles == 0:
            self._sample_memory(at_s, with_cache)

    def _sample_throttling(self) -> None:
        periods, throttled = self.stats.throttling()
        if 0 <= self._periods < periods and throttled >= self._throttled:
            self.throttled_ratio = (throttled - self._throttled) / (periods - self._periods)
        else:
            self.throttled_ratio = 0.0 if periods == self._periods else None
        self._periods, self._throttled = periods, throttled

    def _sample_memory(self, at_s: float, with_cache: bool) -> None:
        memory = self.stats.memory()
        if memory is None:
            return
        self.memory_bytes = memory.without_cache
        self.memory_with_cache_bytes = memory.with_cache
        self.working_set_bytes = memory.working_set
        if self.memory_series is not None:
            self.memory_series.add(at_s, memory.with_cache if with_cache else memory.without_cache)

    def working_set_now(self) -> int | None:
        """The working set as of this moment, for who is about to limit it; None when it cannot be read."""
        try:
            memory = self.stats.memory()
        except _BAD_READS:
            return None
        return None if memory is None else memory.working_set

    def close(self) -> None:
        """Let go of the kept descriptors."""
        self.stats.close()


@dataclass(frozen=True)
class CycleSample:
    """One cycle's measurement. Cores and bytes; None where no rate or no reading exists."""

    at_s: float
    node_cpu_cores: float | None
    node_memory: NodeMemory | None
    best_effort_cpu_cores: float | None
    pods: dict[str, GroupSample]
    """By the pod's cgroup path."""
    containers: dict[str, GroupSample]
    node_errors: tuple[str, ...]
    pod_errors: tuple[str, ...]


class Sampler:
    """Holds the descriptors and rings of everything that is measured."""

    def __init__(self, mounts: CgroupMounts, node: NodeFiles, windows: Windows) -> None:
        self._mounts = mounts
        self._node = node
        self._cycle = 0
        self._node_rate = CounterRate()
        self._best_effort: GroupSample | None = None
        self._pods: dict[str, GroupSample] = {}
        self._containers: dict[str, GroupSample] = {}
        self._turn = 0
        self.windows = windows
        self.counts_page_cache = False
        slots = int(windows.node_s / windows.cycle_s) + 2
        self.node_cpu = Series(slots, windows.cycle_s)
        self.node_memory = Series(slots, windows.cycle_s)
        self.system_cpu = Series(slots, windows.cycle_s)
        self.system_memory = Series(slots, windows.cycle_s)

    def count_page_cache(self, count: bool) -> None:
        """Which memory the series hold; a change empties them, since the two do not compare."""
        if count != self.counts_page_cache:
            self.counts_page_cache = count
            for series in (self.node_memory, self.system_memory, *(one.memory_series for one in self._pods.values())):
                if series is not None:
                    series.clear()

    def sample(self, at_s: float, groups: Iterable[PodGroup], best_effort_dir: str) -> CycleSample:
        """Measure everything once. One cgroup that ended or cannot be read never stops the others."""
        self._cycle += 1
        errors: list[str] = []
        pod_errors: list[str] = []
        node_cpu, memory = self._sample_node(at_s, errors)
        best_effort = self._sample_best_effort(at_s, best_effort_dir, errors)
        listed = list(groups)
        pods = {group.group for group in listed}
        containers = {container.group for group in listed for container in group.containers}
        self._sample_all(self._pods, pods, at_s, self.windows, pod_errors)
        self._sample_all(self._containers, containers, at_s, None, pod_errors)
        self._keep(at_s, node_cpu, memory)
        return CycleSample(
            at_s, node_cpu, memory, best_effort, self._pods, self._containers, tuple(errors), tuple(pod_errors)
        )

    def close(self) -> None:
        """Let go of every descriptor but the node's, which the caller opened."""
        for sample in [*self._pods.values(), *self._containers.values()]:
            sample.close()
        if self._best_effort is not None:
            self._best_effort.close()
        self._pods, self._containers, self._best_effort = {}, {}, None

    def _sample_node(self, at_s: float, errors: list[str]) -> tuple[float | None, NodeMemory | None]:
        try:
            return self._node_rate.update(at_s, self._node.cpu_seconds()), self._node.memory()
        except _BAD_READS as error:
            errors.append(f"node: {error}")
            return None, None

    def _sample_best_effort(self, at_s: float, group: str, errors: list[str]) -> float | None:
        if self._best_effort is None:
            self._best_effort = GroupSample(GroupStats(self._mounts, group), 0, None)
        try:
            self._best_effort.sample(at_s, self._cycle, MEMORY_CYCLES)
        except CgroupGone as error:
            self._best_effort.close()
            self._best_effort = None
            errors.append(f"best-effort group: {error}")
            return None
        except _BAD_READS as error:
            errors.append(f"best-effort group: {error}")
            return None
        return self._best_effort.cpu_cores

    def _sample_all(
        self,
        known: dict[str, GroupSample],
        present: set[str],
        at_s: float,
        windows: Windows | None,
        errors: list[str],
    ) -> None:
        for group in known.keys() - present:
            known.pop(group).close()
        for group in present - known.keys():
            self._turn += 1
            known[group] = GroupSample(GroupStats(self._mounts, group), self._turn, windows)
        cycles = MEMORY_CYCLES if windows else CONTAINER_MEMORY_CYCLES
        for group, sample in list(known.items()):
            try:
                sample.sample(at_s, self._cycle, cycles, self.counts_page_cache)
            except CgroupGone:
                known.pop(group).close()
            except _BAD_READS as error:
                errors.append(f"{group}: {error}")

    def _keep(self, at_s: float, node_cpu: float | None, memory: NodeMemory | None) -> None:
        if node_cpu is not None:
            self.node_cpu.add(at_s, node_cpu)
            pods_cpu = sum(sample.cpu_cores or 0.0 for sample in self._pods.values())
            self.system_cpu.add(at_s, max(node_cpu - pods_cpu, 0.0))
        if memory is not None:
            used = memory.with_cache if self.counts_page_cache else memory.used
            pods_memory = sum(
                (sample.memory_with_cache_bytes if self.counts_page_cache else sample.memory_bytes) or 0
                for sample in self._pods.values()
            )
            self.node_memory.add(at_s, used)
            self.system_memory.add(at_s, max(used - pods_memory, 0))
