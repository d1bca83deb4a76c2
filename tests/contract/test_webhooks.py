"""Admission webhooks: what they are sent, what their answers do, in which order, and what happens when they fail."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import bodies
from tests.contract.api import APPLY, DEADLINE_S, Answer, Api, JsonObject
from tests.contract.webhook_server import PODS, WebhookServer, add_label, allow, patch

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
Create = Callable[..., Answer]


@pytest.fixture(scope="module")
def server(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    if str(kubeconfig) == os.environ.get("KOORD_TEST_KUBECONFIG"):
        pytest.skip("the API server of a named cluster may not reach this machine")
    with WebhookServer(tmp_path_factory.mktemp("hooks")) as started:
        yield started


class Registry:
    """Webhook configurations of one test: they concern its namespace only, and end with the test."""

    def __init__(self, api: Api, server: WebhookServer, namespace: str) -> None:
        self._api = api
        self._server = server
        self._namespace = namespace
        self._made: list[str] = []

    def mutating(self, *hooks: JsonObject, name: str = "m") -> None:
        """Register; the API server calls them when this returns."""
        self._register("mutatingwebhookconfigurations", name, hooks)

    def validating(self, *hooks: JsonObject, name: str = "v") -> None:
        """Register; the API server calls them when this returns."""
        self._register("validatingwebhookconfigurations", name, hooks)

    def end(self) -> None:
        """Delete everything that was registered."""
        for path in self._made:
            self._api.delete(path)

    def _register(self, plural: str, name: str, hooks: tuple[JsonObject, ...]) -> None:
        here = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        self._create(plural, f"{name}-{self._namespace}", [{"namespaceSelector": here, **hook} for hook in hooks])
        self._wait_known(plural, here)

    def _create(self, plural: str, name: str, hooks: list[JsonObject]) -> None:
        answer = self._api.post(f"{REGISTRATION}/{plural}", {"metadata": {"name": name}, "webhooks": hooks})
        assert answer.status == 201, answer.body
        self._made.append(f"{REGISTRATION}/{plural}/{name}")

    def _wait_known(self, plural: str, here: JsonObject) -> None:
        """A server hears of configurations by a watch, in order: one more that is known means that all are."""
        path = f"/marker-{len(self._made)}"
        rule = {**PODS, "resources": ["configmaps"]}
        self._server.answer(path, allow)
        marker = self._server.hook(path, rules=[rule], namespaceSelector=here)
        self._create(plural, f"zz{len(self._made)}-{self._namespace}", [marker])
        config_maps = f"/api/v1/namespaces/{self._namespace}/configmaps"
        end = time.monotonic() + DEADLINE_S
        while not self._server.reviews[path]:
            assert time.monotonic() < end, "the webhook configuration is not taken in"
            self._api.post(config_maps, bodies.config_map("marker"), dryRun="All")
        self._server.forget()


@pytest.fixture
def registry(api: Api, server: WebhookServer, namespace: str) -> Iterator[Registry]:
    made = Registry(api, server, namespace)
    yield made
    made.end()


@pytest.fixture
def create(api: Api, namespace: str) -> Create:
    """Creates a pod in the test's namespace; keywords are the query."""

    def post(pod: JsonObject | None = None, **parameters: Any) -> Answer:
        return api.post(f"/api/v1/namespaces/{namespace}/pods", pod or bodies.pod("p"), **parameters)

    return post


