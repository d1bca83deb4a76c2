"""Webhooks over real HTTPS: matching, patches, failures, order, dry runs."""

import base64
import socket
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from certs.authority import issue_authority
from sandbox.apiserver.status import StatusError

JsonObject = dict[str, Any]
HOOKS = "admissionregistration.k8s.io"


def mutating(bench: Any, name: str, *webhooks: JsonObject) -> None:
    bench.put(HOOKS, "mutatingwebhookconfigurations", {"metadata": {"name": name}, "webhooks": list(webhooks)})


def validating(bench: Any, name: str, *webhooks: JsonObject) -> None:
    bench.put(HOOKS, "validatingwebhookconfigurations", {"metadata": {"name": name}, "webhooks": list(webhooks)})


def add_label(make_patch: Any, key: str, value: str = "yes") -> Any:
    return lambda request: make_patch(
        {
            "op": "add",
            "path": "/metadata/labels",
            "value": {**(request["object"]["metadata"].get("labels") or {}), key: value},
        }
    )


async def test_a_patch_is_applied_and_the_review_has_the_documented_form(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    hooks.answer("/m", lambda _: make_patch({"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}))
    mutating(bench, "m", hooks.hook("/m", timeoutSeconds=7))
    admitted = await bench.create("", "pods", make_pod())
    assert admitted.object["spec"]["nodeSelector"] == {"a": "b"}
    review = hooks.reviews["/m"][0]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert review["query"] == {"timeout": "7s"}
    request = review["request"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == request["requestResource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["name"], request["namespace"], request["operation"]) == ("p", "default", "CREATE")
    assert request["userInfo"]["username"] == "tester"
    assert request["dryRun"] is False
    assert request["oldObject"] is None
    assert request["object"]["spec"]["terminationGracePeriodSeconds"] == 30
    record = bench.chain.webhook_calls["m", "m.example.com"]
    assert record.outcomes == {"patched": 1}
    assert 0 < record.quantile_s(0.5) < 5


async def test_webhooks_are_called_in_the_order_of_configuration_names_and_see_each_others_changes(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    for name in ("b", "a", "c"):
        hooks.answer(f"/{name}", add_label(make_patch, name))
        mutating(bench, name, hooks.hook(f"/{name}"))
    admitted = await bench.create("", "pods", make_pod())
    assert list(admitted.object["metadata"]["labels"]) == ["a", "b", "c"]
    assert hooks.reviews["/c"][0]["request"]["object"]["metadata"]["labels"] == {"a": "yes", "b": "yes"}


async def test_defaults_follow_each_patch(bench: Any, hooks: Any, make_patch: Any, make_pod: Any) -> None:
    path = "/spec/containers/0/resources"
    hooks.answer("/m", lambda _: make_patch({"op": "add", "path": path, "value": {"limits": {"cpu": "2"}}}))
    mutating(bench, "m", hooks.hook("/m"))
    admitted = await bench.create("", "pods", make_pod())
    assert admitted.object["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert admitted.object["status"]["qosClass"] == "Burstable"


async def test_the_qos_class_is_that_of_the_mutated_resources(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    batch = {"requests": {"kubernetes.io/batch-cpu": "1k"}, "limits": {"kubernetes.io/batch-cpu": "1k"}}
    hooks.answer(
        "/m", lambda _: make_patch({"op": "replace", "path": "/spec/containers/0/resources", "value": batch})
    )
    mutating(bench, "m", hooks.hook("/m"))
    native = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    pod = make_pod(containers=[{"name": "c", "image": "x:1", "resources": native}])
    admitted = await bench.create("", "pods", pod)
    assert admitted.object["status"]["qosClass"] == "BestEffort"


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        ({"allowed": False}, 400, 'admission webhook "v.example.com" denied the request without explanation'),
        ({"allowed": False, "status": {"message": "no"}}, 400, 'webhook "v.example.com" denied the request: no'),
        ({"allowed": False, "status": {"code": 403, "message": "no"}}, 403, "denied the request: no"),
        ({"allowed": False, "status": {"code": 200, "reason": "Because"}}, 400, "denied the request: Because"),
        ({"allowed": True, "patch": "W10=", "patchType": "JSONPatch"}, 500, "may not return response.patch"),
    ],
)
async def test_a_validating_webhook_refuses_with_its_own_words(
    bench: Any, hooks: Any, make_pod: Any, answer: JsonObject, code: int, text: str
) -> None:
    hooks.answer("/v", lambda _: answer)
    validating(bench, "v", hooks.hook("/v"))
    with pytest.raises(StatusError, match=text) as refusal:
        await bench.create("", "pods", make_pod())
    assert refusal.value.code == code


BROKEN_ANSWERS = {
    "wrong uid": {"allowed": True, "uid": "other"},
    "no json": {"raw": "hello"},
    "http error": {"raw": "hello", "http": 503},
    "no response": {"raw": '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'},
    "wrong version": {"raw": '{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}'},
    "patch without type": {"allowed": True, "patch": "W10="},
    "unknown patch type": {"allowed": True, "patch": "W10=", "patchType": "Merge"},
}


@pytest.mark.parametrize("answer", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS.keys())
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_broken_answer_goes_by_the_failure_policy(
    bench: Any, hooks: Any, make_pod: Any, answer: JsonObject, policy: str
) -> None:
    hooks.answer("/m", lambda _: answer)
    mutating(bench, "m", hooks.hook("/m", failurePolicy=policy))
    if policy == "Ignore":
        assert (await bench.create("", "pods", make_pod())).object["spec"]["priority"] == 0
        return
    with pytest.raises(StatusError, match=r'failed calling webhook "m\.example\.com"') as refusal:
        await bench.create("", "pods", make_pod())
    assert (refusal.value.code, refusal.value.reason) == (500, "InternalError")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_slow_webhook_times_out(bench: Any, hooks: Any, make_pod: Any, policy: str) -> None:
    hooks.answer("/m", lambda _: {"allowed": True})
    hooks.delays_s["/m"] = 30.0
    mutating(bench, "m", hooks.hook("/m", failurePolicy=policy, timeoutSeconds=1))
    if policy == "Ignore":
        await bench.create("", "pods", make_pod())
    else:
        with pytest.raises(StatusError, match="context deadline exceeded"):
            await bench.create("", "pods", make_pod())
    assert bench.chain.webhook_calls["m", "m.example.com"].outcomes == {"failed": 1}


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def test_nobody_listening_goes_by_the_failure_policy(bench: Any, hooks: Any, make_pod: Any) -> None:
    client = {"url": f"https://127.0.0.1:{unused_port()}/", "caBundle": hooks.ca_bundle}
    mutating(bench, "a", hooks.hook("/a", clientConfig=client, failurePolicy="Ignore"))
    await bench.create("", "pods", make_pod())
    mutating(bench, "b", hooks.hook("/b", clientConfig=client))
    with pytest.raises(StatusError, match="failed to call webhook: Post"):
        await bench.create("", "pods", make_pod())


async def test_a_certificate_of_another_authority_is_not_trusted(bench: Any, hooks: Any, make_pod: Any) -> None:
    other = base64.b64encode(issue_authority(datetime.now(UTC)).certificate_pem).decode()
    hooks.answer("/m", lambda _: {"allowed": True})
    mutating(bench, "m", hooks.hook("/m", clientConfig={"url": hooks.url("/m"), "caBundle": other}))
    with pytest.raises(StatusError, match="certificate verify failed"):
        await bench.create("", "pods", make_pod())
    assert hooks.reviews["/m"] == []


async def test_a_service_is_reached_at_its_registered_address_under_its_own_name(
    bench: Any, hooks: Any, make_pod: Any
) -> None:
    hooks.answer("/mutate", lambda _: {"allowed": True})
    service = {"namespace": "koord", "name": "guard", "path": "mutate", "port": 443}
    mutating(bench, "m", hooks.hook("/m", clientConfig={"service": service, "caBundle": hooks.ca_bundle}))
    with pytest.raises(StatusError, match='service "guard" not found'):
        await bench.create("", "pods", make_pod())
    bench.chain.services.register("koord", "guard", "127.0.0.1", hooks.port)
    await bench.create("", "pods", make_pod())
    assert len(hooks.reviews["/mutate"]) == 1
    other = {**service, "name": "other"}
    bench.chain.services.register("koord", "other", "127.0.0.1", hooks.port)
    mutating(bench, "n", hooks.hook("/n", clientConfig={"service": other, "caBundle": hooks.ca_bundle}))
    with pytest.raises(StatusError, match=r"not valid for 'other\.koord\.svc'"):
        await bench.create("", "pods", make_pod())


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([{"op": "test", "path": "/spec/restartPolicy", "value": "Never"}], "cannot apply the patch"),
        ([{"op": "remove", "path": "/spec/missing"}], "cannot apply the patch"),
        ([{"op": "add", "path": "/spec/containers/0/image", "value": 5}], "json: cannot unmarshal number"),
        (
            [{"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": {"cpu": "x"}}}],
            "quantities must",
        ),
        ([{"op": "add", "path": "/spec/restartPolicy", "value": "Sometimes"}], "Unsupported value"),
    ],
)
async def test_a_patch_that_cannot_be_used_refuses_the_pod_even_when_failing_open(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any, operations: list[JsonObject], text: str
) -> None:
    hooks.answer("/m", lambda _: make_patch(*operations))
    mutating(bench, "m", hooks.hook("/m", failurePolicy="Ignore"))
    with pytest.raises(StatusError, match=text):
        await bench.create("", "pods", make_pod())


async def test_warnings_and_audit_annotations_are_passed_on(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    hooks.answer("/m", lambda _: {"allowed": True, "warnings": ["mind"], "auditAnnotations": {"why": "so"}})
    hooks.answer("/v", lambda _: {"allowed": True, "warnings": ["the gap", "mind"]})
    mutating(bench, "m", hooks.hook("/m"))
    validating(bench, "v", hooks.hook("/v"))
    admitted = await bench.create("", "pods", make_pod())
    assert admitted.warnings == ("mind", "the gap")
    assert admitted.audit_annotations == {"m.example.com/why": "so"}


async def test_validating_webhooks_see_the_final_object_and_run_at_the_same_time(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    hooks.answer("/m", add_label(make_patch, "late"))
    mutating(bench, "m", hooks.hook("/m"))
    for name in ("v1", "v2", "v3"):
        hooks.answer(f"/{name}", lambda _: {"allowed": True})
        hooks.delays_s[f"/{name}"] = 0.4
        validating(bench, name, hooks.hook(f"/{name}"))
    started = time.monotonic()
    await bench.create("", "pods", make_pod())
    elapsed_s = time.monotonic() - started
    latencies = [bench.chain.webhook_calls[name, f"{name}.example.com"].latencies_s[0] for name in ("v1", "v2", "v3")]
    assert hooks.reviews["/v2"][0]["request"]["object"]["metadata"]["labels"] == {"late": "yes"}
    assert hooks.reviews["/v2"][0]["request"]["object"]["status"]["qosClass"] == "BestEffort"
    assert elapsed_s < sum(latencies) * 0.7


async def test_an_earlier_webhook_runs_again_after_a_later_change_when_it_asks_for_it(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    for name in ("a", "b", "c"):
        hooks.answer(f"/{name}", add_label(make_patch, name) if name == "b" else lambda _: {"allowed": True})
    mutating(bench, "a", hooks.hook("/a", reinvocationPolicy="IfNeeded"))
    mutating(bench, "b", hooks.hook("/b", reinvocationPolicy="IfNeeded"))
    mutating(bench, "c", hooks.hook("/c", reinvocationPolicy="IfNeeded"))
    await bench.create("", "pods", make_pod())
    counts = {name: len(hooks.reviews[f"/{name}"]) for name in ("a", "b", "c")}
    assert counts == {"a": 2, "b": 1, "c": 1}
    assert hooks.reviews["/a"][1]["request"]["object"]["metadata"]["labels"] == {"b": "yes"}


async def test_without_the_policy_nothing_runs_twice(bench: Any, hooks: Any, make_patch: Any, make_pod: Any) -> None:
    for name in ("a", "b"):
        hooks.answer(f"/{name}", add_label(make_patch, name))
        mutating(bench, name, hooks.hook(f"/{name}"))
    await bench.create("", "pods", make_pod())
    assert [len(hooks.reviews[f"/{name}"]) for name in ("a", "b")] == [1, 1]


async def test_a_dry_run_needs_webhooks_without_side_effects(bench: Any, hooks: Any, make_pod: Any) -> None:
    hooks.answer("/m", lambda _: {"allowed": True})
    mutating(bench, "a", hooks.hook("/m", name="safe.example.com", sideEffects="NoneOnDryRun"))
    await bench.create("", "pods", make_pod(), dry_run=True)
    assert hooks.reviews["/m"][0]["request"]["dryRun"] is True
    mutating(bench, "b", hooks.hook("/m", name="unsafe.example.com", sideEffects="Some", failurePolicy="Ignore"))
    with pytest.raises(StatusError, match=r'"unsafe\.example\.com" does not support dry run') as refusal:
        await bench.create("", "pods", make_pod(), dry_run=True)
    assert refusal.value.code == 400
    await bench.create("", "pods", make_pod())


async def test_selectors_choose_by_namespace_and_object(bench: Any, hooks: Any, make_pod: Any) -> None:
    bench.namespace("blue", color="blue")
    hooks.answer("/m", lambda _: {"allowed": True})
    selectors = {
        "namespaceSelector": {
            "matchLabels": {"color": "blue"},
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
            ],
        },
        "objectSelector": {"matchLabels": {"app": "web"}},
    }
    mutating(bench, "m", hooks.hook("/m", **selectors))
    calls = []
    for namespace in ("default", "blue"):
        for app in ("web", "db"):
            pod = make_pod(labels={"app": app})
            pod["metadata"]["namespace"] = namespace
            await bench.create("", "pods", pod)
            calls.append(len(hooks.reviews["/m"]))
    assert calls == [0, 0, 1, 1]


async def test_an_object_selector_matches_the_old_object_too(bench: Any, hooks: Any, make_pod: Any) -> None:
    hooks.answer("/m", lambda _: {"allowed": True})
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    mutating(bench, "m", hooks.hook("/m", objectSelector={"matchLabels": {"app": "web"}}, rules=[rule]))
    old = (await bench.create("", "pods", make_pod(labels={"app": "web"}))).object
    new = {**old, "metadata": {**old["metadata"], "labels": {"app": "db"}}}
    await bench.update("", "pods", new, old)
    assert len(hooks.reviews["/m"]) == 1
    assert hooks.reviews["/m"][0]["request"]["oldObject"]["metadata"]["labels"] == {"app": "web"}


RULES: dict[str, tuple[JsonObject, bool]] = {
    "all of it": ({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}, False),
    "with subresources": (
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]},
        True,
    ),
    "this one": (
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]},
        True,
    ),
    "any of pods": (
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"]},
        True,
    ),
    "of anything": (
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/eviction"]},
        True,
    ),
    "other subresource": (
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]},
        False,
    ),
    "other group": (
        {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["pods/*"]},
        False,
    ),
    "other operation": (
        {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"]},
        False,
    ),
    "cluster scope": (
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "Cluster"},
        False,
    ),
    "namespaced": (
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "Namespaced"},
        True,
    ),
}


