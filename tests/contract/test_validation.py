"""Unknown fields, wrong types, invalid values, warnings, and who may ask at all."""

import pytest

from tests.contract import bodies
from tests.contract.api import APPLY, Api


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def test_strict_validation_refuses_unknown_fields(api: Api, pods: str) -> None:
    body = bodies.pod("p", colour="red")
    body["spec"]["containers"][0]["imagee"] = "x"
    refused = api.post(pods, body, fieldValidation="Strict")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "strict decoding error" in refused.message
    assert 'unknown field "spec.colour"' in refused.message
    assert 'unknown field "spec.containers[0].imagee"' in refused.message
    assert api.get(f"{pods}/p").status == 404


@pytest.mark.parametrize("validation", ["Warn", ""])
def test_unknown_fields_warn_and_are_dropped(api: Api, pods: str, validation: str) -> None:
    options = {"fieldValidation": validation} if validation else {}
    made = api.post(pods, bodies.pod("p", colour="red"), **options)
    assert made.status == 201
    assert made.warnings == ('299 - "unknown field \\"spec.colour\\""',)
    assert "colour" not in made.body["spec"]


def test_unknown_fields_can_be_ignored(api: Api, pods: str) -> None:
    made = api.post(pods, bodies.pod("p", colour="red"), fieldValidation="Ignore")
    assert (made.status, made.warnings) == (201, ())


def test_an_unknown_validation_is_refused(api: Api, pods: str) -> None:
    refused = api.post(pods, bodies.pod("p"), fieldValidation="Maybe")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert 'Unsupported value: "Maybe"' in refused.message


def test_patches_are_validated_too(api: Api, pods: str) -> None:
    api.post(pods, bodies.pod("p"))
    refused = api.patch(f"{pods}/p", {"metadata": {"labelz": {}}}, fieldValidation="Strict")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.body["details"]["causes"][0]["field"] == "patch"
    assert 'strict decoding error: unknown field "metadata.labelz"' in refused.message


def test_a_wrong_type_cannot_be_handled(api: Api, pods: str) -> None:
    body = bodies.pod("p")
    body["spec"]["containers"][0]["image"] = 7
    refused = api.post(pods, body)
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert 'Pod in version "v1" cannot be handled as a Pod: ' in refused.message
    assert "cannot unmarshal number into Go struct field" in refused.message


def test_a_malformed_quantity_cannot_be_handled(api: Api, pods: str) -> None:
    body = bodies.pod("p")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "many"}}
    refused = api.post(pods, body)
    assert refused.status == 400
    assert "quantities must match the regular expression" in refused.message


def test_nulls_are_taken_as_absent(api: Api, pods: str) -> None:
    body = bodies.pod("p", nodeSelector=None)
    body["metadata"]["creationTimestamp"] = None
    made = api.post(pods, body)
    assert made.status == 201
    assert "nodeSelector" not in made.body["spec"]
    assert made.body["metadata"]["creationTimestamp"]


def test_an_invalid_pod_names_every_field(api: Api, pods: str) -> None:
    body = bodies.pod("p", restartPolicy="Perhaps")
    body["spec"]["containers"][0]["name"] = "Not Valid"
    refused = api.post(pods, body)
    assert (refused.status, refused.reason) == (422, "Invalid")
    fields = {cause["field"] for cause in refused.body["details"]["causes"]}
    assert fields == {"spec.restartPolicy", "spec.containers[0].name"}
    assert refused.message.startswith('Pod "p" is invalid: [')


def test_a_pod_needs_containers(api: Api, pods: str) -> None:
    refused = api.post(pods, {"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert refused.message == 'Pod "p" is invalid: spec.containers: Required value'


def test_most_of_a_pod_spec_is_immutable(api: Api, pods: str) -> None:
    made = api.post(pods, bodies.pod("p")).body
    made["spec"]["hostname"] = "other"
    refused = api.put(f"{pods}/p", made)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "pod updates may not change fields other than" in refused.message


def test_applied_unknown_fields_are_refused(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    refused = api.patch(path, {**bodies.config_map("a"), "dota": {}}, APPLY, fieldManager="one")
    assert refused.status == 500
    assert ".dota: field not declared in schema" in refused.message


def test_anonymous_requests_are_unauthorized(stranger: Api) -> None:
    refused = stranger.get("/api/v1/namespaces")
    assert refused.status in (401, 403)  # 403 where a cluster lets anonymous users in
    assert refused.body["kind"] == "Status"


def test_a_wrong_token_is_unauthorized(stranger: Api) -> None:
    stranger.headers["Authorization"] = "Bearer nonsense"
    try:
        refused = stranger.get("/api/v1/namespaces")
    finally:
        del stranger.headers["Authorization"]
    assert (refused.status, refused.reason, refused.message) == (401, "Unauthorized", "Unauthorized")


def test_health_can_be_asked(api: Api) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        answer = api.get(path)
        assert (answer.status, answer.body) == (200, "ok")


def test_access_is_reviewed(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    reviewed = api.post(
        path, {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    )
    assert (reviewed.status, reviewed.body["status"]["allowed"]) == (201, True)


def test_users_are_told_who_they_are(api: Api) -> None:
    told = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert told.status == 201
    assert "system:authenticated" in told.body["status"]["userInfo"]["groups"]
