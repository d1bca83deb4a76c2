"""Which CPUs best-effort work may use under the cpuset policy (pure).

Koordinator's choice, so that a node behaves the same under either agent: whole cores first, spread over NUMA
nodes and sockets, CPUs of LSE pods never, those of LSR pods in proportion. Where it divides by zero (no CPU is
left), this skips and says so; two sockets never fall into one bucket.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from koord.api.qos import QoSClass

MIN_CPUS = 2


class Cpu(NamedTuple):
    """A logical CPU and where it sits; `core` is unique in the node."""

    cpu: int
    core: int
    socket: int
    numa: int


class CpusetReason(StrEnum):
    """Why the set is what it is."""

    BUDGET = "budget"
    RISE_LIMITED = "rise limited to a tenth of the node"
    NO_CANDIDATES = "every CPU is reserved or exclusive"
    TOO_FEW = "fewer CPUs are free than the budget asks for"


@dataclass(frozen=True)
class CpuCount:
    """How many CPUs, and by how many the number may grow in one cycle."""

    count: int
    max_rise: int
    is_rise_limited: bool


@dataclass(frozen=True)
class Pools:
    """The candidates: those that LSR pods hold and the others."""

    lsr: tuple[Cpu, ...]
    other: tuple[Cpu, ...]


@dataclass(frozen=True)
class CpusetStep:
    """The CPUs to have now; `cpus` empty and `is_write` False means that nothing is to change."""

    cpus: frozenset[int]
    is_write: bool
    count: int
    from_lsr: int
    reason: CpusetReason


def target_count(budget_milli: int, processors: int, current: int) -> CpuCount:
    """CPUs for a budget, rounded up, at least two; grows by a tenth of all processors, shrinks at once."""
    wanted = max(-(-budget_milli // 1000), MIN_CPUS)
    max_rise = -(-processors // 10)
    limited = min(wanted, current + max_rise)
    return CpuCount(limited, max_rise, limited < wanted)


def split_pools(
    processors: Iterable[Cpu],
    owners: Iterable[tuple[QoSClass | None, frozenset[int]]],
    excluded: frozenset[int],
) -> Pools:
    """Leave out excluded CPUs and those of LSE pods, and tell those of LSR pods from the rest.

    owners: label and allocated CPUs per pod; where two pods claim a CPU the later one counts.
    """
    owner_of: dict[int, QoSClass | None] = {}
    for label, cpus in owners:
        for cpu in cpus:
            owner_of[cpu] = label
    lsr: list[Cpu] = []
    other: list[Cpu] = []
    for processor in processors:
        if processor.cpu in excluded or owner_of.get(processor.cpu) is QoSClass.LSE:
            continue
        (lsr if owner_of.get(processor.cpu) is QoSClass.LSR else other).append(processor)
    return Pools(tuple(lsr), tuple(other))


def plan_cpus(budget_milli: int, processors: int, current: frozenset[int], pools: Pools) -> CpusetStep:
    """One cycle of the cpuset policy. `processors` counts all online CPUs, excluded ones too."""
    wanted = target_count(budget_milli, processors, len(current))
    candidates = len(pools.lsr) + len(pools.other)
    if candidates == 0:
        return CpusetStep(current, False, wanted.count, 0, CpusetReason.NO_CANDIDATES)
    from_lsr = wanted.count * len(pools.lsr) // candidates
    chosen = pick(from_lsr, pools.lsr) + pick(wanted.count - from_lsr, pools.other)
    if not chosen:
        return CpusetStep(current, False, wanted.count, from_lsr, CpusetReason.TOO_FEW)
    reason = CpusetReason.RISE_LIMITED if wanted.is_rise_limited else CpusetReason.BUDGET
    return CpusetStep(frozenset(chosen), True, wanted.count, from_lsr, reason)


def allowed_cpus(pools: Pools) -> frozenset[int]:
    """What best-effort work may use while it is not suppressed by CPU sets."""
    return frozenset(processor.cpu for processor in (*pools.lsr, *pools.other))


def pick(wanted: int, processors: Sequence[Cpu]) -> list[int]:
    """`wanted` CPUs in the order they are taken; none at all when there are too few.

    Buckets are (NUMA node, socket), larger first. In turns, each gives a pair of neighbours on one core while
    two or more are wanted; what is left over comes one by one, in turns, from where the pairs ran out.
    """
    if wanted <= 0 or wanted > len(processors):
        return []
    buckets = _buckets(processors)
    chosen: list[int] = []
    position = _take_pairs(buckets, wanted, chosen)
    while len(chosen) < wanted:
        bucket = buckets[position % len(buckets)]
        if bucket:
            chosen.append(bucket.pop(0).cpu)
        position += 1
    return chosen


def _buckets(processors: Sequence[Cpu]) -> list[list[Cpu]]:
    grouped: dict[tuple[int, int], list[Cpu]] = {}
    for processor in processors:
        grouped.setdefault((processor.numa, processor.socket), []).append(processor)
    buckets = [sorted(bucket, key=lambda one: (one.core, one.cpu)) for bucket in grouped.values()]
    return sorted(buckets, key=lambda bucket: (-len(bucket), min(one.cpu for one in bucket)))


def _take_pairs(buckets: list[list[Cpu]], wanted: int, chosen: list[int]) -> int:
    """Take pairs round by round; returns the bucket at which it stopped."""
    position = 0
    barren = 0
    while wanted - len(chosen) > 1 and barren < len(buckets):
        bucket = buckets[position % len(buckets)]
        pair = next((at for at in range(len(bucket) - 1) if bucket[at].core == bucket[at + 1].core), None)
        if pair is None:
            barren += 1
        else:
            barren = 0
            chosen += [bucket[pair].cpu, bucket[pair + 1].cpu]
            del bucket[pair : pair + 2]
        position += 1
    return position
