"""Which daemon pods to make and remove, and a DaemonSet's status. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sandbox.admission.request import JsonObject
from sandbox.controllers.node_fit import daemon_tolerations, wants_node
from sandbox.controllers.replica_count import available_in_s
from sandbox.controllers.templates import labels_of
from sandbox.lifecycle.budget import scaled
from sandbox.lifecycle.pods import is_finished, is_ready, is_terminating

REVISION_HASH: Final = "controller-revision-hash"
_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class DaemonPlan:
    """create: nodes that lack their pod. delete: pods of nodes that want none, doubles, failed and outdated ones."""

    create: tuple[str, ...]
    delete: tuple[JsonObject, ...]
    status: JsonObject
    again_s: float | None


def pin_to_node(spec: JsonObject, node: str) -> JsonObject:
    """The pod spec bound to one node by affinity, so that the scheduler still does the accounting.

    The requirement replaces other field terms and joins the expression terms that are there.
    """
    pinned = {**spec, "tolerations": daemon_tolerations(spec)}
    affinity = dict(pinned.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (node_affinity.get(_TERMS) or {}).get("nodeSelectorTerms") or [{}]
    node_affinity[_TERMS] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    affinity["nodeAffinity"] = node_affinity
    pinned["affinity"] = affinity
    return pinned


def target_of(pod: JsonObject) -> str:
    """The node a daemon pod is on or is meant for; "" when neither can be seen."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    must = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_TERMS) or {}
    for term in must.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In":
                return str(field["values"][0])
    return ""


def plan_daemons(
    daemon_set: JsonObject, nodes: Sequence[JsonObject], pods: Sequence[JsonObject], revision: str, now_s: float
) -> DaemonPlan:
    """One pod for each wanted node. `revision` is the hash of the present template."""
    spec = daemon_set.get("spec") or {}
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    wanted = {node["metadata"]["name"]: wants_node(pod_spec, node) for node in nodes}
    by_node: dict[str, list[JsonObject]] = defaultdict(list)
    for pod in pods:
        by_node[target_of(pod)].append(pod)
    create = []
    delete = []
    for name, (starts, stays) in wanted.items():
        here = by_node.get(name, [])
        living = [pod for pod in here if not is_terminating(pod) and not is_finished(pod)]
        delete += [pod for pod in here if is_finished(pod) and not is_terminating(pod)]
        if starts and not here:
            create.append(name)
        elif not starts and not stays:
            delete += living
        else:
            delete += living[1:]
    # Pods of nodes that are gone are for the pod collector; they hold nothing up here.
    if not daemon_set["metadata"].get("deletionTimestamp"):
        delete += _outdated(spec, wanted, by_node, revision)
    status, again_s = _status(daemon_set, wanted, by_node, revision, now_s)
    if daemon_set["metadata"].get("deletionTimestamp"):
        return DaemonPlan((), (), status, None)
    return DaemonPlan(tuple(create), tuple({pod["metadata"]["uid"]: pod for pod in delete}.values()), status, again_s)


def _outdated(
    spec: JsonObject,
    wanted: Mapping[str, tuple[bool, bool]],
    by_node: Mapping[str, Sequence[JsonObject]],
    revision: str,
) -> list[JsonObject]:
    """Pods of an older template to replace now: unready ones at once, others within maxUnavailable."""
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    places = [name for name, (starts, _) in wanted.items() if starts]
    limit = max(scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(places)), 1)
    old = [pod for name in places for pod in by_node.get(name, ()) if labels_of(pod).get(REVISION_HASH) != revision]
    old = [pod for pod in old if not is_terminating(pod) and not is_finished(pod)]
    down = sum(not any(is_ready(pod) and not is_terminating(pod) for pod in by_node.get(name, ())) for name in places)
    unready = [pod for pod in old if not is_ready(pod)]
    ready = [pod for pod in old if is_ready(pod)]
    return unready + ready[: max(limit - down, 0)]


def _status(
    daemon_set: JsonObject,
    wanted: Mapping[str, tuple[bool, bool]],
    by_node: Mapping[str, Sequence[JsonObject]],
    revision: str,
    now_s: float,
) -> tuple[JsonObject, float | None]:
    min_ready_s = int((daemon_set.get("spec") or {}).get("minReadySeconds") or 0)
    places = [name for name, (starts, _) in wanted.items() if starts]
    running = {
        name: [pod for pod in by_node.get(name, ()) if not is_terminating(pod) and not is_finished(pod)]
        for name in wanted
    }
    waits = [available_in_s(running[name][0], min_ready_s, now_s) for name in places if running[name]]
    available = sum(wait == 0.0 for wait in waits)
    status: JsonObject = {
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
        "desiredNumberScheduled": len(places),
        "currentNumberScheduled": sum(bool(running[name]) for name in places),
        "numberMisscheduled": sum(bool(running[name]) for name, (starts, _) in wanted.items() if not starts),
        "numberReady": sum(wait is not None for wait in waits),
        "numberAvailable": available,
        "numberUnavailable": len(places) - available,
        "updatedNumberScheduled": sum(
            bool(running[name]) and labels_of(running[name][0]).get(REVISION_HASH) == revision for name in places
        ),
    }
    later = [wait for wait in waits if wait]
    return status, min(later) if later else None
