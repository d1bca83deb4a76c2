"""Status, scale, binding, eviction."""

import pytest

from tests.contract import bodies
from tests.contract.api import STRATEGIC, Api, JsonObject


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def test_a_write_of_the_object_leaves_the_status(api: Api, pods: str) -> None:
    made = api.post(pods, bodies.pod("p")).body
    changed = api.put(f"{pods}/p", {**made, "status": {"phase": "Running"}}).body
    assert changed["status"] == made["status"]
    patched = api.patch(f"{pods}/p", {"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}}).body
    assert patched["status"] == made["status"]
    assert patched["metadata"]["labels"] == {"x": "y"}


def test_a_write_of_the_status_leaves_the_spec(api: Api, pods: str) -> None:
    made = api.post(pods, bodies.pod("p")).body
    body = {**made, "spec": {**made["spec"], "hostname": "x"}, "status": {**made["status"], "phase": "Running"}}
    changed = api.put(f"{pods}/p/status", body)
    assert changed.status == 200, changed.body
    assert changed.body["status"]["phase"] == "Running"
    assert changed.body["spec"] == made["spec"]
    assert changed.body["metadata"]["generation"] == made["metadata"]["generation"]
    assert api.get(f"{pods}/p/status").body == changed.body


def test_conditions_are_merged_by_type(api: Api, pods: str) -> None:
    api.post(pods, bodies.pod("p"))
    for kind in ("A", "B"):
        change = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        assert api.patch(f"{pods}/p/status", change, STRATEGIC).status == 200
    conditions = api.get(f"{pods}/p").body["status"]["conditions"]
    assert {item["type"] for item in conditions} == {"A", "B"}


def test_a_kind_without_a_status_has_no_status_path(api: Api, namespace: str) -> None:
    api.post(f"/api/v1/namespaces/{namespace}/configmaps", bodies.config_map("a"))
    assert api.get(f"/api/v1/namespaces/{namespace}/configmaps/a/status").status == 404


def test_binding_assigns_a_node_once(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p"))
    body = {"metadata": {"name": "p", "annotations": {"by": "contract"}}, "target": {"kind": "Node", "name": node}}
    made = api.post(f"{pods}/p/binding", body)
    assert (made.status, made.body["kind"], made.body["status"]) == (201, "Status", "Success")
    bound = api.get(f"{pods}/p").body
    assert bound["spec"]["nodeName"] == node
    assert bound["metadata"]["annotations"] == {"by": "contract"}
    scheduled = [item for item in bound["status"]["conditions"] if item["type"] == "PodScheduled"]
    assert scheduled[0]["status"] == "True"
    again = api.post(f"{pods}/p/binding", body)
    assert (again.status, again.reason) == (409, "Conflict")
    assert f'pod p is already assigned to node "{node}"' in again.message
    api.delete(f"{pods}/p", gracePeriodSeconds=0)


def test_binding_through_the_namespace_names_its_pod(api: Api, pods: str, namespace: str, node: str) -> None:
    api.post(pods, bodies.pod("p"))
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}
    assert api.post(f"/api/v1/namespaces/{namespace}/bindings", body).status == 201
    assert api.get(f"{pods}/p").body["spec"]["nodeName"] == node
    api.delete(f"{pods}/p", gracePeriodSeconds=0)


def test_binding_needs_the_pod_and_a_node(api: Api, pods: str, node: str) -> None:
    target = {"kind": "Node", "name": node}
    assert api.post(f"{pods}/nope/binding", {"metadata": {"name": "nope"}, "target": target}).status == 404
    api.post(pods, bodies.pod("p"))
    refused = api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node"}})
    assert refused.status in (422, 500)  # Kubernetes has no reason for it


def test_a_gated_pod_cannot_be_bound(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    refused = api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
    assert refused.status == 409
    assert "has non-empty .spec.schedulingGates" in refused.message


def test_a_deployment_is_scaled(api: Api, deployments: str) -> None:
    api.post(deployments, bodies.deployment("d", replicas=1))
    scale = api.get(f"{deployments}/d/scale").body
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"]["selector"] == "app=d"
    scale["spec"]["replicas"] = 0
    del scale["metadata"]["resourceVersion"]  # the controller writes the status at the same time
    assert api.put(f"{deployments}/d/scale", scale).status == 200
    found = api.get(f"{deployments}/d").body
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (0, 2)
    patched = api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 2}})
    assert patched.body["spec"]["replicas"] == 2


