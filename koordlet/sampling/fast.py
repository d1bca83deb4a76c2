"""The three readings of the fast path: node, all pods together, best-effort group. About 12 µs a turn.

Each turn gives rates over the time since the turn before (100 ms), each mark rates over the time since the mark
before (a cycle): the first show a step, the second are what the step is measured against.
"""

from dataclasses import dataclass

from koordlet.sampling.rates import CounterRate
from koordlet.sysfs.errors import CgroupGone, Unsupported, WriteRefused
from koordlet.sysfs.groupstats import GroupStats
from koordlet.sysfs.mounts import CgroupMounts
from koordlet.sysfs.proc import NodeFiles


@dataclass(frozen=True)
class Load:
    """Cores in use that are not best-effort's: by pods, precise to the nanosecond, and by all, precise to a tick."""

    production_cores: float
    others_cores: float


class _Rates:
    def __init__(self) -> None:
        self._production = CounterRate()
        self._others = CounterRate()

    def update(self, at_s: float, production_s: float, others_s: float) -> Load | None:
        production = self._production.update(at_s, production_s)
        others = self._others.update(at_s, others_s)
        if production is None or others is None:
            return None
        return Load(production, others)


class FastSampler:
    """Reads the counters that the fast path compares."""

    def __init__(self, mounts: CgroupMounts, node: NodeFiles, kube_root: str, best_effort: str) -> None:
        self._node = node
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
        self._kube_root.close()
        self._best_effort.close()

    def _update(self, rates: _Rates, at_s: float) -> Load | None:
        try:
            best_effort_s = self._best_effort.usage_ns() * 1e-9
            production_s = max(self._kube_root.usage_ns() * 1e-9 - best_effort_s, 0.0)
            others_s = max(self._node.cpu_seconds() - best_effort_s, 0.0)
        except CgroupGone:
            self.close()
            return None
        except (Unsupported, WriteRefused, OSError, ValueError):
            return None
        return rates.update(at_s, production_s, others_s)
