"""Which nodes a pod's selector, affinity and tolerations allow."""

import pytest

from koord.api.objects import Taint, Toleration
from sandbox.binder import constraints
from sandbox.node.model import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
)


def requiring(*terms: NodeSelectorTerm) -> PodSpec:
    return PodSpec(affinity=Affinity(NodeAffinity(NodeSelector(terms))))


@pytest.mark.parametrize(
    ("operator", "values", "labels", "accepted"),
    [
        ("In", ("a", "b"), {"k": "b"}, True),
        ("In", ("a", "b"), {"k": "c"}, False),
        ("In", ("a", "b"), {}, False),
        ("NotIn", ("a",), {"k": "b"}, True),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"k": "a"}, False),
        ("Gt", ("5",), {"k": "6"}, True),
        ("Gt", ("5",), {"k": "5"}, False),
        ("Gt", ("5",), {"k": "many"}, False),
        ("Gt", ("5", "6"), {"k": "9"}, False),
        ("Lt", ("5",), {"k": "-7"}, True),
        ("Lt", ("5",), {}, False),
        ("Like", ("a",), {"k": "a"}, False),
    ],
)
def test_every_operator_of_an_expression(
    operator: str, values: tuple[str, ...], labels: dict[str, str], accepted: bool
) -> None:
    requirement = NodeSelectorRequirement("k", operator, values)
    assert constraints.requirement_matches(requirement, labels) is accepted


def test_terms_are_alternatives_and_expressions_of_a_term_all_hold() -> None:
    zone, disk = NodeSelectorRequirement("zone", "In", ("a",)), NodeSelectorRequirement("disk", "Exists")
    spec = requiring(NodeSelectorTerm((zone, disk)), NodeSelectorTerm((NodeSelectorRequirement("gpu", "Exists"),)))
    assert constraints.matches_affinity(spec, "n", {"zone": "a", "disk": "x"})
    assert constraints.matches_affinity(spec, "n", {"gpu": "x"})
    assert not constraints.matches_affinity(spec, "n", {"zone": "a"})


def test_a_term_can_name_the_node_by_field() -> None:
    spec = requiring(NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", ("n2",)),)))
    assert constraints.matches_affinity(spec, "n2", {})
    assert not constraints.matches_affinity(spec, "n1", {"metadata.name": "n2"})


def test_an_empty_term_accepts_no_node() -> None:
    assert not constraints.matches_affinity(requiring(NodeSelectorTerm()), "n", {})
    assert not constraints.matches_affinity(requiring(), "n", {})


def test_node_selector_and_affinity_both_hold() -> None:
    spec = PodSpec(node_selector={"a": "1"})
    assert constraints.matches_affinity(spec, "n", {"a": "1", "b": "2"})
    assert not constraints.matches_affinity(spec, "n", {"a": "2"})


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="other"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(value="v"), False),
    ],
)
def test_every_form_of_toleration(toleration: Toleration, covered: bool) -> None:
    assert constraints.tolerates((toleration,), Taint("k", "v", "NoSchedule")) is covered


def test_a_preference_repels_nobody() -> None:
    assert not constraints.is_repelled((), (Taint("k", "v", "PreferNoSchedule"),))
    assert constraints.is_repelled((), (Taint("k", "v", "NoExecute"),))