def test_a_webhook_is_sent_the_defaulted_object_and_who_asks_for_what(
    server: WebhookServer, registry: Registry, create: Create, namespace: str
) -> None:
    server.answer("/m", allow)
    registry.mutating(server.hook("/m", timeoutSeconds=7))
    assert create(fieldManager="me", fieldValidation="Strict").status == 201
    review = server.reviews["/m"][0]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert review["query"] == {"timeout": "7s"}
    assert review["headers"]["Content-Type"] == "application/json"
    request = review["request"]
    assert set(request) == {
        "uid", "kind", "resource", "requestKind", "requestResource", "name", "namespace", "operation", "userInfo",
        "object", "oldObject", "dryRun", "options",
    }  # fmt: skip
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == request["requestResource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["name"], request["namespace"], request["operation"]) == ("p", namespace, "CREATE")
    assert "system:authenticated" in request["userInfo"]["groups"]
    assert (request["oldObject"], request["dryRun"]) == (None, False)
    options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert request["options"] == {**options, "fieldValidation": "Strict"}
    assert (request["object"]["apiVersion"], request["object"]["kind"]) == ("v1", "Pod")
    assert request["object"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert request["object"]["spec"]["priority"] == 0


def test_identity_status_and_generated_name_come_between_mutation_and_validation(
    server: WebhookServer, registry: Registry, create: Create, namespace: str
) -> None:
    server.answer("/m", allow)
    server.answer("/v", allow)
    registry.mutating(server.hook("/m"))
    registry.validating(server.hook("/v"))
    pod = {**bodies.pod("p"), "metadata": {"generateName": "p-", "uid": "mine", "namespace": namespace}}
    made = create(pod)
    assert made.status == 201, made.body
    early, late = (server.reviews[path][0]["request"] for path in ("/m", "/v"))
    assert "name" not in early
    assert set(early["object"]["metadata"]) == {"generateName", "namespace", "managedFields"}
    assert early["object"]["status"] == {}
    assert late["name"] == late["object"]["metadata"]["name"] == made.body["metadata"]["name"]
    assert late["object"]["metadata"]["uid"] == made.body["metadata"]["uid"]
    assert {"creationTimestamp", "generation"} <= set(late["object"]["metadata"])
    assert late["object"]["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_webhooks_are_called_in_the_order_of_names_and_see_each_others_changes(
    server: WebhookServer, registry: Registry, create: Create
) -> None:
    for name in ("b", "a", "c"):
        server.answer(f"/{name}", add_label(name))
        registry.mutating(server.hook(f"/{name}"), name=name)
    made = create()
    assert made.body["metadata"]["labels"] == {"a": "yes", "b": "yes", "c": "yes"}
    assert server.reviews["/c"][0]["request"]["object"]["metadata"]["labels"] == {"a": "yes", "b": "yes"}


def test_defaults_and_quality_follow_a_patch(server: WebhookServer, registry: Registry, create: Create) -> None:
    batch = {"requests": {"kubernetes.io/batch-cpu": "1k"}, "limits": {"kubernetes.io/batch-cpu": "1k"}}
    server.answer("/m", patch({"op": "replace", "path": "/spec/containers/0/resources", "value": batch}))
    registry.mutating(server.hook("/m"))
    native = bodies.pod("p")
    native["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    made = create(native)
    assert made.body["spec"]["containers"][0]["resources"] == batch
    assert made.body["status"]["qosClass"] == "BestEffort"
    limits = {"limits": {"cpu": "2"}}
    server.answer("/m", patch({"op": "replace", "path": "/spec/containers/0/resources", "value": limits}))
    made = create(bodies.pod("q"))
    assert made.body["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert made.body["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize("policy", ["IfNeeded", "Never"])
def test_an_earlier_webhook_runs_again_after_a_later_change_only_when_it_asks_for_it(
    server: WebhookServer, registry: Registry, create: Create, policy: str
) -> None:
    for name in ("a", "b", "c"):
        server.answer(f"/{name}", add_label(name) if name == "b" else allow)
        registry.mutating(server.hook(f"/{name}", reinvocationPolicy=policy), name=name)
    assert create().status == 201
    counts = {name: len(server.reviews[f"/{name}"]) for name in ("a", "b", "c")}
    assert counts == {"a": 2 if policy == "IfNeeded" else 1, "b": 1, "c": 1}
    if policy == "IfNeeded":
        first, again = (review["request"] for review in server.reviews["/a"])
        assert again["object"]["metadata"]["labels"] == {"b": "yes"}
        assert first["uid"] != again["uid"]


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        ({"allowed": False}, 400, 'admission webhook "x.example.com" denied the request without explanation'),
        ({"allowed": False, "status": {"message": "no"}}, 400, 'webhook "x.example.com" denied the request: no'),
        ({"allowed": False, "status": {"code": 403, "message": "no"}}, 403, "denied the request: no"),
        ({"allowed": False, "status": {"code": 200, "reason": "Because"}}, 400, "denied the request: Because"),
    ],
    ids=["silent", "message", "code", "reason"],
)
def test_a_webhook_refuses_with_its_own_words(
    server: WebhookServer, registry: Registry, create: Create, kind: str, answer: JsonObject, code: int, text: str
) -> None:
    server.answer("/x", lambda _: answer)
    getattr(registry, kind)(server.hook("/x", failurePolicy="Ignore"))
    refused = create()
    assert refused.status == code, refused.body
    assert text in refused.message


BROKEN: dict[str, JsonObject] = {
    "wrong uid": {"allowed": True, "uid": "other"},
    "no json": {"raw": "hello"},
    "http error": {"raw": "hello", "http": 503},
    "no response": {"raw": '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'},
    "wrong version": {"raw": '{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}'},
    "patch without type": {"allowed": True, "patch": "W10="},
    "unknown patch type": {**add_label("a")({"object": {"metadata": {}}}), "patchType": "Merge"},
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_goes_by_the_failure_policy(
    server: WebhookServer, registry: Registry, create: Create, answer: JsonObject
) -> None:
    server.answer("/m", lambda _: answer)
    registry.mutating(
        server.hook("/m", failurePolicy="Ignore", objectSelector={"matchLabels": {"policy": "ignore"}}),
        server.hook("/m", name="strict.example.com", objectSelector={"matchLabels": {"policy": "fail"}}),
    )
    assert create(bodies.pod("p", {"policy": "ignore"})).status == 201
    refused = create(bodies.pod("q", {"policy": "fail"}))
    assert (refused.status, refused.reason) == (500, "InternalError")
    assert 'failed calling webhook "strict.example.com"' in refused.message


def test_a_slow_or_absent_webhook_goes_by_the_failure_policy(
    server: WebhookServer, registry: Registry, create: Create
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = {"url": f"https://127.0.0.1:{probe.getsockname()[1]}/", "caBundle": server.ca_bundle}
    server.answer("/slow", allow, delay_s=1.5)
    chosen = {
        name: {"objectSelector": {"matchLabels": {"to": name}}, "name": f"{name}.example.com", "timeoutSeconds": 1}
        for name in ("slow", "slow-open", "absent", "absent-open")
    }
    registry.mutating(
        server.hook("/slow", **chosen["slow"]),
        server.hook("/slow", failurePolicy="Ignore", **chosen["slow-open"]),
        server.hook("/m", clientConfig=nobody, **chosen["absent"]),
        server.hook("/m", clientConfig=nobody, failurePolicy="Ignore", **chosen["absent-open"]),
    )
    answers = {name: create(bodies.pod("p", {"to": name}), dryRun="All") for name in chosen}
    assert {name: answer.status for name, answer in answers.items()} == {
        "slow": 500, "slow-open": 201, "absent": 500, "absent-open": 201,
    }  # fmt: skip
    assert "context deadline exceeded" in answers["slow"].message
    assert "failed to call webhook: Post" in answers["absent"].message


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/spec/restartPolicy", "value": "Never"}],
        [{"op": "remove", "path": "/spec/missing"}],
        [{"op": "add", "path": "/spec/containers/0/image", "value": 5}],
        [{"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": {"cpu": "x"}}}],
        [{"op": "add", "path": "/spec/restartPolicy", "value": "Sometimes"}],
    ],
    ids=["failed test", "nothing to remove", "wrong type", "no quantity", "invalid value"],
)
def test_a_patch_that_cannot_be_used_refuses_the_pod_even_when_failing_open(
    server: WebhookServer, registry: Registry, create: Create, operations: list[JsonObject]
) -> None:
    server.answer("/m", patch(*operations))
    registry.mutating(server.hook("/m", failurePolicy="Ignore"))
    refused = create()
    invalid = operations[0]["value"] == "Sometimes" if "value" in operations[0] else False
    assert refused.status == (422 if invalid else 500), refused.body


def test_a_validating_webhook_may_not_patch(server: WebhookServer, registry: Registry, create: Create) -> None:
    server.answer("/v", add_label("x"))
    registry.validating(server.hook("/v"))
    refused = create()
    assert refused.status == 500
    assert "validating webhook may not return response.patch" in refused.message


def test_warnings_reach_the_client_once_each(server: WebhookServer, registry: Registry, create: Create) -> None:
    server.answer("/m", lambda _: {"allowed": True, "warnings": ["mind", 'a "quoted" word']})
    server.answer("/v", lambda _: {"allowed": True, "warnings": ["the gap", "mind"]})
    registry.mutating(server.hook("/m"))
    registry.validating(server.hook("/v"))
    assert create().warnings == ('299 - "mind"', '299 - "a \\"quoted\\" word"', '299 - "the gap"')


def test_a_dry_run_needs_webhooks_without_side_effects(
    server: WebhookServer, registry: Registry, create: Create
) -> None:
    server.answer("/m", allow)
    unsafe = {"sideEffects": "NoneOnDryRun", "objectSelector": {"matchLabels": {"a": "b"}}}
    registry.mutating(server.hook("/m", **unsafe))
    assert create(bodies.pod("p", {"a": "b"}), dryRun="All").status == 201
    request = server.reviews["/m"][0]["request"]
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])


