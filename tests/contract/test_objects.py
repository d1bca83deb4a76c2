"""Creating, reading and replacing objects."""

import uuid

import pytest

from tests.contract import bodies
from tests.contract.api import Api


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def test_a_created_object_gets_identity_time_and_version(api: Api, config_maps: str, namespace: str) -> None:
    made = api.post(config_maps, bodies.config_map("a"))
    assert made.status == 201
    meta = made.body["metadata"]
    assert str(uuid.UUID(meta["uid"])) == meta["uid"]
    assert meta["namespace"] == namespace
    assert int(meta["resourceVersion"]) > 0
    assert meta["creationTimestamp"].endswith("Z")
    assert (made.body["kind"], made.body["apiVersion"]) == ("ConfigMap", "v1")
    assert api.get(f"{config_maps}/a").body == made.body


def test_what_a_client_says_about_identity_is_not_believed(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    body["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z"
    meta = api.post(config_maps, body).body["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in meta
    assert "selfLink" not in meta


def test_built_in_kinds_may_leave_out_their_kind(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert (made.status, made.body["kind"]) == (201, "ConfigMap")


def test_a_wrong_kind_is_refused(api: Api, config_maps: str) -> None:
    refused = api.post(config_maps, {**bodies.config_map("a"), "kind": "Secret"})
    assert (refused.status, refused.reason) == (400, "BadRequest")


def test_a_foreign_namespace_is_refused(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"]["namespace"] = "elsewhere"
    refused = api.post(config_maps, body)
    assert refused.status == 400
    assert "the namespace of the provided object does not match the namespace sent on the request" in refused.message


def test_a_missing_object_is_not_found_in_kubernetes_words(api: Api, config_maps: str) -> None:
    missing = api.get(f"{config_maps}/nope")
    assert missing.status == 404
    assert missing.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "configmaps"},
        "code": 404,
    }


def test_a_missing_object_of_a_group_is_named_with_its_group(api: Api, namespace: str) -> None:
    missing = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/nope")
    assert missing.message == 'deployments.apps "nope" not found'
    assert missing.body["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}


def test_an_unknown_resource_is_not_found(api: Api) -> None:
    missing = api.get("/api/v1/namespaces/default/nonsense")
    assert (missing.status, missing.reason) == (404, "NotFound")
    assert api.get("/apis/nobody.example.com/v1/things").status == 404


def test_creating_twice_is_already_exists(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    again = api.post(config_maps, bodies.config_map("a"))
    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.message == 'configmaps "a" already exists'
    assert again.body["details"] == {"name": "a", "kind": "configmaps"}


def test_creating_in_a_missing_namespace_is_not_found(api: Api) -> None:
    missing = api.post("/api/v1/namespaces/no-such-place/configmaps", bodies.config_map("a"))
    assert (missing.status, missing.message) == (404, 'namespaces "no-such-place" not found')


def test_generate_name_makes_distinct_names(api: Api, config_maps: str) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    names = {api.post(config_maps, body).body["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


def test_a_long_generate_name_is_cut_to_fit(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, {"metadata": {"generateName": "x" * 70}})
    assert len(made.body["metadata"]["name"]) == 63


def test_an_object_without_any_name_is_invalid(api: Api, config_maps: str) -> None:
    refused = api.post(config_maps, {"metadata": {}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.body["details"]["causes"][0]["field"] == "metadata.name"
    assert "name or generateName is required" in refused.message


def test_an_illegal_name_is_invalid(api: Api, config_maps: str) -> None:
    refused = api.post(config_maps, bodies.config_map("Not_A_Name"))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message.startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name"')
    assert refused.body["details"]["kind"] == "ConfigMap"
    assert refused.body["details"]["causes"][0]["reason"] == "FieldValueInvalid"


def test_a_resource_version_may_not_be_set_on_create(api: Api, config_maps: str) -> None:
    body = bodies.config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    refused = api.post(config_maps, body)
    assert refused.status == 500
    assert refused.message == "resourceVersion should not be set on objects to be created"


def test_replacing_changes_the_version_and_keeps_the_identity(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a")).body
    changed = api.put(f"{config_maps}/a", {**made, "data": {"a": "2"}})
    assert changed.status == 200
    assert changed.body["data"] == {"a": "2"}
    assert changed.body["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(changed.body["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_replacing_with_the_same_content_writes_nothing(api: Api, config_maps: str) -> None:
    made = api.post(config_maps, bodies.config_map("a")).body
    assert (
        api.put(f"{config_maps}/a", made).body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    )


def test_replacing_an_old_version_is_a_conflict(api: Api, config_maps: str) -> None:
    old = api.post(config_maps, bodies.config_map("a")).body
    api.put(f"{config_maps}/a", {**old, "data": {"a": "2"}})
    refused = api.put(f"{config_maps}/a", {**old, "data": {"a": "3"}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert refused.body["details"] == {"name": "a", "kind": "configmaps"}


def test_replacing_without_a_version_wins(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    assert api.put(f"{config_maps}/a", bodies.config_map("a", z="9")).body["data"] == {"z": "9"}


def test_replacing_under_another_uid_is_a_conflict(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    body = bodies.config_map("a")
    body["metadata"]["uid"] = str(uuid.uuid4())
    refused = api.put(f"{config_maps}/a", body)
    assert refused.status == 409
    assert "Precondition failed: UID in precondition" in refused.message


def test_replacing_under_another_name_is_refused(api: Api, config_maps: str) -> None:
    api.post(config_maps, bodies.config_map("a"))
    refused = api.put(f"{config_maps}/a", bodies.config_map("b"))
    assert refused.status == 400
    assert "the name of the object (b" in refused.message


def test_replacing_what_is_not_there_is_not_found(api: Api, config_maps: str) -> None:
    assert api.put(f"{config_maps}/a", bodies.config_map("a")).status == 404


def test_a_dry_run_answers_and_stores_nothing(api: Api, config_maps: str) -> None:
    tried = api.post(config_maps, bodies.config_map("a"), dryRun="All")
    assert (tried.status, tried.body["data"]) == (201, {"a": "1"})
    assert api.get(f"{config_maps}/a").status == 404
    kept = api.post(config_maps, bodies.config_map("a")).body
    changed = api.patch(f"{config_maps}/a", {"data": {"a": "2"}}, dryRun="All")
    assert changed.body["data"] == {"a": "2"}
    assert api.get(f"{config_maps}/a").body == kept
    assert api.delete(f"{config_maps}/a", dryRun="All").status == 200
    assert api.get(f"{config_maps}/a").status == 200


def test_an_unknown_dry_run_value_is_refused(api: Api, config_maps: str) -> None:
    refused = api.post(config_maps, bodies.config_map("a"), dryRun="Some")
    assert refused.status in (400, 422)


def test_yaml_is_read_and_written(api: Api, config_maps: str) -> None:
    text = b"metadata:\n  name: a\ndata:\n  when: '2001-01-01'\n"
    made = api.request("POST", config_maps, text, content_type="application/yaml", accept="application/yaml")
    assert made.status == 201
    assert "when: " in made.body


def test_a_broken_body_is_a_bad_request(api: Api, config_maps: str) -> None:
    refused = api.request("POST", config_maps, b"{")
    assert (refused.status, refused.reason) == (400, "BadRequest")


def test_an_unknown_content_type_is_unsupported(api: Api, config_maps: str) -> None:
    refused = api.request("POST", config_maps, b"x", content_type="text/plain")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_an_unknown_accept_type_is_not_acceptable(api: Api, config_maps: str) -> None:
    refused = api.request("GET", config_maps, accept="image/png")
    assert (refused.status, refused.reason) == (406, "NotAcceptable")


def test_a_verb_that_a_resource_does_not_have_is_not_allowed(api: Api, config_maps: str) -> None:
    refused = api.request("PUT", config_maps, bodies.config_map("a"))
    assert (refused.status, refused.reason) == (405, "MethodNotAllowed")


def test_a_secret_folds_its_texts_into_data(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    made = api.post(path, {"metadata": {"name": "s"}, "stringData": {"k": "hello"}})
    assert made.body["data"] == {"k": "aGVsbG8="}
    assert made.body["type"] == "Opaque"
    assert "stringData" not in made.body


def test_events_are_the_same_in_both_groups(api: Api, namespace: str) -> None:
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Testing",
        "message": "told",
        "type": "Normal",
        "source": {"component": "contract"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 3,
    }
    assert api.post(f"/api/v1/namespaces/{namespace}/events", body).status == 201
    seen = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/e").body
    assert seen["apiVersion"] == "events.k8s.io/v1"
    assert (seen["note"], seen["regarding"]["name"], seen["deprecatedCount"]) == ("told", "p", 3)
    assert seen["deprecatedSource"]["component"] == "contract"
    other = api.get(f"/api/v1/namespaces/{namespace}/events/e").body
    assert (other["message"], other["involvedObject"]["name"]) == ("told", "p")


def test_the_generation_counts_changes_of_the_desired_state(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = api.post(path, bodies.deployment("d", replicas=0)).body
    assert made["metadata"]["generation"] == 1
    labelled = api.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}}).body
    assert labelled["metadata"]["generation"] == 1
    scaled = api.patch(f"{path}/d", {"spec": {"revisionHistoryLimit": 3}}).body
    assert scaled["metadata"]["generation"] == 2


def test_quantities_are_stored_in_canonical_form(api: Api, namespace: str) -> None:
    body = bodies.pod("p")
    body["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1000m", "memory": "1024Mi"},
        "limits": {"cpu": 2, "memory": "2048Mi"},
    }
    made = api.post(f"/api/v1/namespaces/{namespace}/pods", body)
    assert made.status == 201, made.body
    resources = made.body["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


def test_the_system_priority_classes_are_there(api: Api) -> None:
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
        found = api.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        assert (found.status, found.body["value"]) == (200, value)


def test_a_pod_starts_pending_with_its_quality_of_service(api: Api, namespace: str) -> None:
    made = api.post(f"/api/v1/namespaces/{namespace}/pods", {**bodies.pod("p"), "status": {"phase": "Running"}})
    assert made.body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_service_gets_a_cluster_address(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    made = api.post(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).body
    assert made["spec"]["clusterIP"].startswith("10.")
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    assert api.post(path, headless).body["spec"]["clusterIP"] == "None"
    again = api.patch(f"{path}/s", {"spec": {"sessionAffinity": "ClientIP"}})
    assert again.body["spec"]["clusterIP"] == made["spec"]["clusterIP"]
