"""CPU weights that keep a production pod's tail latency near what it is alone (pure).

The weight protects, a quota only caps: with production at 256 times the weight of best-effort work or more, its
p99 was measured within a tenth of running alone; at 10:1, which kubelet gives a pod that asked for 10m CPU, it was
1.4 times that. So the best-effort side sits at the lowest weight there is and production is raised:

- at the kube root, where Guaranteed pods, the burstable directory and the best-effort directory compete, by one
  factor for all of production, so that nothing changes among its pods. The factor looks at what each pod gets in
  the end: a Burstable pod has its part of the burstable directory's weight;
- inside the burstable directory only where that is not enough (the kernel's range ends), or where pods labelled BE
  with native requests compete in there. Left alone otherwise: a pod that starts between two cycles must not meet
  siblings at fifty times their usual weight.

Where the range is too short for one factor, the smallest are lifted to the ratio: order among production pods is
kept always, ratios as far as the range goes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

RATIO = 256
"""What production's weakest pod is given, if need be at the price of ratios among the smallest."""
AIM = 2_048
"""What the common factor goes for where that costs nothing: six paired runs gave a p99 of 1.22 times alone at 256:1,
1.17 at 512:1, 1.15 at 1024:1 and 1.12 at 2048:1, with best-effort work capped just below what was idle."""
_ROUNDS = 64


@dataclass(frozen=True)
class WeightScale:
    """The kernel's range: v1 shares 2..262144, v2 weight 1..10000."""

    lowest: int
    highest: int

    @property
    def protected(self) -> int:
        """The least weight that is RATIO times the best-effort side's."""
        return self.lowest * RATIO


@dataclass(frozen=True)
class Competitor:
    """A cgroup with the weight it has without us."""

    group: str
    base: int
    is_best_effort: bool = False


@dataclass(frozen=True)
class KubeRoot:
    """Who competes. `burstable` and `best_effort` None: the directory is missing."""

    best_effort: str | None
    burstable: Competitor | None
    guaranteed_pods: Sequence[Competitor]
    burstable_pods: Sequence[Competitor]


@dataclass(frozen=True)
class WeightDecision:
    """The weight of every group and what led to it. `least_ratio`: production's weakest pod against best-effort."""

    weights: dict[str, int]
    factor: float
    inner_floor: int
    least_ratio: float
    weakest: str = ""


def decide_weights(root: KubeRoot, scale: WeightScale) -> WeightDecision:
    """The weights that everything under the kube root should have."""
    weights: dict[str, int] = {}
    if root.best_effort is not None:
        weights[root.best_effort] = scale.lowest
    inner = _separate(root.burstable_pods, scale)
    top = {pod.group: pod.base for pod in root.guaranteed_pods if not pod.is_best_effort}
    weights.update({pod.group: scale.lowest for pod in root.guaranteed_pods if pod.is_best_effort})
    protected_inside = [pod.group for pod in root.burstable_pods if not pod.is_best_effort]
    if root.burstable is not None:
        if protected_inside:
            top[root.burstable.group] = root.burstable.base
        else:
            weights[root.burstable.group] = root.burstable.base
    factor = _factor(top, root.burstable, inner, protected_inside, scale)
    weights.update({group: _scaled(base, factor, scale) for group, base in top.items()})
    inner_floor = 0
    if root.burstable is not None and protected_inside:
        # Where the range ended, the factor may leave the directory less than all its pods need together.
        needed = scale.protected * len(protected_inside) + scale.lowest * (len(inner) - len(protected_inside))
        weights[root.burstable.group] = min(max(weights[root.burstable.group], needed), scale.highest)
        inner_floor = _lift(inner, protected_inside, weights[root.burstable.group], scale)
    weights.update(inner)
    least, weakest = _weakest(weights, top, root.burstable, inner, protected_inside)
    return WeightDecision(weights, factor, inner_floor, least / scale.lowest, weakest)


def _separate(pods: Sequence[Competitor], scale: WeightScale) -> dict[str, int]:
    """Weights inside the burstable directory: unchanged unless best-effort pods compete there."""
    protected = [pod.base for pod in pods if not pod.is_best_effort]
    if not protected or len(protected) == len(pods):
        return {pod.group: scale.lowest if pod.is_best_effort else pod.base for pod in pods}
    factor = _bounded_factor(min(protected), max(protected), scale)
    return {pod.group: scale.lowest if pod.is_best_effort else _scaled(pod.base, factor, scale) for pod in pods}


def _factor(
    top: dict[str, int],
    burstable: Competitor | None,
    inner: dict[str, int],
    protected_inside: Sequence[str],
    scale: WeightScale,
) -> float:
    if not top:
        return 1.0
    total = sum(inner.values())
    own = None if burstable is None else burstable.group
    least: float = min((base for group, base in top.items() if group != own), default=math.inf)
    if burstable is not None and protected_inside:
        least = min(least, burstable.base * min(inner[group] for group in protected_inside) / total)
    return _common_factor(least, max(top.values()), scale)


def _common_factor(least: float, largest: int, scale: WeightScale) -> float:
    """The factor for all of production: up to AIM within the kernel's range, whatever RATIO needs beyond that."""
    needed = _bounded_factor(least, largest, scale)
    aimed = 2.0 ** math.ceil(math.log2(max(scale.lowest * AIM / max(least, 1e-9), 1.0)))
    room = 2.0 ** math.floor(math.log2(scale.highest / largest))
    return max(needed, min(aimed, room))


def _bounded_factor(least: float, largest: int, scale: WeightScale) -> float:
    """The factor that lifts `least` to the protected weight within range; a power of two, so that it seldom moves."""
    if least >= scale.protected:
        return 1.0
    wanted = 2.0 ** math.ceil(math.log2(scale.protected / max(least, 1e-9)))
    return max(min(wanted, scale.highest / largest), 1.0)


def _scaled(base: int, factor: float, scale: WeightScale) -> int:
    return min(max(math.ceil(base * factor), scale.protected), scale.highest)


def _lift(inner: dict[str, int], protected: Sequence[str], burstable_weight: int, scale: WeightScale) -> int:
    """Raise the smallest pods inside until each one's part of the burstable weight is protected; returns the floor.

    Raising one pod makes every other's part smaller, hence the rounds.
    """
    floor = 0
    for _ in range(_ROUNDS):
        total = sum(inner.values())
        needed = math.ceil(scale.protected * total / burstable_weight)
        short = [group for group in protected if inner[group] < min(needed, scale.highest)]
        if not short:
            break
        floor = min(needed, scale.highest)
        for group in short:
            inner[group] = floor
    return floor


def _weakest(
    weights: dict[str, int],
    top: dict[str, int],
    burstable: Competitor | None,
    inner: dict[str, int],
    protected_inside: Sequence[str],
) -> tuple[float, str]:
    own = None if burstable is None else burstable.group
    effective: dict[str, float] = {group: weights[group] for group in top if group != own}
    if burstable is not None and protected_inside:
        total = sum(inner.values())
        effective.update({group: weights[burstable.group] * inner[group] / total for group in protected_inside})
    if not effective:
        return math.inf, ""
    weakest = min(effective, key=lambda group: effective[group])
    return effective[weakest], weakest
