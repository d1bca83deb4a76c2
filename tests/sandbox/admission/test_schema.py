"""Structural schemas: pruning, defaults, validation, and their properties."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord import crds
from sandbox.admission.schema import compile_schema
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.status import StatusError

JsonObject = dict[str, Any]
SCHEMA: JsonObject = json.loads((Path(__file__).parent / "thing_schema.json").read_text())
COMPILED = compile_schema(SCHEMA)


def problems(**spec: Any) -> list[str]:
    return [str(error) for error in COMPILED.validate({"spec": {"mode": "On", **spec}})]


@pytest.mark.vectors("schema_refused")
def test_a_wrong_value_is_named_with_its_path(vector: JsonObject) -> None:
    found = [str(error) for error in COMPILED.validate({"spec": vector["spec"]})]
    assert any(vector["says"] in problem for problem in found), found


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"count": 3.0},
        {"big": 2**63 - 1},
        {"amount": 5},
        {"amount": "5%"},
        {"when": None},
        {"when": "2024-02-29T12:00:00.123456789+02:00"},
        {"free": {"a": [1, {"b": None}]}},
        {"any": "text"},
        {"parts": [{"name": "a"}, {"name": "b"}]},
    ],
)
def test_a_right_value_passes(spec: JsonObject) -> None:
    assert problems(**spec) == []


def test_pruning_drops_what_is_unknown_and_tells_where() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "a", "anything": 1},
        "extra": 1,
        "spec": {
            "mode": "On",
            "colour": "red",
            "free": {"kept": {"deeply": True}},
            "any": {"kept": 1},
            "labels": {"kept": "x"},
            "parts": [{"name": "a", "weight": 2}],
        },
    }
    assert COMPILED.prune(obj) == ["extra", "spec.colour", "spec.parts[0].weight"]
    assert obj["spec"] == {
        "mode": "On",
        "free": {"kept": {"deeply": True}},
        "any": {"kept": 1},
        "labels": {"kept": "x"},
        "parts": [{"name": "a"}],
    }
    assert obj["metadata"] == {"name": "a", "anything": 1}


def test_defaults_reach_into_lists_and_defaulted_objects_and_replace_nulls() -> None:
    obj: JsonObject = {"spec": {"mode": "On", "count": None, "when": None, "parts": [{"name": "a"}]}}
    COMPILED.apply_defaults(obj)
    assert obj["spec"] == {
        "mode": "On",
        "count": 3,
        "when": None,
        "parts": [{"name": "a", "size": 1}],
        "nested": {"on": True},
    }


def test_defaults_are_not_shared_between_objects() -> None:
    first: JsonObject = {"spec": {"mode": "On"}}
    second = copy.deepcopy(first)
    COMPILED.apply_defaults(first)
    first["spec"]["nested"]["on"] = False
    COMPILED.apply_defaults(second)
    assert second["spec"]["nested"] == {"on": True}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*SCHEMA["properties"]["spec"]["properties"], "x", "on", "size"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.sampled_from(["spec", "status", "metadata", "x"]), JSON, max_size=3)


@given(OBJECTS)
def test_pruning_twice_drops_nothing_more_and_never_adds(obj: JsonObject) -> None:
    once = copy.deepcopy(obj)
    dropped = COMPILED.prune(once)
    twice = copy.deepcopy(once)
    assert COMPILED.prune(twice) == []
    assert twice == once
    assert (once == obj) == (not dropped)


@given(OBJECTS)
def test_defaulting_twice_adds_nothing_more_and_needs_no_pruning(obj: JsonObject) -> None:
    COMPILED.prune(obj)
    COMPILED.apply_defaults(obj)
    again = copy.deepcopy(obj)
    COMPILED.apply_defaults(again)
    assert again == obj
    assert COMPILED.prune(again) == []


@given(OBJECTS)
def test_validation_never_fails_otherwise_than_by_naming_fields(obj: JsonObject) -> None:
    for error in COMPILED.validate(obj):
        assert error.path
        assert str(error)


async def test_the_chain_prunes_defaults_and_validates_custom_resources(bench: Any) -> None:
    definition = next(crd for crd in crds.load() if crd["spec"]["names"]["kind"] == "Reservation")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    kind = Kind(
        "scheduling.koordinator.sh", "v1alpha1", "reservations", "Reservation", False, custom=True, schema=schema
    )
    owners = [{"object": {"name": "p"}}]
    obj = {"metadata": {"name": "r"}, "spec": {"owners": owners, "colour": "red"}}
    admitted = await bench.create("", "", obj, kind=kind)
    assert admitted.object["spec"] == {"owners": owners, "ttl": "24h", "allocateOnce": True}
    with pytest.raises(StatusError) as refusal:
        await bench.create("", "", {"metadata": {"name": "r"}, "spec": {"owners": []}}, kind=kind)
    message = 'Reservation.scheduling.koordinator.sh "r" is invalid: spec.owners: Invalid value: 0: '
    assert refusal.value.message == message + "spec.owners in body should have at least 1 items"
    changed = replace(kind, schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    admitted = await bench.create("", "", obj, kind=changed)
    assert admitted.object["spec"]["colour"] == "red"
