"""Priority and overhead, as admission plugins settle them before any webhook sees the pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, JsonObject


@pytest.fixture
def priority_class(api: Api, unique: str) -> Any:
    """A class of value 5000 that says nothing of preemption."""
    made = api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": unique}, "value": 5000})
    assert made.status == 201, made.body
    yield made.body
    api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{unique}")


def pod(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "i"}], **spec}}


def test_a_class_that_says_nothing_preempts(priority_class: JsonObject) -> None:
    assert priority_class["preemptionPolicy"] == "PreemptLowerPriority"


def test_a_pod_takes_value_and_policy_of_its_class(api: Api, namespace: str, priority_class: JsonObject) -> None:
    name = priority_class["metadata"]["name"]
    answer = api.post(f"/api/v1/namespaces/{namespace}/pods", pod(priorityClassName=name))
    assert answer.status == 201, answer.body
    assert (answer.body["spec"]["priority"], answer.body["spec"]["preemptionPolicy"]) == (
        5000,
        "PreemptLowerPriority",
    )


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"priority": 5500}, "the integer value of priority (5500) must not be provided in pod spec"),
        ({"class": True, "priority": 5500}, "the integer value of priority (5500) must not be provided in pod spec"),
        ({"class": True, "preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be"),
        ({"priorityClassName": "nowhere"}, "nowhere"),
        ({"overhead": {"cpu": "100m"}}, "Overhead set without corresponding RuntimeClass"),
    ],
    ids=["bare priority", "priority of another value", "other policy", "no such class", "overhead alone"],
)
def test_what_does_not_match_its_class_is_refused(
    api: Api, namespace: str, priority_class: JsonObject, spec: JsonObject, complaint: str
) -> None:
    spec = dict(spec)
    if spec.pop("class", False):
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    answer = api.post(f"/api/v1/namespaces/{namespace}/pods", pod(**spec))
    assert answer.status in (403, 422), answer.body
    assert complaint in answer.message
