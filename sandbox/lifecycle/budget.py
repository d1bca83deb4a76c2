"""Disruption budget arithmetic: how many pods of a PodDisruptionBudget may be taken away now. Pure.

minAvailable n      desired = n,                              expected = selected pods
minAvailable p%     desired = ceil(p% of expected),           expected = sum of the owners' scales
maxUnavailable n,p% desired = expected - n or ceil(p%), >= 0, expected = sum of the owners' scales
allowed = healthy - desired, never negative, and 0 when nothing is expected
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.selectors import InvalidSelector, LabelSelector, compile_selector
from koord.api.timestamps import parse_rfc3339
from sandbox.admission.request import JsonObject, Reader
from sandbox.lifecycle.pods import controller_of, is_ready, is_terminating

DISRUPTION_GRACE_S: Final = 120
"""How long an evicted pod may take to show its deletion before it counts as healthy again."""


class ScaleUnknown(Exception):  # noqa: N818 - named by what it says
    """A pod's controller has no scale to count from; the budget then allows nothing."""


@dataclass(frozen=True)
class Budget:
    """The numbers of a PodDisruptionBudget's status. `disrupted` maps evicted pods to the time of their eviction."""

    expected: int
    desired: int
    healthy: int
    allowed: int
    disrupted: Mapping[str, str]


def scaled(value: int | str, total: int, *, round_up: bool = True) -> int:
    """An int-or-percent of a total. Raises ValueError for a text that is no percentage."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"{value!r}: allowed: a whole number or a percentage such as 25%")
    product = int(value[:-1]) * total
    return math.ceil(product / 100) if round_up else product // 100


def compute_budget(
    spec: JsonObject, pods: Sequence[JsonObject], scale: int | None, disrupted: Mapping[str, str], now_s: float
) -> Budget:
    """The budget over its selected pods.

    scale: sum of the replicas that the pods' controllers want; None when a controller has none, which
    only a numeric minAvailable can do without. Raises ScaleUnknown.
    """
    expected, desired = _wanted(spec, len(pods), scale)
    pending = {
        pod["metadata"]["name"]: disrupted[pod["metadata"]["name"]]
        for pod in pods
        if not is_terminating(pod) and _is_recent(disrupted.get(pod["metadata"]["name"]), now_s)
    }
    healthy = sum(
        1 for pod in pods if is_ready(pod) and not is_terminating(pod) and pod["metadata"]["name"] not in pending
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    return Budget(expected, desired, healthy, allowed, pending)


def _wanted(spec: JsonObject, selected: int, scale: int | None) -> tuple[int, int]:
    """(expected, desired)."""
    least, most_gone = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most_gone is not None:
        expected = _known(scale)
        return expected, max(expected - scaled(most_gone, expected), 0)
    if isinstance(least, str):
        expected = _known(scale)
        return expected, scaled(least, expected)
    if least is not None:
        return selected, int(least)
    return 0, 0


def _known(scale: int | None) -> int:
    if scale is None:
        raise ScaleUnknown("found no controllers with a scale for the selected pods")
    return scale


def _is_recent(evicted_at: str | None, now_s: float) -> bool:
    return evicted_at is not None and parse_rfc3339(evicted_at) + DISRUPTION_GRACE_S >= now_s


def selected_pods(pdb: JsonObject, pods: Sequence[JsonObject]) -> list[JsonObject]:
    """Pods of the budget's namespace that it selects; {} selects all, no selector none."""
    selector = (pdb.get("spec") or {}).get("selector")
    if selector is None:
        return []
    try:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    except (InvalidSelector, msgspec.ValidationError):
        return []
    return [pod for pod in pods if compiled.matches(pod["metadata"].get("labels") or {})]


_SCALABLE: Final = {
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("", "ReplicationController"): "replicationcontrollers",
}


def total_scale(pods: Sequence[JsonObject], namespace: str, reader: Reader) -> int | None:
    """Replicas that the pods' controllers want together, a Deployment once for all its ReplicaSets.

    Pods without a controller count nothing; None when some controller's scale cannot be known.
    """
    scales: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            continue
        found = _scaled_owner(owner, namespace, reader)
        if found is None:
            return None
        scales[found["metadata"]["uid"]] = int((found.get("spec") or {}).get("replicas", 1))
    return sum(scales.values())


def _scaled_owner(owner: JsonObject, namespace: str, reader: Reader) -> JsonObject | None:
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    plural = _SCALABLE.get((group, str(owner.get("kind", ""))))
    if plural is None:
        return None
    found = reader.read(group, plural, namespace, owner["name"])
    if found is None or found["metadata"].get("uid") != owner.get("uid"):
        return None
    above = controller_of(found) if plural == "replicasets" else None
    if above is not None and above.get("kind") == "Deployment":
        return _scaled_owner(above, namespace, reader)
    return found


def live_budget(pdb: JsonObject, reader: Reader, now_s: float) -> Budget:
    """The budget as it is this moment, read from the stored pods. Raises ScaleUnknown."""
    namespace = pdb["metadata"]["namespace"]
    pods = selected_pods(pdb, reader.read_all("", "pods", namespace))
    disrupted = (pdb.get("status") or {}).get("disruptedPods") or {}
    return compute_budget(pdb.get("spec") or {}, pods, total_scale(pods, namespace, reader), disrupted, now_s)
