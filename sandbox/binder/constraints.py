"""Whether a node's own properties allow a pod: selector, required node affinity, taints. Pure."""

from collections.abc import Iterable, Mapping

from koord.api.objects import Taint, Toleration
from sandbox.node import model

TAINT_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
TAINT_NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
TAINT_UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")

_REPELLING = ("NoSchedule", "NoExecute")


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def is_repelled(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether a taint that forbids scheduling is not tolerated."""
    known = tuple(tolerations)
    return any(taint.effect in _REPELLING and not tolerates(known, taint) for taint in taints)


def matches_affinity(spec: model.PodSpec, name: str, labels: Mapping[str, str]) -> bool:
    """Whether nodeSelector and the required node affinity both accept the node."""
    if any(labels.get(key) != wanted for key, wanted in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_term_matches(term, name, labels) for term in affinity.required.node_selector_terms)


def _term_matches(term: model.NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Terms are alternatives; a term that asks for nothing accepts no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(requirement_matches(item, labels) for item in term.match_expressions) and all(
        requirement_matches(item, {"metadata.name": name}) for item in term.match_fields
    )


def requirement_matches(requirement: model.NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One expression. Gt and Lt compare integers and accept nothing else; an unknown operator accepts nothing."""
    found = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return found is not None and found in requirement.values
        case "NotIn":
            return found not in requirement.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt":
            return _compares(requirement, found)
    return False


def _compares(requirement: model.NodeSelectorRequirement, found: str | None) -> bool:
    if found is None or len(requirement.values) != 1:
        return False
    try:
        have, bound = int(found), int(requirement.values[0])
    except ValueError:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