@pytest.mark.parametrize(("rule", "called"), RULES.values(), ids=RULES.keys())
async def test_rules_name_subresources(bench: Any, hooks: Any, rule: JsonObject, called: bool) -> None:
    hooks.answer("/m", lambda _: {"allowed": True})
    mutating(bench, "m", hooks.hook("/m", rules=[rule]))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}}
    await bench.create("", "pods", eviction, subresource="eviction")
    assert bool(hooks.reviews["/m"]) is called
    if called:
        request = hooks.reviews["/m"][0]["request"]
        assert request["subResource"] == request["requestSubResource"] == "eviction"
        assert request["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


async def test_deletions_are_asked_about_with_the_old_object(bench: Any, hooks: Any, make_pod: Any) -> None:
    hooks.answer("/v", lambda _: {"allowed": False, "status": {"message": "stays"}})
    rule = {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    validating(bench, "v", hooks.hook("/v", rules=[rule]))
    with pytest.raises(StatusError, match="stays"):
        await bench.delete("", "pods", make_pod())
    assert hooks.reviews["/v"][0]["request"]["object"] is None
    assert hooks.reviews["/v"][0]["request"]["oldObject"]["metadata"]["name"] == "p"


async def test_webhooks_never_stand_between_a_person_and_the_webhook_configurations(bench: Any, hooks: Any) -> None:
    hooks.answer("/v", lambda _: {"allowed": False})
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    broken = hooks.hook("/v", rules=[everything])
    validating(bench, "v", broken)
    mutating(bench, "m", hooks.hook("/v", rules=[everything]))
    configuration = {"metadata": {"name": "new"}, "webhooks": [hooks.hook("/x", name="x.example.com")]}
    await bench.create(HOOKS, "validatingwebhookconfigurations", configuration)
    await bench.delete(HOOKS, "validatingwebhookconfigurations", {"metadata": {"name": "v"}})
    assert hooks.reviews["/v"] == []


async def test_priority_is_checked_again_after_the_webhooks(
    bench: Any, hooks: Any, make_patch: Any, make_pod: Any
) -> None:
    bench.put("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": "koord-batch"}, "value": 5000})
    alone = {"op": "replace", "path": "/spec/priority", "value": 5500}
    hooks.answer("/m", lambda _: make_patch(alone))
    mutating(bench, "m", hooks.hook("/m"))
    with pytest.raises(StatusError, match=r"the integer value of priority \(5500\) must not be provided in pod spec"):
        await bench.create("", "pods", make_pod())
    consistent = [
        {"op": "add", "path": "/spec/priorityClassName", "value": "koord-batch"},
        {"op": "replace", "path": "/spec/priority", "value": 5000},
    ]
    hooks.answer("/m", lambda _: make_patch(*consistent))
    admitted = await bench.create("", "pods", make_pod())
    assert admitted.object["spec"]["priority"] == 5000
