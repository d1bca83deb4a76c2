"""Field validation, as a table of refusals in the API server's words, and of what must pass."""

import copy
from typing import Any

import pytest

from sandbox.admission.defaulting import apply_defaults
from sandbox.admission.validation import validate_create, validate_update
from sandbox.apiserver.status import StatusError

JsonObject = dict[str, Any]


def pod(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def deployment(**spec: Any) -> JsonObject:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod()["spec"]}
    return {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template, **spec},
    }


def job(**spec: Any) -> JsonObject:
    template = {"spec": pod(restartPolicy="Never")["spec"]}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def problems(group: str, plural: str, obj: JsonObject) -> list[str]:
    document = copy.deepcopy(obj)
    apply_defaults(group, plural, document)
    return [str(error) for error in validate_create(group, plural, document)]


@pytest.mark.vectors("refused")
def test_a_bad_object_is_refused_in_the_api_servers_words(vector: JsonObject) -> None:
    found = problems(vector["group"], vector["plural"], vector["object"])
    assert any(vector["says"] in problem for problem in found), found


@pytest.mark.vectors("accepted")
def test_a_good_object_passes(vector: JsonObject) -> None:
    assert problems(vector["group"], vector["plural"], vector["object"]) == []


def test_annotations_are_bounded_as_a_whole() -> None:
    obj = pod()
    obj["metadata"]["annotations"] = {"a": "x" * 200_000, "b": "x" * 100_000}
    assert problems("", "pods", obj) == ["metadata.annotations: Too long: may not be more than 262144 bytes"]


def bound_pod() -> JsonObject:
    obj = pod(nodeName="n", tolerations=[{"key": "a", "operator": "Exists"}], activeDeadlineSeconds=100)
    apply_defaults("", "pods", obj)
    return obj


UPDATES: list[tuple[str, Any, str]] = [
    ("image", lambda pod: pod["spec"]["containers"][0].update(image="y:2"), ""),
    ("more tolerations", lambda pod: pod["spec"]["tolerations"].append({"key": "b", "operator": "Exists"}), ""),
    ("shorter deadline", lambda pod: pod["spec"].update(activeDeadlineSeconds=50), ""),
    ("labels", lambda pod: pod["metadata"].update(labels={"a": "b"}), ""),
    (
        "longer deadline",
        lambda pod: pod["spec"].update(activeDeadlineSeconds=200),
        "must be less than or equal to previous value",
    ),
    (
        "no deadline",
        lambda pod: pod["spec"].pop("activeDeadlineSeconds"),
        "must be less than or equal to previous value",
    ),
    ("fewer tolerations", lambda pod: pod["spec"].update(tolerations=[]), "existing toleration can not be modified"),
    (
        "resources",
        lambda pod: pod["spec"]["containers"][0].update(resources={"limits": {"cpu": "1"}}),
        "pod updates may not change fields other than",
    ),
    ("another node", lambda pod: pod["spec"].update(nodeName="m"), "changed: nodeName"),
    ("priority", lambda pod: pod["spec"].update(priority=7), "changed: priority"),
    (
        "one more container",
        lambda pod: pod["spec"]["containers"].append({"name": "d", "image": "x"}),
        "changed: containers",
    ),
    ("uid", lambda pod: pod["metadata"].update(uid="other"), "metadata.uid: Invalid value"),
]


@pytest.mark.parametrize(("change", "text"), [case[1:] for case in UPDATES], ids=[case[0] for case in UPDATES])
def test_a_pods_spec_is_fixed_but_for_a_few_fields(change: Any, text: str) -> None:
    old = bound_pod()
    old["metadata"]["uid"] = "first"
    new = copy.deepcopy(old)
    change(new)
    found = [str(error) for error in validate_update("", "pods", new, old)]
    assert any(text in problem for problem in found) if text else found == []


def test_fixed_fields_of_workloads_stay_as_they_are() -> None:
    old = deployment()
    new = deployment(selector={"matchLabels": {"app": "w", "x": "y"}})
    new["spec"]["template"]["metadata"]["labels"]["x"] = "y"
    for obj in (old, new):
        apply_defaults("apps", "deployments", obj)
    assert [error.path for error in validate_update("apps", "deployments", new, old)] == ["spec.selector"]
    old, new = job(), job(backoffLimit=2, completions=5, parallelism=1)
    for obj in (old, new):
        apply_defaults("batch", "jobs", obj)
    assert [error.path for error in validate_update("batch", "jobs", new, old)] == ["spec.completions"]


def test_no_finalizer_is_added_once_deletion_has_begun() -> None:
    old = {"metadata": {"name": "c", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["example.com/a"]}}
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"].append("example.com/b")  # type: ignore[attr-defined]
    assert [error.path for error in validate_update("", "configmaps", new, old)] == ["metadata.finalizers"]


async def test_a_refusal_is_a_422_status_with_a_cause_for_each_field(bench: Any, make_pod: Any) -> None:
    bad = make_pod(restartPolicy="Maybe", containers=[{"name": "c"}])
    with pytest.raises(StatusError) as refusal:
        await bench.create("", "pods", bad)
    document = refusal.value.document()
    assert (document["code"], document["reason"]) == (422, "Invalid")
    assert document["message"].startswith('Pod "p" is invalid: [spec.containers[0].image: Required value, ')
    assert document["details"]["causes"][0] == {
        "reason": "FieldValueRequired",
        "message": "Required value",
        "field": "spec.containers[0].image",
    }
    assert document["details"]["kind"] == "Pod"
