"""PATCH in its four formats, server-side apply included."""

from typing import Any

import pytest

from tests.contract import bodies
from tests.contract.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Api, JsonObject


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def test_a_merge_patch_sets_and_removes(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a", k="1", gone="1"))
    changed = api.patch(f"{config_maps}/a", {"data": {"k": "2", "gone": None, "new": "3"}}, MERGE)
    assert (changed.status, changed.body["data"]) == (200, {"k": "2", "new": "3"})


def test_a_merge_patch_replaces_lists(api: Api, deployments: str) -> None:
    api.post(deployments, bodies.deployment("d"))
    containers = [{"name": "other", "image": "j"}]
    changed = api.patch(f"{deployments}/d", {"spec": {"template": {"spec": {"containers": containers}}}}, MERGE)
    assert [item["name"] for item in changed.body["spec"]["template"]["spec"]["containers"]] == ["other"]


def test_a_json_patch_tests_and_changes(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a", k="1"))
    operations = [
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "replace", "path": "/data/k", "value": "2"},
        {"op": "add", "path": "/metadata/labels", "value": {"a~b": "c"}},
        {"op": "remove", "path": "/metadata/labels/a~0b"},
        {"op": "add", "path": "/data/x", "value": "y"},
    ]
    changed = api.patch(f"{config_maps}/a", operations, JSON_PATCH)
    assert (changed.status, changed.body["data"]) == (200, {"k": "2", "x": "y"})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/k", "value": "other"},
        {"op": "remove", "path": "/data/nothing"},
        {"op": "add", "path": "/no/such/place", "value": 1},
    ],
)
def test_a_json_patch_that_fails_changes_nothing(api: Api, config_maps: str, operation: JsonObject) -> None:
    made = api.post(config_maps, bodies.config_map("a", k="1")).body
    refused = api.patch(f"{config_maps}/a", [{"op": "add", "path": "/data/z", "value": "1"}, operation], JSON_PATCH)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message == "the server rejected our request due to an error in our request"
    assert api.get(f"{config_maps}/a").body == made


