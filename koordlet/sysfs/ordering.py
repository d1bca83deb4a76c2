"""In which order to write a tree of control files so that the kernel never refuses (pure).

In v1 a child's quota and CPU set must stay within its parent's at every moment. So: first from the top down,
loosen (a CPU set that moves takes the union of old and new); then from the bottom up, tighten. Within one cgroup
burst must stay within quota, so it rises after the quota and falls before it. Weights have no such rule and are
written in the first pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from koordlet.sysfs.knobs import Knob, KnobValue, loosest


@dataclass(frozen=True)
class Change:
    """One file that must go from `current` to `wanted`; `group` is the cgroup's path below its root."""

    group: str
    knob: Knob
    current: KnobValue
    wanted: KnobValue

    @property
    def depth(self) -> int:
        """0 for a top-level cgroup."""
        return self.group.count("/")


@dataclass(frozen=True)
class Write:
    """One write; `is_final` is False for the union that a moving CPU set passes through."""

    group: str
    knob: Knob
    value: KnobValue
    is_final: bool


def loosening_value(change: Change) -> KnobValue | None:
    """What the top-down pass writes: something looser than now, or None when this file waits for the second pass."""
    if change.knob is Knob.WEIGHT:
        return change.wanted if change.wanted != change.current else None
    value = loosest(change.knob, change.current, change.wanted)
    return value if value != change.current else None


def order_writes(changes: Sequence[Change]) -> list[Write]:
    """Every write that takes all files from current to wanted, ending with the wanted value of each."""
    writes: list[Write] = []
    waiting: list[Change] = []
    for change in sorted(changes, key=lambda change: (change.depth, change.knob is Knob.BURST)):
        value = loosening_value(change)
        if value is not None:
            writes.append(Write(change.group, change.knob, value, is_final=value == change.wanted))
        if change.wanted != (change.current if value is None else value):
            waiting.append(change)
    waiting.sort(key=lambda change: (-change.depth, change.knob is not Knob.BURST))
    return writes + [Write(change.group, change.knob, change.wanted, is_final=True) for change in waiting]
