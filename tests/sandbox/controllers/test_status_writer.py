"""The patches that bring a stored status to a wanted one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.controllers.status_writer import status_changes

JsonObject = dict[str, Any]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: without_empty(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {"replicas": 0}, {}),
        ({"replicas": 1}, {"replicas": 0}, {"replicas": 0}),
        ({"a": 1}, {}, {"a": None}),
        ({"u": {"failed": ["x"], "succeeded": ["y"]}}, {"u": {"failed": ["x"]}}, {"u": {"succeeded": None}}),
        ({"u": {"failed": ["x"]}}, {"u": {}}, {"u": {"failed": None}}),
        ({"conditions": [1, 2]}, {"conditions": [1]}, {"conditions": [1]}),
    ],
)
def test_a_patch_names_only_what_changes(old: JsonObject, new: JsonObject, changes: JsonObject) -> None:
    assert status_changes(old, new) == changes


STATUS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


@given(old=STATUS, new=STATUS)
def test_the_patched_status_is_the_wanted_one(old: JsonObject, new: JsonObject) -> None:
    patched = merged(old, status_changes(old, new))
    assert without_empty(patched) == without_empty(new)
    assert status_changes(patched, new) == {}