def test_selectors_choose_by_namespace_and_object_old_or_new(
    server: WebhookServer, registry: Registry, create: Create, api: Api, namespace: str
) -> None:
    server.answer("/m", allow)
    server.answer("/other", allow)
    rule = {**PODS, "operations": ["CREATE", "UPDATE"]}
    registry.mutating(
        server.hook("/m", rules=[rule], objectSelector={"matchLabels": {"app": "web"}}),
        server.hook("/other", rules=[rule], namespaceSelector={"matchLabels": {"team": namespace}}),
    )
    create(bodies.pod("a", {"app": "web"}))
    create(bodies.pod("b", {"app": "db"}))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert api.patch(f"{pods}/a", {"metadata": {"labels": {"app": "db"}}}).status == 200
    assert api.patch(f"{pods}/a", {"metadata": {"labels": {"more": "x"}}}).status == 200
    asked = [(review["request"]["operation"], review["request"]["name"]) for review in server.reviews["/m"]]
    assert asked == [("CREATE", "a"), ("UPDATE", "a")]
    assert server.reviews["/m"][1]["request"]["oldObject"]["metadata"]["labels"] == {"app": "web"}
    assert server.reviews["/other"] == []


def test_every_operation_is_told_with_its_object_and_options(
    server: WebhookServer, registry: Registry, create: Create, api: Api, namespace: str, node: str
) -> None:
    server.answer("/m", allow)
    registry.mutating(server.hook("/m", rules=[{**EVERYTHING, "apiGroups": ["", "policy"]}]))
    pod = f"/api/v1/namespaces/{namespace}/pods/p"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}}
    steps: list[Callable[[], Answer]] = [
        lambda: create(bodies.pod("p", terminationGracePeriodSeconds=0)),
        lambda: api.patch(pod, {"metadata": {"labels": {"a": "b"}}}),
        lambda: api.put(pod, api.get(pod).body),
        lambda: api.patch(
            pod, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, APPLY, fieldManager="x"
        ),
        lambda: api.patch(f"{pod}/status", {"status": {"message": "hi"}}),
        lambda: api.post(f"{pod}/binding", {**binding, "target": {"kind": "Node", "name": node}}),
        lambda: api.post(f"{pod}/eviction", {**eviction, "deleteOptions": {"dryRun": ["All"]}}),
        lambda: api.delete(pod, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}),
    ]
    told = []
    for step in steps:
        server.forget()
        answer = step()
        assert answer.status in (200, 201), answer.body
        request = server.reviews["/m"][0]["request"]
        assert request["name"] == "p"
        told.append(
            (
                request["operation"],
                request.get("subResource", ""),
                (request["object"] or {}).get("kind", ""),
                bool(request["oldObject"]),
                request["options"]["kind"],
            )
        )
        assert request["kind"]["kind"] == (request["object"] or request["oldObject"])["kind"]
    assert told == [
        ("CREATE", "", "Pod", False, "CreateOptions"),
        ("UPDATE", "", "Pod", True, "UpdateOptions"),
        ("UPDATE", "", "Pod", True, "UpdateOptions"),
        ("UPDATE", "", "Pod", True, "UpdateOptions"),
        ("UPDATE", "status", "Pod", True, "UpdateOptions"),
        ("CREATE", "binding", "Binding", False, "CreateOptions"),
        ("CREATE", "eviction", "Eviction", False, "CreateOptions"),
        ("DELETE", "", "", True, "DeleteOptions"),
    ]
    assert server.reviews["/m"][0]["request"]["options"]["propagationPolicy"] == "Background"


