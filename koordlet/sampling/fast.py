"""The three readings of the fast path: node, all pods together, best-effort group. About 10 µs a turn.

Each turn gives rates over the time since the turn before (100 ms), each mark rates over the time since the mark
before (a cycle): the first show a step, the second are what the step is measured against.
"""

from koordlet.sampling.load import Load
from koordlet.sampling.rates import CounterRate
from koordlet.sysfs.errors import CgroupGone, Unsupported, WriteRefused
from koordlet.sysfs.groupstats import GroupStats
from koordlet.sysfs.mounts import CgroupMounts
from koordlet.sysfs.proc import NodeFiles


class _Rates:
    def __init__(self) -> None:
        self._production = CounterRate()
        self._others = CounterRate()

    def update(self, at_s: float, production_s: float, others_s: float, is_precise: bool) -> Load | None:
        production = self._production.update(at_s, production_s)
        others = self._others.update(at_s, others_s)
        if production is None or others is None:
            return None
        return Load(production, others, is_precise)


class FastSampler:
    """Reads the counters that the fast path compares."""

    def __init__(self, mounts: CgroupMounts, node: NodeFiles, kube_root: str, best_effort: str) -> None:
        self._node = node
        self._is_precise = mounts.of("cpuacct").version == 1
        # v1's top cgroup counts what its tasks ran, for a tenth of what it costs to print /proc/stat.
        self._top = GroupStats(mounts, ".") if self._is_precise else None
        self._kube_root = GroupStats(mounts, kube_root)
        self._best_effort = GroupStats(mounts, best_effort)
        self._turns = _Rates()
        self._marks = _Rates()

    def turn(self, at_s: float) -> Load | None:
        """The load since the turn before; None for the first, or when a group is missing."""
        return self._update(self._turns, at_s)

    def mark(self, at_s: float) -> Load | None:
        """The load since the mark before; None for the first, or when a group is missing."""
        return self._update(self._marks, at_s)

    def close(self) -> None:
        """Let go of the kept descriptors."""
        for stats in (self._kube_root, self._best_effort, self._top):
            if stats is not None:
                stats.close()

    def _update(self, rates: _Rates, at_s: float) -> Load | None:
        try:
            best_effort_s = self._best_effort.usage_ns() * 1e-9
            production_s = max(self._kube_root.usage_ns() * 1e-9 - best_effort_s, 0.0)
            all_s = self._node.cpu_seconds() if self._top is None else self._top.usage_ns() * 1e-9
        except CgroupGone:
            self.close()
            return None
        except (Unsupported, WriteRefused, OSError, ValueError):
            return None
        return rates.update(at_s, production_s, max(all_s - best_effort_s, 0.0), self._is_precise)
