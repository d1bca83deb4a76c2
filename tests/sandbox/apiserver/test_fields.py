"""Types, decoding, field sets, ownership and applying: properties that hold for any documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.fields import builtin, custom, decode, merge, ownership, sets
from sandbox.apiserver.fields.ownership import APPLY, UPDATE, Manager
from sandbox.apiserver.fields.types import ANYTHING, Leaf, ListOf, MapOf, Scalar, Struct

NOW = "2026-01-01T00:00:00Z"
TEXT = Leaf(Scalar.STRING)
ITEM = Struct({"name": TEXT, "value": TEXT, "tags": MapOf(TEXT)})
KIND = Struct(
    {
        "metadata": Struct({"name": TEXT, "labels": MapOf(TEXT), "managedFields": ANYTHING}),
        "spec": Struct(
            {
                "text": TEXT,
                "items": ListOf(ITEM, keys=("name",)),
                "set": ListOf(TEXT, unique=True),
                "atoms": ListOf(TEXT),
                "frozen": MapOf(TEXT, atomic=True),
                "free": ANYTHING,
            }
        ),
    }
)

words = st.sampled_from(["a", "b", "c"])
maps = st.dictionaries(words, words, max_size=3)


def keyed(name: str, rest: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, **rest}


items = st.dictionaries(words, st.fixed_dictionaries({}, optional={"value": words, "tags": maps}), max_size=3).map(
    lambda by_name: [keyed(name, rest) for name, rest in by_name.items()]
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "text": words,
        "items": items.filter(bool),
        "set": st.lists(words, unique=True, min_size=1, max_size=3),
        "atoms": st.lists(words, min_size=1, max_size=3),
        "frozen": maps.filter(bool),
        "free": st.dictionaries(words, st.one_of(words, maps, st.lists(words, max_size=2)), min_size=1, max_size=2),
    },
)
documents = st.builds(
    lambda spec, labels: {"metadata": {"name": "x", **({"labels": labels} if labels else {})}, "spec": spec},
    specs,
    maps,
)
ONE, TWO = (Manager(name, APPLY, "v1") for name in ("one", "two"))


def applied(live: dict[str, Any], config: dict[str, Any], manager: Manager, force: bool = True) -> dict[str, Any]:
    return merge.apply(live, config, KIND, manager, NOW, force=force).document


def content(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


def holds(live: Any, config: Any) -> bool:
    """Whether everything that a configuration says is so."""
    if isinstance(config, dict):
        return isinstance(live, dict) and all(
            key in live and holds(live[key], value) for key, value in config.items()
        )
    if isinstance(config, list) and config and isinstance(config[0], dict) and "name" in config[0]:
        found = {item["name"]: item for item in live}
        return all(item["name"] in found and holds(found[item["name"]], item) for item in config)
    if isinstance(config, list):
        return set(config) <= set(live)
    return bool(live == config)


@given(documents)
def test_field_sets_survive_their_spelling(document: dict[str, Any]) -> None:
    paths = sets.field_set(document, KIND)
    assert sets.from_fields_v1(sets.to_fields_v1(paths)) == paths


@given(documents)
def test_a_document_does_not_differ_from_itself(document: dict[str, Any]) -> None:
    assert sets.compare(document, document, KIND).same


@given(documents, documents)
def test_comparing_backwards_swaps_added_and_removed(old: dict[str, Any], new: dict[str, Any]) -> None:
    there, back = sets.compare(old, new, KIND), sets.compare(new, old, KIND)
    assert there.same == (content(old) == content(new)) or there.same == back.same
    assert {path for path in there.modified if path in sets.field_set(new, KIND)} <= back.modified | there.modified


@given(documents)
def test_a_first_apply_makes_what_it_says(config: dict[str, Any]) -> None:
    made = applied({}, config, ONE)
    assert content(made)["spec"] == config["spec"]
    assert ownership.read(made)[ONE].paths == sets.field_set(config, KIND)


@given(documents, documents)
def test_what_is_applied_is_so(live: dict[str, Any], config: dict[str, Any]) -> None:
    result = applied(applied({}, live, TWO), config, ONE)
    assert holds(result["spec"], config["spec"])


@given(documents, documents)
def test_applying_twice_changes_nothing_more(live: dict[str, Any], config: dict[str, Any]) -> None:
    once = applied(applied({}, live, TWO), config, ONE)
    again = merge.apply(once, config, KIND, ONE, NOW, force=True)
    assert again.document == once
    assert not again.changed


@given(documents, documents)
def test_a_manager_replaces_its_own_configuration(first: dict[str, Any], second: dict[str, Any]) -> None:
    """With nobody else there, applying B after A leaves just B."""
    result = content(applied(applied({}, first, ONE), second, ONE))
    assert sets.field_set(result, KIND) - sets.field_set({"spec": {}}, KIND) == sets.field_set(
        second, KIND
    ) - sets.field_set({"spec": {}}, KIND)


@given(documents, documents)
def test_without_force_nobody_loses_a_value(live: dict[str, Any], config: dict[str, Any]) -> None:
    before = applied({}, live, TWO)
    try:
        after = applied(before, config, ONE, force=False)
    except merge.ApplyConflict as refused:
        assert refused.conflicts
        assert all(conflict.manager == TWO for conflict in refused.conflicts)
        return
    assert holds(after["spec"], live["spec"]) or holds(live["spec"], config["spec"])
    assert ownership.read(after)[TWO] == ownership.read(before)[TWO]


@given(documents, documents)
def test_an_update_owns_what_it_changed(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = applied({}, live, TWO)
    after = {
        **wanted,
        "metadata": {**wanted["metadata"], "managedFields": before["metadata"].get("managedFields", [])},
    }
    hand = Manager("hand", UPDATE, "v1")
    written = ownership.after_update(before, after, KIND, hand, NOW)
    owners = ownership.read({"metadata": {"managedFields": written}})
    change = sets.compare(before, after, KIND)
    if change.same:
        assert hand not in owners
    gained = owners[hand].paths if hand in owners else frozenset()
    assert gained == change.added | change.modified
    left = owners[TWO].paths if TWO in owners else frozenset()
    assert not left & (gained | change.removed)


def test_live_items_keep_their_place_and_applied_ones_their_order() -> None:
    def order(live: str, wanted: str) -> str:
        config = {"metadata": {"name": "x"}, "spec": {"items": [{"name": name} for name in wanted]}}
        base = {"metadata": {"name": "x"}, "spec": {"items": [{"name": name} for name in live]}}
        return "".join(item["name"] for item in applied(base, config, ONE)["spec"]["items"])

    assert order("abc", "bd") == "abcd"
    assert order("abc", "ca") == "bca"
    assert order("ab", "ba") == "ba"
    assert order("", "ab") == "ab"
    assert order("abcd", "b") == "abcd"


def test_conflicting_paths_are_spelled_for_people() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', "f:image", 'v:"x"')
    assert sets.spell(path) == '.spec[containerPort=80,protocol="TCP"].image[="x"]'


def test_lists_without_keys_or_with_doubles_are_taken_as_a_whole() -> None:
    double = {"spec": {"items": [{"name": "a"}, {"name": "a"}]}}
    assert sets.field_set(double, KIND) == {("f:spec", "f:items")}
    assert sets.field_set({"spec": {"items": [{"value": "a"}]}}, KIND) == {("f:spec", "f:items")}


def test_absent_keys_take_their_default() -> None:
    ports = ListOf(ANYTHING, keys=("containerPort", "protocol"), defaults={"protocol": "TCP"})
    assert sets.item_element({"containerPort": 80}, ports) == 'k:{"containerPort":80,"protocol":"TCP"}'


def test_unreadable_managed_fields_are_dropped() -> None:
    broken = [{"manager": "x"}, "nonsense", {"manager": "y", "operation": "Odd", "fieldsV1": {}}]
    assert ownership.read({"metadata": {"managedFields": broken}}) == {}


# Decoding

PODS = builtin_kinds().find("", "v1", "pods")
assert PODS is not None
POD = builtin.type_of(PODS)
assert POD is not None


def test_decoding_drops_what_the_server_does_not_know() -> None:
    body = {
        "metadata": {"name": "p", "labels": {}, "colour": 1},
        "spec": {"containers": [{"name": "c", "tty": None, "odd": 1}], "securityContext": {}},
        "extra": {},
    }
    read = decode.decode(body, POD)
    assert read.document == {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], "securityContext": {}},
    }
    assert read.unknown == ["metadata.colour", "spec.containers[0].odd", "extra"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("x", "cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"containers": {}},
            "cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ({"hostNetwork": 1}, "cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"priority": "1"}, "cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32"),
        ({"nodeSelector": {"a": 1}}, "into Go struct field PodSpec.spec.nodeSelector of type string"),
        ({"overhead": {"cpu": "x"}}, "quantities must match the regular expression"),
        ({"overhead": {"cpu": True}}, "cannot unmarshal bool"),
    ],
)
def test_wrong_types_are_told_in_gos_words(spec: Any, told: str) -> None:
    with pytest.raises(decode.WrongType) as refused:
        decode.decode({"spec": spec}, POD)
    assert told in str(refused.value)


def test_reading_what_was_read_changes_nothing() -> None:
    body = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "1.5Gi"}}}]}}
    once = decode.decode(body, POD).document
    assert decode.decode(once, POD).document == once


def test_every_built_in_kind_has_a_type() -> None:
    for kind in builtin_kinds():
        described = builtin.type_of(kind)
        assert described is not None, kind.kind
        assert {"apiVersion", "kind"} <= described.fields.keys()


def test_a_structural_schema_becomes_a_type() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "either": {"x-kubernetes-int-or-string": True},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            }
        },
    }
    kind = custom.type_of_schema(schema)
    body = {"metadata": {"name": "x"}, "spec": {"free": {"a": 1}, "map": {"b": 1}, "either": "3", "odd": 1}, "top": 1}
    assert decode.unknown_members(body, kind) == ["spec.odd", "top"]
    assert sets.field_set({"spec": {"set": ["a"]}}, kind) == {("f:spec", "f:set", 'v:"a"')}


def test_a_kind_without_a_schema_takes_anything() -> None:
    assert decode.unknown_members({"spec": {"any": [1]}, "odd": 1}, custom.type_of_schema(None)) == []