def test_scaling_is_told_as_a_scale(server: WebhookServer, registry: Registry, api: Api, namespace: str) -> None:
    server.answer("/m", allow)
    rule = {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*/scale"]}
    registry.mutating(server.hook("/m", rules=[rule]))
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(deployments, bodies.deployment("d", 1))
    assert api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 3}}).body["spec"]["replicas"] == 3
    request = server.reviews["/m"][0]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    assert (request["oldObject"]["spec"], request["object"]["spec"]) == ({"replicas": 1}, {"replicas": 3})


def test_a_deleted_collection_is_told_object_by_object_without_names(
    server: WebhookServer, registry: Registry, api: Api, namespace: str
) -> None:
    server.answer("/v", allow)
    registry.validating(server.hook("/v", rules=[{**PODS, "operations": ["DELETE"], "resources": ["configmaps"]}]))
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("a", "b"):
        api.post(config_maps, bodies.config_map(name))
    assert api.delete(config_maps, fieldSelector="metadata.name!=kube-root-ca.crt").status == 200
    requests = [review["request"] for review in server.reviews["/v"]]
    assert not any("name" in request for request in requests)
    assert sorted(request["oldObject"]["metadata"]["name"] for request in requests) == ["a", "b"]


def test_a_webhook_can_refuse_evictions_and_deletions(
    server: WebhookServer, registry: Registry, create: Create, api: Api, namespace: str
) -> None:
    server.answer("/v", lambda _: {"allowed": False, "status": {"message": "stays", "code": 409}})
    eviction_rule = {**PODS, "resources": ["pods/eviction"]}
    registry.validating(server.hook("/v", rules=[eviction_rule, {**PODS, "operations": ["DELETE"]}]))
    create()
    pod = f"/api/v1/namespaces/{namespace}/pods/p"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    for refused in (api.post(f"{pod}/eviction", eviction), api.delete(pod)):
        assert refused.status == 409
        assert "stays" in refused.message
    assert "deletionTimestamp" not in api.get(pod).body["metadata"]


