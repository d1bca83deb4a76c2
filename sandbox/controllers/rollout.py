"""How a Deployment moves from old ReplicaSets to the new one. Pure.

    most pods    replicas + maxSurge
    least ready  replicas - maxUnavailable
The new ReplicaSet grows into what is left under the first line; old ones shrink as far as the second
allows, those with pods that are not available first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sandbox.admission.request import JsonObject
from sandbox.controllers.templates import without_hash
from sandbox.lifecycle.budget import scaled
from sandbox.lifecycle.pods import is_finished

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"


@dataclass(frozen=True)
class Bounds:
    """replicas wanted, pods that may exist at once, pods that must stay available."""

    replicas: int
    most: int
    least_available: int


@dataclass(frozen=True)
class RolloutPlan:
    """create: make the new ReplicaSet with so many replicas (None: it exists, or must wait).

    scales: replicas by ReplicaSet name, only where they change. retire: old empty ReplicaSets beyond the
    history limit.
    """

    create: int | None = None
    scales: Mapping[str, int] = field(default_factory=dict)
    retire: tuple[JsonObject, ...] = ()


def bounds_of(deployment: JsonObject) -> Bounds:
    """The strategy's limits in pods; with both at zero one pod may be unavailable."""
    spec = deployment.get("spec") or {}
    replicas = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Bounds(replicas, replicas, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), replicas)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Bounds(replicas, replicas + surge, max(replicas - unavailable, 0))


def split(deployment: JsonObject, replica_sets: Sequence[JsonObject]) -> tuple[JsonObject | None, list[JsonObject]]:
    """(the ReplicaSet with the Deployment's template, the others); the oldest match is the new one."""
    wanted = without_hash((deployment.get("spec") or {}).get("template") or {})
    new = next((rs for rs in replica_sets if without_hash(rs["spec"].get("template") or {}) == wanted), None)
    return new, [rs for rs in replica_sets if rs is not new]


def wants(replica_set: JsonObject) -> int:
    """spec.replicas."""
    return int((replica_set.get("spec") or {}).get("replicas", 1))


def has(replica_set: JsonObject, count: str) -> int:
    """A count of the status, such as availableReplicas."""
    return int((replica_set.get("status") or {}).get(count) or 0)


def plan_rollout(
    deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject], pods: Sequence[JsonObject]
) -> RolloutPlan:
    """The next step. `pods` are those of the old ReplicaSets, for Recreate, which waits until they are gone."""
    spec = deployment.get("spec") or {}
    if deployment["metadata"].get("deletionTimestamp"):
        return RolloutPlan()
    bounds = bounds_of(deployment)
    if spec.get("paused"):
        return RolloutPlan(scales=_scale_paused(bounds, new, old))
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return _recreate(bounds, new, old, pods)
    retire = _retired(deployment, new, old)
    if new is None:
        room = bounds.most - sum(wants(rs) for rs in old)
        return RolloutPlan(create=max(min(bounds.replicas, room), 0), retire=retire)
    scales = _grow(bounds, new, old)
    if not scales:
        scales = _shrink(bounds, new, old)
    return RolloutPlan(scales=scales, retire=retire)


def _scale_paused(bounds: Bounds, new: JsonObject | None, old: Sequence[JsonObject]) -> dict[str, int]:
    """A paused Deployment still follows spec.replicas with the one ReplicaSet that is in use."""
    active = [rs for rs in ([new] if new else []) + list(old) if wants(rs)]
    if len(active) == 1 and wants(active[0]) != bounds.replicas:
        return {active[0]["metadata"]["name"]: bounds.replicas}
    return {}


def _recreate(
    bounds: Bounds, new: JsonObject | None, old: Sequence[JsonObject], pods: Sequence[JsonObject]
) -> RolloutPlan:
    shrinking = {rs["metadata"]["name"]: 0 for rs in old if wants(rs)}
    if shrinking:
        return RolloutPlan(scales=shrinking)
    if any(not is_finished(pod) for pod in pods):
        return RolloutPlan()
    if new is None:
        return RolloutPlan(create=bounds.replicas)
    if wants(new) != bounds.replicas:
        return RolloutPlan(scales={new["metadata"]["name"]: bounds.replicas})
    return RolloutPlan()


def _grow(bounds: Bounds, new: JsonObject, old: Sequence[JsonObject]) -> dict[str, int]:
    """Scale the new ReplicaSet to what it may have now."""
    now = wants(new)
    if now > bounds.replicas:
        return {new["metadata"]["name"]: bounds.replicas}
    room = bounds.most - now - sum(wants(rs) for rs in old)
    target = now + min(max(room, 0), bounds.replicas - now)
    return {new["metadata"]["name"]: target} if target != now else {}


def _shrink(bounds: Bounds, new: JsonObject, old: Sequence[JsonObject]) -> dict[str, int]:
    """Scale old ReplicaSets down by what can be spared."""
    active = [rs for rs in old if wants(rs)]
    total = wants(new) + sum(wants(rs) for rs in active)
    coming = max(wants(new) - has(new, "availableReplicas"), 0)
    spare = total - bounds.least_available - coming
    scales: dict[str, int] = {}
    for rs in active:  # pods that serve nobody go first
        useless = max(wants(rs) - has(rs, "availableReplicas"), 0)
        cut = min(useless, max(spare, 0))
        if cut:
            scales[rs["metadata"]["name"]] = wants(rs) - cut
            spare -= cut
    available = has(new, "availableReplicas") + sum(
        min(has(rs, "availableReplicas"), scales.get(rs["metadata"]["name"], wants(rs))) for rs in active
    )
    spare = available - bounds.least_available
    for rs in active:
        left = scales.get(rs["metadata"]["name"], wants(rs))
        cut = min(left, max(spare, 0))
        if cut:
            scales[rs["metadata"]["name"]] = left - cut
            spare -= cut
    return scales


def _retired(deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Old, empty ReplicaSets beyond revisionHistoryLimit; the lowest revisions go first."""
    limit = (deployment.get("spec") or {}).get("revisionHistoryLimit", 10)
    if new is None or (wants(new) == 0 and bounds_of(deployment).replicas):
        return ()
    empty = [
        rs for rs in old if not wants(rs) and not has(rs, "replicas") and not rs["metadata"].get("deletionTimestamp")
    ]
    surplus = len(empty) - int(limit)
    return tuple(sorted(empty, key=revision_of)[:surplus]) if surplus > 0 else ()


def revision_of(obj: JsonObject) -> int:
    """The revision annotation as a number, 0 without one."""
    text = str((obj["metadata"].get("annotations") or {}).get(REVISION, "0"))
    return int(text) if text.isdigit() else 0
