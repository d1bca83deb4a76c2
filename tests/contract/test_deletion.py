"""Deleting: at once, gracefully, behind finalizers, with preconditions, many at a time."""

import uuid

import pytest

from tests.contract import bodies
from tests.contract.api import MERGE, Api


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def bind(api: Api, pods: str, name: str, node: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    answer = api.post(f"{pods}/{name}/binding", body)
    assert answer.status == 201, answer.body


def test_deleting_answers_with_a_status_that_names_the_object(api: Api, config_maps: str) -> None:
    uid = api.post(config_maps, bodies.config_map("a")).body["metadata"]["uid"]
    gone = api.delete(f"{config_maps}/a")
    assert gone.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": uid},
    }
    assert api.get(f"{config_maps}/a").status == 404
    assert api.delete(f"{config_maps}/a").status == 404


def test_finalizers_hold_an_object_back(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(config_maps, body)
    waiting = api.delete(f"{config_maps}/a")
    assert waiting.status == 200
    assert waiting.body["metadata"]["deletionTimestamp"]
    assert waiting.body["metadata"]["deletionGracePeriodSeconds"] == 0
    again = api.delete(f"{config_maps}/a").body["metadata"]
    assert again["resourceVersion"] == waiting.body["metadata"]["resourceVersion"]
    released = api.patch(f"{config_maps}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert released.status == 200
    assert api.get(f"{config_maps}/a").status == 404


def test_a_deletion_timestamp_cannot_be_taken_back(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(config_maps, body)
    stamp = api.delete(f"{config_maps}/a").body["metadata"]["deletionTimestamp"]
    kept = api.patch(f"{config_maps}/a", {"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}}).body
    assert kept["metadata"]["deletionTimestamp"] == stamp
    api.patch(f"{config_maps}/a", {"metadata": {"finalizers": None}})


def test_a_uid_precondition_protects_a_recreated_object(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    refused = api.delete(f"{config_maps}/a", {"preconditions": {"uid": str(uuid.uuid4())}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert "the UID in the precondition" in refused.message
    assert api.get(f"{config_maps}/a").status == 200


def test_a_version_precondition_protects_a_changed_object(api: Api, config_maps: str) -> None:
    old = api.post(config_maps, bodies.config_map("a")).body["metadata"]["resourceVersion"]
    new = api.patch(f"{config_maps}/a", {"data": {"a": "2"}}).body["metadata"]["resourceVersion"]
    assert api.delete(f"{config_maps}/a", {"preconditions": {"resourceVersion": old}}).status == 409
    assert api.delete(f"{config_maps}/a", {"preconditions": {"resourceVersion": new}}).status == 200


def test_a_pod_without_a_node_goes_at_once(api: Api, pods: str) -> None:
    api.post(pods, bodies.pod("p"))
    gone = api.delete(f"{pods}/p")
    assert (gone.status, gone.body["kind"]) == (200, "Pod")
    assert api.get(f"{pods}/p").status == 404


def test_a_pod_on_a_node_waits_for_its_node(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p", terminationGracePeriodSeconds=50))
    bind(api, pods, "p", node)
    waiting = api.delete(f"{pods}/p").body["metadata"]
    assert waiting["deletionGracePeriodSeconds"] == 50
    sooner = api.delete(f"{pods}/p", {"gracePeriodSeconds": 5}).body["metadata"]
    assert sooner["deletionGracePeriodSeconds"] == 5
    assert sooner["deletionTimestamp"] < waiting["deletionTimestamp"]
    later = api.delete(f"{pods}/p", {"gracePeriodSeconds": 500}).body["metadata"]
    assert later["deletionGracePeriodSeconds"] == 5
    assert api.delete(f"{pods}/p", {"gracePeriodSeconds": 0}).status == 200
    assert api.get(f"{pods}/p").status == 404


def test_a_grace_period_may_come_in_the_query(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p"))
    bind(api, pods, "p", node)
    assert api.delete(f"{pods}/p", gracePeriodSeconds=7).body["metadata"]["deletionGracePeriodSeconds"] == 7
    api.delete(f"{pods}/p", gracePeriodSeconds=0)
    assert api.get(f"{pods}/p").status == 404


def test_a_finished_pod_goes_at_once_even_on_a_node(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p"))
    bind(api, pods, "p", node)
    assert api.patch(f"{pods}/p/status", {"status": {"phase": "Succeeded"}}).status == 200
    api.delete(f"{pods}/p")
    assert api.get(f"{pods}/p").status == 404


def test_a_pod_with_a_finalizer_outlives_its_grace(api: Api, pods: str) -> None:
    body = bodies.pod("p")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(pods, body)
    api.delete(f"{pods}/p")
    assert api.get(f"{pods}/p").body["metadata"]["deletionTimestamp"]
    api.patch(f"{pods}/p", {"metadata": {"finalizers": None}})
    assert api.get(f"{pods}/p").status == 404


def test_a_collection_is_deleted_by_selector(api: Api, config_maps: str) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        body = bodies.config_map(name)
        body["metadata"]["labels"] = {"l": label}
        api.post(config_maps, body)
    gone = api.delete(config_maps, labelSelector="l=x")
    assert gone.status == 200
    left = {item["metadata"]["name"] for item in api.get(config_maps).body["items"]} - {"kube-root-ca.crt"}
    assert left == {"c"}


def test_orphan_and_foreground_leave_a_finalizer(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(config_maps, body)
    marked = api.delete(f"{config_maps}/a", {"propagationPolicy": "Foreground"}).body["metadata"]
    assert marked["finalizers"] == ["example.com/hold", "foregroundDeletion"]
    api.patch(f"{config_maps}/a", {"metadata": {"finalizers": None}})


def test_an_unknown_propagation_is_refused(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    refused = api.delete(f"{config_maps}/a", {"propagationPolicy": "Never"})
    assert (refused.status, refused.reason) == (422, "Invalid")


def test_dependents_go_with_their_owner(api: Api, config_maps: str) -> None:
    owner = api.post(config_maps, bodies.config_map("owner")).body["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    body = bodies.config_map("dependent")
    body["metadata"]["ownerReferences"] = [reference]
    api.post(config_maps, body)
    api.delete(f"{config_maps}/owner")
    api.wait(f"{config_maps}/dependent", lambda answer: answer.status == 404)


def test_a_namespace_goes_with_all_it_holds(api: Api, unique: str) -> None:
    made = api.post("/api/v1/namespaces", {"metadata": {"name": unique}}).body
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["status"]["phase"] == "Active"
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == unique
    api.post(f"/api/v1/namespaces/{unique}/configmaps", bodies.config_map("a"))
    assert api.delete(f"/api/v1/namespaces/{unique}").body["status"]["phase"] == "Terminating"
    api.wait(f"/api/v1/namespaces/{unique}", lambda answer: answer.status == 404)
    assert api.get(f"/api/v1/namespaces/{unique}/configmaps/a").status == 404


def test_nothing_is_made_in_a_namespace_that_is_going(api: Api, unique: str) -> None:
    body = {"metadata": {"name": unique}}
    api.post("/api/v1/namespaces", body)
    held = bodies.config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(f"/api/v1/namespaces/{unique}/configmaps", held)
    api.delete(f"/api/v1/namespaces/{unique}")
    refused = api.post(f"/api/v1/namespaces/{unique}/configmaps", bodies.config_map("late"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert f"unable to create new content in namespace {unique} because it is being terminated" in refused.message
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.patch(f"/api/v1/namespaces/{unique}/configmaps/held", {"metadata": {"finalizers": None}})
    api.wait(f"/api/v1/namespaces/{unique}", lambda answer: answer.status == 404)
