"""On which nodes a DaemonSet wants a pod: node selector, node affinity, taints. Pure.

Room is not asked for: a daemon pod that does not fit waits, as its DaemonSet says it should be there.
"""

from collections.abc import Mapping
from typing import Final

from sandbox.admission.request import JsonObject
from sandbox.controllers.templates import labels_of

_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ALWAYS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def daemon_tolerations(spec: JsonObject) -> list[JsonObject]:
    """The pod spec's tolerations and those that every daemon pod has."""
    extra = (*_ALWAYS, _NETWORK) if spec.get("hostNetwork") else _ALWAYS
    own = list(spec.get("tolerations") or ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in extra]
    return own + [toleration for toleration in added if toleration not in own]


def wants_node(spec: JsonObject, node: JsonObject) -> tuple[bool, bool]:
    """(should a pod be started on the node, may a running one stay)."""
    name = node["metadata"]["name"]
    if spec.get("nodeName") and spec["nodeName"] != name:
        return False, False
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False, False
    must = (((spec.get("affinity") or {}).get("nodeAffinity")) or {}).get(_TERMS)
    if must is not None and not any(_term_matches(term, labels, name) for term in must["nodeSelectorTerms"]):
        return False, False
    tolerations = daemon_tolerations(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    untolerated = [taint for taint in taints if not any(tolerates(entry, taint) for entry in tolerations)]
    starts = not any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in untolerated)
    stays = not any(taint.get("effect") == "NoExecute" for taint in untolerated)
    return starts, stays


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if key and key != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _term_matches(term: JsonObject, labels: Mapping[str, str], name: str) -> bool:
    """A term with no requirement matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_matches(entry, labels.get(entry["key"])) for entry in expressions) and all(
        _matches(entry, name if entry["key"] == "metadata.name" else None) for entry in fields
    )


def _matches(requirement: JsonObject, value: str | None) -> bool:
    operator = requirement.get("operator")
    values: list[str] = requirement.get("values") or []
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and _is_whole(value) and _is_whole(values[0]):
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return False


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdigit()