def test_priority_is_settled_again_after_the_webhooks(
    server: WebhookServer, registry: Registry, create: Create, api: Api, unique: str
) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert api.post(path, {"metadata": {"name": unique}, "value": 5000}).status == 201
    server.answer("/m", patch({"op": "replace", "path": "/spec/priority", "value": 5500}))
    registry.mutating(server.hook("/m"))
    refused = create()
    assert refused.status == 403
    assert "the integer value of priority (5500) must not be provided in pod spec" in refused.message
    named = {"op": "add", "path": "/spec/priorityClassName", "value": unique}
    server.answer("/m", patch(named, {"op": "replace", "path": "/spec/priority", "value": 5000}))
    made = create()
    assert (made.status, made.body["spec"]["priority"]) == (201, 5000)
    api.delete(f"{path}/{unique}")


def test_webhooks_never_stand_between_a_person_and_the_webhook_configurations(
    server: WebhookServer, registry: Registry, api: Api, unique: str
) -> None:
    server.answer("/v", lambda _: {"allowed": False})
    rule = {**EVERYTHING, "apiGroups": ["admissionregistration.k8s.io"]}
    registry.validating(server.hook("/v", rules=[rule], namespaceSelector={}))
    registry.mutating(server.hook("/v", rules=[rule], namespaceSelector={}))
    path = f"{REGISTRATION}/validatingwebhookconfigurations"
    assert api.post(path, {"metadata": {"name": unique}, "webhooks": [server.hook("/x")]}).status == 201
    assert api.delete(f"{path}/{unique}").status == 200
    assert server.reviews["/v"] == []
