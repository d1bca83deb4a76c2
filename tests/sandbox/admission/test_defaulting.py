"""Defaults of built-in kinds, as a table; and that they settle at once."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.admission.defaulting import apply_defaults
from sandbox.admission.pod_defaults import pull_policy

JsonObject = dict[str, Any]


def at(obj: Any, path: str) -> Any:
    """The value at a dotted path; numbers index lists; None where it ends early."""
    for part in path.split("."):
        if obj is None:
            return None
        obj = obj[int(part)] if isinstance(obj, list) else obj.get(part)
    return obj


@pytest.mark.vectors("defaulting")
def test_a_default_is_the_api_servers(vector: JsonObject) -> None:
    document = copy.deepcopy(vector["object"])
    apply_defaults(vector["group"], vector["plural"], document)
    assert at(document, vector["path"]) == vector["expected"]


@pytest.mark.vectors("defaulting")
def test_defaulting_twice_changes_nothing_more(vector: JsonObject) -> None:
    once = copy.deepcopy(vector["object"])
    apply_defaults(vector["group"], vector["plural"], once)
    twice = copy.deepcopy(once)
    apply_defaults(vector["group"], vector["plural"], twice)
    assert twice == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"]),
    st.sampled_from(["1", "2", "500m", "1Gi"]),
)


@given(limits=AMOUNTS, requests=AMOUNTS)
def test_given_requests_always_win_over_limits(limits: dict[str, str], requests: dict[str, str]) -> None:
    resources = {"limits": dict(limits), "requests": dict(requests)}
    document = {"spec": {"containers": [{"name": "c", "image": "x:1", "resources": resources}]}}
    apply_defaults("", "pods", document)
    assert document["spec"]["containers"][0]["resources"]["requests"] == {**limits, **requests}