def test_a_strategic_patch_merges_lists_by_key(api: Api, deployments: str) -> None:
    api.post(deployments, bodies.deployment("d"))
    template = {"spec": {"containers": [{"name": "c", "image": "i:2"}, {"name": "side", "image": "s"}]}}
    changed = api.patch(f"{deployments}/d", {"spec": {"template": template}}, STRATEGIC)
    assert changed.status == 200, changed.body
    images = {item["name"]: item["image"] for item in changed.body["spec"]["template"]["spec"]["containers"]}
    assert images == {"c": "i:2", "side": "s"}
    removal = {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}
    left = api.patch(f"{deployments}/d", {"spec": {"template": removal}}, STRATEGIC).body
    assert [item["name"] for item in left["spec"]["template"]["spec"]["containers"]] == ["c"]
    assert left["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_an_unknown_patch_format_is_unsupported(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    refused = api.patch(f"{config_maps}/a", {}, "application/json")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_a_patch_with_an_old_version_is_a_conflict(api: Api, config_maps: str) -> None:
    old = api.post(config_maps, bodies.config_map("a")).body["metadata"]["resourceVersion"]
    api.patch(f"{config_maps}/a", {"data": {"b": "1"}})
    refused = api.patch(f"{config_maps}/a", {"metadata": {"resourceVersion": old}, "data": {"b": "2"}})
    assert (refused.status, refused.reason) == (409, "Conflict")


def test_a_patch_of_what_is_not_there_is_not_found(api: Api, config_maps: str) -> None:
    assert api.patch(f"{config_maps}/nope", {"data": {}}).status == 404


def test_an_empty_patch_writes_nothing(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a")).body
    same = api.patch(f"{config_maps}/a", {}).body
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_force_belongs_to_apply(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    refused = api.patch(f"{config_maps}/a", {}, MERGE, force="true")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "may not be specified for non-apply patch" in refused.message


# Server-side apply


def apply(api: Api, path: str, body: JsonObject, manager: str, **parameters: Any) -> Answer:
    name = body["metadata"]["name"]
    return api.patch(f"{path}/{name}", body, APPLY, fieldManager=manager, **parameters)


def owned(body: JsonObject, manager: str) -> JsonObject:
    return next(entry for entry in body["metadata"]["managedFields"] if entry["manager"] == manager)


def test_apply_creates_and_owns_what_it_says(api: Api, config_maps: str) -> None:
    made = apply(api, config_maps, bodies.config_map("a", k="1"), "one")
    assert made.status == 201
    entry = owned(made.body, "one")
    assert entry["operation"] == "Apply"
    assert entry["apiVersion"] == "v1"
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}


def test_applying_again_writes_nothing(api: Api, config_maps: str) -> None:
    first = apply(api, config_maps, bodies.config_map("a", k="1"), "one").body
    second = apply(api, config_maps, bodies.config_map("a", k="1"), "one")
    assert second.status == 200
    assert second.body["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_what_is_no_longer_applied_goes(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1", old="1"), "one")
    left = apply(api, config_maps, bodies.config_map("a", k="1"), "one").body
    assert left["data"] == {"k": "1"}


def test_two_managers_share_an_object(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", mine="1"), "one")
    both = apply(api, config_maps, bodies.config_map("a", other="2"), "two").body
    assert both["data"] == {"mine": "1", "other": "2"}
    back = apply(api, config_maps, {**bodies.config_map("a"), "data": {}}, "two").body
    assert back["data"] == {"mine": "1"}


def test_a_conflict_names_manager_and_field(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1"), "one")
    refused = apply(api, config_maps, bodies.config_map("a", k="2"), "two")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]


def test_several_conflicts_are_listed(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1", j="1"), "one")
    refused = apply(api, config_maps, bodies.config_map("a", k="2", j="2"), "two")
    assert refused.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.j\n- .data.k'


def test_force_takes_the_fields(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1"), "one")
    taken = apply(api, config_maps, bodies.config_map("a", k="2"), "two", force="true")
    assert taken.body["data"] == {"k": "2"}
    assert [entry["manager"] for entry in taken.body["metadata"]["managedFields"]] == ["two"]


def test_equal_values_are_owned_together(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1"), "one")
    both = apply(api, config_maps, bodies.config_map("a", k="1"), "two")
    assert both.status == 200
    assert owned(both.body, "one")["fieldsV1"] == owned(both.body, "two")["fieldsV1"]
    kept = apply(api, config_maps, {**bodies.config_map("a"), "data": {}}, "one").body
    assert kept["data"] == {"k": "1"}


def test_an_update_takes_fields_without_asking(api: Api, config_maps: str) -> None:
    apply(api, config_maps, bodies.config_map("a", k="1", j="1"), "one")
    changed = api.patch(f"{config_maps}/a", {"data": {"k": "2"}}, fieldManager="hand").body
    assert owned(changed, "one")["fieldsV1"] == {"f:data": {"f:j": {}}}
    assert owned(changed, "hand")["operation"] == "Update"
    assert owned(changed, "hand")["fieldsV1"] == {"f:data": {"f:k": {}}}
    refused = apply(api, config_maps, bodies.config_map("a", k="3", j="1"), "one")
    assert refused.status == 409
    assert 'conflict with "hand" using v1' in refused.message


def test_creating_owns_every_field(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a", k="1"), fieldManager="hand").body
    entry = owned(made, "hand")
    assert entry["operation"] == "Update"
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}


def test_the_manager_of_a_write_is_the_user_agent_by_default(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a")).body
    assert owned(made, "contract")["operation"] == "Update"


def test_apply_merges_lists_by_key(api: Api, deployments: str) -> None:
    body = bodies.deployment("d")
    assert apply(api, deployments, body, "one").status == 201
    side = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}},
    }
    both = apply(api, deployments, side, "two")
    assert both.status == 200, both.body
    assert [item["name"] for item in both.body["spec"]["template"]["spec"]["containers"]] == ["c", "side"]
    ports = owned(both.body, "one")["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert ports["f:ports"] == {
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
    }
    gone = apply(api, deployments, {**side, "spec": {}}, "two").body
    assert [item["name"] for item in gone["spec"]["template"]["spec"]["containers"]] == ["c"]


def test_apply_needs_a_manager(api: Api, config_maps: str) -> None:
    refused = api.patch(f"{config_maps}/a", bodies.config_map("a"), APPLY)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "fieldManager: Required value: is required for apply patch" in refused.message


def test_an_applied_configuration_may_not_carry_managed_fields(api: Api, config_maps: str) -> None:
    made = apply(api, config_maps, bodies.config_map("a"), "one").body
    refused = apply(api, config_maps, made, "one")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "metadata.managedFields must be nil" in refused.message


def test_an_applied_version_must_be_the_current_one(api: Api, config_maps: str) -> None:
    old = apply(api, config_maps, bodies.config_map("a", k="1"), "one").body["metadata"]["resourceVersion"]
    apply(api, config_maps, bodies.config_map("a", k="2"), "one")
    body = bodies.config_map("a", k="3")
    body["metadata"]["resourceVersion"] = old
    assert apply(api, config_maps, body, "one").status == 409


def test_status_is_owned_apart(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, bodies.pod("p"), fieldManager="maker")
    changed = api.patch(f"{pods}/p/status", {"status": {"message": "told"}}, fieldManager="node").body
    entry = owned(changed, "node")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:message": {}}})


def test_an_applied_status_is_owned_apart(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, bodies.pod("p"))
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "told"}}
    applied = api.patch(f"{pods}/p/status", config, APPLY, fieldManager="node")
    assert applied.body["status"]["message"] == "told", applied.body
    entry = owned(applied.body, "node")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:message": {}}}
    assert (
        "message"
        not in api.patch(f"{pods}/p/status", {**config, "status": {}}, APPLY, fieldManager="node").body["status"]
    )


def test_managed_fields_can_be_dropped(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a"), fieldManager="hand").body
    made["metadata"]["managedFields"] = []
    cleared = api.put(f"{config_maps}/a", made, fieldManager="other").body
    assert all(entry["manager"] != "hand" for entry in cleared["metadata"].get("managedFields", []))


def test_what_the_server_adds_is_owned_by_nobody(api: Api, namespace: str) -> None:
    services, pods = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("services", "pods"))
    service = api.post(
        services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}, fieldManager="hand"
    ).body
    fields = owned(service, "hand")["fieldsV1"]
    assert "f:clusterIP" not in fields["f:spec"]
    assert "f:status" not in fields
    made = api.post(pods, bodies.pod("p"), fieldManager="hand").body
    fields = owned(made, "hand")["fieldsV1"]["f:spec"]
    assert "f:serviceAccountName" not in fields
    assert "f:tolerations" not in fields
    assert "f:terminationMessagePath" in fields["f:containers"]['k:{"name":"c"}']  # a default is the client's


def test_applying_a_service_again_keeps_its_address(api: Api, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    config = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    made = apply(api, services, config, "one").body
    del config["spec"]["selector"]
    again = apply(api, services, config, "one").body
    assert again["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert "selector" not in again["spec"]
