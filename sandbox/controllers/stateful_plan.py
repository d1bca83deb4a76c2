"""The next step of a StatefulSet: pods with fixed names, made and removed in order. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sandbox.admission.request import JsonObject
from sandbox.controllers.replica_count import available_in_s
from sandbox.controllers.templates import labels_of
from sandbox.lifecycle.pods import is_finished, is_ready, is_terminating

REVISION_HASH: Final = "controller-revision-hash"
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True)
class StatefulPlan:
    """create: ordinals to make now. delete: pods to remove now. again_s: when time alone changes it."""

    create: tuple[int, ...]
    delete: tuple[JsonObject, ...]
    status: JsonObject
    again_s: float | None


def ordinal_of(stateful_set: JsonObject, pod: JsonObject) -> int:
    """The number at the end of the pod's name; -1 when it is no pod of this set."""
    base, _, number = str(pod["metadata"]["name"]).rpartition("-")
    return int(number) if base == stateful_set["metadata"]["name"] and number.isdigit() else -1


def plan_stateful(stateful_set: JsonObject, pods: Sequence[JsonObject], revision: str, now_s: float) -> StatefulPlan:
    """With OrderedReady one pod moves at a time and each waits for those before it."""
    spec = stateful_set.get("spec") or {}
    start = int((spec.get("ordinals") or {}).get("start") or 0)
    wanted = range(start, start + int(spec.get("replicas", 1)))
    by_ordinal = {ordinal_of(stateful_set, pod): pod for pod in pods}
    by_ordinal.pop(-1, None)
    status, again_s = _status(stateful_set, by_ordinal, revision, now_s)
    if stateful_set["metadata"].get("deletionTimestamp"):
        return StatefulPlan((), (), status, None)
    finished = tuple(pod for pod in by_ordinal.values() if is_finished(pod) and not is_terminating(pod))
    if finished:
        return StatefulPlan((), finished, status, again_s)
    surplus = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]
    missing = [ordinal for ordinal in wanted if ordinal not in by_ordinal]
    if spec.get("podManagementPolicy") == "Parallel":
        gone = tuple(pod for pod in surplus if not is_terminating(pod))
        outdated = () if missing or gone else _outdated(spec, by_ordinal, revision, wanted)
        return StatefulPlan(tuple(missing), gone or outdated, status, again_s)
    return StatefulPlan(*_ordered_step(spec, by_ordinal, wanted, surplus, missing, revision), status, again_s)


def _ordered_step(
    spec: JsonObject,
    by_ordinal: Mapping[int, JsonObject],
    wanted: range,
    surplus: Sequence[JsonObject],
    missing: Sequence[int],
    revision: str,
) -> tuple[tuple[int, ...], tuple[JsonObject, ...]]:
    """(ordinals to create, pods to delete), at most one of either."""
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            return (ordinal,), ()
        if is_terminating(pod):
            return (), ()
        if not is_ready(pod):
            return (), _outdated(spec, {ordinal: pod}, revision, wanted)
    if surplus:
        last = surplus[0]
        return (), () if is_terminating(last) else (last,)
    return (), () if missing else _outdated(spec, by_ordinal, revision, wanted)


def _outdated(
    spec: JsonObject, by_ordinal: Mapping[int, JsonObject], revision: str, wanted: range
) -> tuple[JsonObject, ...]:
    """The highest pod of an older template at or above the partition, unless one is on its way already."""
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return ()
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    for ordinal in sorted(by_ordinal, reverse=True):
        pod = by_ordinal[ordinal]
        if ordinal not in wanted or ordinal < partition:
            continue
        if is_terminating(pod):
            return ()
        if labels_of(pod).get(REVISION_HASH) != revision:
            return (pod,)
        if not is_ready(pod):
            return ()
    return ()


def _status(
    stateful_set: JsonObject, by_ordinal: Mapping[int, JsonObject], revision: str, now_s: float
) -> tuple[JsonObject, float | None]:
    spec = stateful_set.get("spec") or {}
    name = stateful_set["metadata"]["name"]
    living = [pod for pod in by_ordinal.values() if not is_terminating(pod) and not is_finished(pod)]
    updated = [pod for pod in living if labels_of(pod).get(REVISION_HASH) == revision]
    waits = [available_in_s(pod, int(spec.get("minReadySeconds") or 0), now_s) for pod in living]
    update_revision = f"{name}-{revision}"
    old_revision = (stateful_set.get("status") or {}).get("currentRevision") or update_revision
    is_done = len(updated) == len(living) == int(spec.get("replicas", 1))
    status: JsonObject = {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(by_ordinal),
        "readyReplicas": sum(wait is not None for wait in waits),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
        "currentReplicas": len(living) if is_done else len(living) - len(updated),
        "updatedReplicas": len(updated),
        "currentRevision": update_revision if is_done else old_revision,
        "updateRevision": update_revision,
        "collisionCount": 0,
    }
    later = [wait for wait in waits if wait]
    return status, min(later) if later else None
