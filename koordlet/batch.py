"""What a batch pod's cgroups get from its batch resources (pure).

kubelet knows no batch-cpu: such a pod has the lowest shares and no limit. From the amounts it asked for follow its
weight among other batch pods, its quota and its memory limit. While suppression works by quota on the best-effort
group, pods have none of their own: v1 allows no child more than its parent, and one limit at a time is enough.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

UNLIMITED = -1
MIN_SHARES = 2
MAX_SHARES = 262_144
MAX_WEIGHT = 10_000
MIN_QUOTA_US = 1_000
_SHARES_PER_CORE = 1_024
_US_PER_MILLI = 100
_TIGHTENING_STEP = 16 << 20
_HEADROOM_FRACTION = 20


@dataclass(frozen=True)
class BatchContainer:
    """Batch amounts of one container, milli-cores and bytes; None where nothing is stated."""

    name: str
    request_milli: int | None = None
    limit_milli: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True)
class BatchLimits:
    """What to write: `shares` on the v1 scale, quota in µs per 100 ms and memory in bytes, -1 unlimited."""

    shares: int
    quota_us: int
    memory_bytes: int


def shares_of(request_milli: int) -> int:
    """cpu.shares of a request, within the kernel's range."""
    return min(max(request_milli * _SHARES_PER_CORE // 1000, MIN_SHARES), MAX_SHARES)


def weight_of(shares: int) -> int:
    """cpu.weight on kubelet's classic scale: 2 is 1, 1024 is 39, 262144 is 10000."""
    shares = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (shares - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def quota_of(limit_milli: int | None) -> int:
    """The quota of a CPU limit, at least what the kernel takes; unlimited for none, zero or less."""
    if limit_milli is None or limit_milli <= 0:
        return UNLIMITED
    return max(limit_milli * _US_PER_MILLI, MIN_QUOTA_US)


def container_limits(
    container: BatchContainer, *, quota_allowed: bool = True, normalization_ratio: float = 1.0
) -> BatchLimits:
    """The limits of one container."""
    return pod_limits([container], quota_allowed=quota_allowed, normalization_ratio=normalization_ratio)


def pod_limits(
    containers: Sequence[BatchContainer], *, quota_allowed: bool = True, normalization_ratio: float = 1.0
) -> BatchLimits:
    """The limits of the pod: sums; a single container without a limit leaves the pod without.

    normalization_ratio: how much faster this node's CPUs are than the reference; only above 1 it counts.
    """
    shares = shares_of(sum(max(container.request_milli or 0, 0) for container in containers))
    quota = quota_of(_sum_or_none(container.limit_milli for container in containers)) if quota_allowed else UNLIMITED
    if quota != UNLIMITED and normalization_ratio > 1:
        quota = math.ceil(quota / normalization_ratio)
    memory = _sum_or_none(container.memory_limit_bytes for container in containers)
    return BatchLimits(shares, quota, UNLIMITED if memory is None else memory)


def _sum_or_none(amounts: Iterable[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None or amount <= 0:
            return None
        total += amount
    return total


def safe_memory_limit(wanted: int, current: int, working_set: int | None) -> int:
    """The limit to set now so that setting it kills nothing: never below what is in use and a twentieth more.

    v1 answers EBUSY to such a limit and v2 kills. A pod that outgrew its limit before it was set is stopped from
    growing further instead, and its limit follows it down. `current` is the file's value, -1 for none.
    """
    if wanted == UNLIMITED or working_set is None or (current != UNLIMITED and current <= wanted):
        return wanted
    needed = working_set + working_set // _HEADROOM_FRACTION
    if needed <= wanted:
        return wanted
    tightest = -(-needed // _TIGHTENING_STEP) * _TIGHTENING_STEP
    return tightest if current == UNLIMITED else min(current, tightest)
