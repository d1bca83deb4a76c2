"""Every pod that the webhook makes in the mutation cases is one that a real API server accepts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.contract.api import Answer, Api, JsonObject
from tests.kubernetes.harness import Cluster, eventually
from tests.webhook.test_vectors import context_of, review_of
from webhook.json_patch import Operation, apply_operations
from webhook.mutate import decide
from webhook.review import decode_review, encode_answer

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PROFILES = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def api(installed: Cluster) -> Iterator[Api]:
    installed.kubectl("create", "namespace", "team-a")
    installed.kubectl("create", "serviceaccount", "default", "-n", "team-a", check=False)
    return installed.api


def ensure_class(api: Api, wanted: JsonObject) -> None:
    """A PriorityClass of that value and policy; both are immutable."""
    path = f"{CLASSES}/{wanted['metadata']['name']}"
    found = api.get(path)
    same = found.status == 200 and all(
        found.body.get(key) == wanted.get(key, default)
        for key, default in (("value", 0), ("preemptionPolicy", "PreemptLowerPriority"))
    )
    if same:
        return
    api.delete(path)
    body = {"metadata": {"name": wanted["metadata"]["name"]}, "value": wanted.get("value", 0)}
    if "preemptionPolicy" in wanted:
        body["preemptionPolicy"] = wanted["preemptionPolicy"]
    assert api.post(CLASSES, body).status == 201
    probe: JsonObject = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    probe["spec"]["priorityClassName"] = wanted["metadata"]["name"]

    def is_known() -> bool:
        """The admission plugin hears of it by a watch."""
        answer = api.post("/api/v1/namespaces/team-a/pods", probe, dryRun="All")
        return answer.status == 201 and answer.body["spec"]["priority"] == body["value"]

    eventually(is_known, f"the API server knows the class {wanted}")


def try_pod(api: Api, pod: JsonObject) -> Answer:
    """Create on a dry run. The cases leave out images and the class that a priority comes from."""
    pod = copy.deepcopy(pod)
    pod.pop("status", None)
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations")}
    pod["metadata"] = {**metadata, "name": f"case-{next(_NUMBERS)}", "namespace": "team-a"}
    for container in [*pod["spec"].get("containers", []), *pod["spec"].get("initContainers", [])]:
        container.setdefault("image", "i")
    spec = pod["spec"]
    if "priority" in spec and not spec.get("priorityClassName"):
        spec["priorityClassName"] = f"value{spec['priority']}"
        ensure_class(api, {"metadata": {"name": spec["priorityClassName"]}, "value": spec["priority"]})
    return api.post("/api/v1/namespaces/team-a/pods", pod, dryRun="All")


def answered(vector: JsonObject) -> JsonObject | None:
    """The pod after the webhook's patch, None when it was refused."""
    draws = iter(vector.get("rand", []))
    submission = decode_review(review_of(vector))
    answer = msgspec.json.decode(
        encode_answer(submission, decide(submission, context_of(vector), lambda _: next(draws)))
    )
    response = answer["response"]
    if not response["allowed"]:
        return None
    if "patch" not in response:
        return dict(vector["pod"])
    operations = msgspec.json.decode(msgspec.json.decode(f'"{response["patch"]}"', type=bytes), type=list[Operation])
    return apply_operations(vector["pod"], operations)


@pytest.mark.vectors("webhook_mutate")
def test_the_answer_is_a_valid_pod(api: Api, vector: dict[str, Any]) -> None:
    if vector["operation"] != "CREATE" or not vector["pod"] or vector.get("resource", "pods") != "pods":
        pytest.skip("no creation of a pod")
    for wanted in vector["priorityClasses"] or []:
        ensure_class(api, wanted)
    before = try_pod(api, vector["pod"])
    if before.status != 201:
        pytest.skip(f"the API server takes no such pod to begin with: {before.message}")
    for profile in vector["profiles"] or []:
        head = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
        stored = api.post(PROFILES, {**head, **profile}, dryRun="All")
        if stored.status != 201:
            pytest.skip(f"the API server takes no such profile: {stored.message}")
    after = answered(vector)
    if after is None:
        pytest.skip("the pod is refused")
    answer = try_pod(api, after)
    assert answer.status == 201, answer.message