def test_an_old_scale_is_a_conflict(api: Api, deployments: str) -> None:
    api.post(deployments, bodies.deployment("d"))
    old = api.get(f"{deployments}/d/scale").body
    api.patch(f"{deployments}/d", {"metadata": {"labels": {"x": "y"}}})
    old["spec"]["replicas"] = 4
    assert api.put(f"{deployments}/d/scale", old).status == 409


def test_a_negative_scale_is_invalid(api: Api, deployments: str) -> None:
    api.post(deployments, bodies.deployment("d"))
    refused = api.patch(f"{deployments}/d/scale", {"spec": {"replicas": -1}})
    assert (refused.status, refused.reason) == (422, "Invalid")


# Eviction


def eviction(name: str, **options: object) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        **({"deleteOptions": options} if options else {}),
    }


def running(api: Api, pods: str, name: str, node: str) -> None:
    api.post(pods, bodies.pod(name, {"app": "guarded"}))
    api.post(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert api.patch(f"{pods}/{name}/status", {"status": status}, STRATEGIC).status == 200


def test_an_eviction_deletes_a_free_pod(api: Api, pods: str, node: str) -> None:
    running(api, pods, "p", node)
    done = api.post(f"{pods}/p/eviction", eviction("p", gracePeriodSeconds=3))
    assert (done.status, done.body["status"]) == (201, "Success")
    evicted = api.get(f"{pods}/p").body
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 3
    reasons = {item["type"]: item["reason"] for item in evicted["status"]["conditions"] if item.get("reason")}
    assert reasons["DisruptionTarget"] == "EvictionByEvictionAPI"
    api.delete(f"{pods}/p", gracePeriodSeconds=0)


def test_an_evicted_pod_says_why_it_goes_also_before_it_runs(api: Api, pods: str, node: str) -> None:
    api.post(pods, bodies.pod("p"))
    api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
    assert api.post(f"{pods}/p/eviction", eviction("p")).status == 201
    evicted = api.get(f"{pods}/p").body
    assert evicted["metadata"]["deletionTimestamp"]
    told = [item for item in evicted["status"]["conditions"] if item["type"] == "DisruptionTarget"]
    assert len(told) == 1
    assert {key: told[0][key] for key in told[0] if key != "lastTransitionTime"} == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
    }
    api.delete(f"{pods}/p", gracePeriodSeconds=0)


def test_a_budget_forbids_an_eviction(api: Api, pods: str, node: str, namespace: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    for name in ("p1", "p2"):
        running(api, pods, name, node)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    assert api.post(budgets, {"metadata": {"name": "b"}, "spec": spec}).status == 201
    api.wait(f"{budgets}/b", lambda answer: answer.body["status"]["disruptionsAllowed"] == 1)
    assert api.post(f"{pods}/p1/eviction", eviction("p1"), dryRun="All").status == 201
    assert api.post(f"{pods}/p1/eviction", eviction("p1")).status == 201
    refused = api.post(f"{pods}/p2/eviction", eviction("p2"))
    assert (refused.status, refused.reason) == (429, "TooManyRequests")
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    for name in ("p1", "p2"):
        api.delete(f"{pods}/{name}", gracePeriodSeconds=0)


def test_an_eviction_of_what_is_not_there_is_not_found(api: Api, pods: str) -> None:
    assert api.post(f"{pods}/nope/eviction", eviction("nope")).status == 404


def test_a_pending_pod_is_evicted_despite_a_budget(api: Api, pods: str) -> None:
    api.post(pods, bodies.pod("p"))
    assert api.post(f"{pods}/p/eviction", eviction("p")).status == 201
    assert api.get(f"{pods}/p").status == 404
