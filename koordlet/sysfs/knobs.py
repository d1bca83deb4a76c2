"""The control files the agent writes: names, units, limits and which of two values is the looser one.

Values above this layer have one meaning on v1 and v2:

- QUOTA: microseconds of CPU per 100 ms, -1 for no limit, whatever period the cgroup has.
- WEIGHT: the file's own scale, since ratios are what matters: v1 `cpu.shares` 2..262144, v2 `cpu.weight`
  1..10000. It is never converted between the two: runtimes disagree on the formula.
- CPUS: a set of CPU numbers; empty on v2 means "as the parent".
- MEMORY: bytes, -1 for no limit.
- BURST: microseconds that unused quota may accumulate.

Kernel traps that this table cannot express (quota below burst, shares of an idle cgroup, v1's rule that no
child may have a larger quota than its parent) are handled where the write fails, in `executor`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from koordlet.sysfs import cpulist

KnobValue = int | frozenset[int]

PERIOD_US = 100_000
UNLIMITED = -1
MIN_QUOTA_US = 1_000
"""The kernel refuses a smaller quota in either version."""
_V1_UNLIMITED_MEMORY = 1 << 62
"""v1 shows an unlimited memory.limit_in_bytes as the largest page-aligned signed integer."""


class Knob(StrEnum):
    """A control file by what it does."""

    WEIGHT = "weight"
    QUOTA = "quota"
    BURST = "burst"
    CPUS = "cpus"
    MEMORY = "memory"


@dataclass(frozen=True)
class Form:
    """One knob in one cgroup version. `parse` takes the file's text; `render` gives what to write."""

    file: str
    parse: Callable[[str], KnobValue]
    render: Callable[[KnobValue], str]
    lowest: int = 0
    highest: int = 0


@dataclass(frozen=True)
class KnobKind:
    """A knob in both versions and the controller that offers it."""

    controller: str
    v1: Form
    v2: Form

    def form(self, version: int) -> Form:
        """The form of cgroup version 1 or 2."""
        return self.v1 if version == 1 else self.v2


def _number(text: str) -> int:
    return int(text.split()[0])


def _number_or_max(text: str) -> int:
    first = text.split()[0]
    return UNLIMITED if first == "max" else int(first)


def _v1_memory(text: str) -> int:
    amount = _number(text)
    return UNLIMITED if amount < 0 or amount >= _V1_UNLIMITED_MEMORY else amount


def _plain(value: KnobValue) -> str:
    return cpulist.render(value) if isinstance(value, frozenset) else str(value)


def _max_or_number(value: KnobValue) -> str:
    return "max" if value == UNLIMITED else str(value)


KNOBS: Mapping[Knob, KnobKind] = MappingProxyType(
    {
        Knob.WEIGHT: KnobKind(
            "cpu",
            Form("cpu.shares", _number, _plain, lowest=2, highest=262_144),
            Form("cpu.weight", _number, _plain, lowest=1, highest=10_000),
        ),
        Knob.QUOTA: KnobKind(
            "cpu",
            Form("cpu.cfs_quota_us", _number, _plain, lowest=MIN_QUOTA_US),
            Form("cpu.max", _number_or_max, _max_or_number, lowest=MIN_QUOTA_US),
        ),
        Knob.BURST: KnobKind(
            "cpu", Form("cpu.cfs_burst_us", _number, _plain), Form("cpu.max.burst", _number, _plain)
        ),
        Knob.CPUS: KnobKind(
            "cpuset", Form("cpuset.cpus", cpulist.parse, _plain), Form("cpuset.cpus", cpulist.parse, _plain)
        ),
        Knob.MEMORY: KnobKind(
            "memory",
            Form("memory.limit_in_bytes", _v1_memory, _plain),
            Form("memory.max", _number_or_max, _max_or_number),
        ),
    }
)


def is_looser(knob: Knob, value: KnobValue, other: KnobValue) -> bool:
    """Whether `value` allows strictly more than `other`; a weight has no such order and is never looser."""
    if isinstance(value, frozenset) and isinstance(other, frozenset):
        return value > other
    if knob is Knob.WEIGHT or isinstance(value, frozenset) or isinstance(other, frozenset):
        return False
    if other == UNLIMITED:
        return False
    return value == UNLIMITED or value > other


def loosest(knob: Knob, value: KnobValue, other: KnobValue) -> KnobValue:
    """The least value that allows all that either allows."""
    if isinstance(value, frozenset) and isinstance(other, frozenset):
        return value | other
    return value if is_looser(knob, value, other) else other
