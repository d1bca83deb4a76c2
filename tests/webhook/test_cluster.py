"""The webhook as a process beside a real API server: registration, mutation, faults, stopping."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from certs.authority import issue_authority
from certs.injection import is_trusted, trust
from koord.api import names
from koord.api.objects import JsonObject
from koord.kube.errors import ApiError, NotFound
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import (
    EVENTS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    raw,
)
from webhook.registration import MUTATING_NAME, POD_WEBHOOK

PODS = raw("", "v1", "pods", "Pod", True)
PROFILES = raw("config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile", False)
NATIVE = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def make_pod(name: str, namespace: str = "default", **metadata: Any) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "spark"}, **metadata},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": NATIVE}]},
    }


def make_profile(name: str = "spark", **spec: Any) -> JsonObject:
    defaults: JsonObject = {
        "selector": {"matchLabels": {"app": "spark"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "koordinatorPriority": 1000,
    }
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name},
        "spec": defaults | spec,
    }


async def create_pod(cluster: Any, pod: JsonObject, *, dry_run: bool = False) -> JsonObject:
    created: JsonObject = await cluster.client.create(PODS, pod, pod["metadata"]["namespace"], dry_run=dry_run)
    return created


async def test_a_pod_becomes_batch_and_the_log_says_why(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile())
    webhook = await cluster.start_webhook()
    await cluster.until_registered()
    pod = await create_pod(cluster, make_pod("a"))
    assert pod["metadata"]["labels"] == {"app": "spark", names.LABEL_QOS: "BE", names.LABEL_PRIORITY: "1000"}
    spec = pod["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("koord-batch", 5000)
    batch = {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"}
    assert spec["containers"][0]["resources"] == {
        "requests": batch,
        "limits": {names.BATCH_CPU: "1k", names.BATCH_MEMORY: "1Gi"},
    }
    annotation = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_EXTENDED_RESOURCE_SPEC])
    assert annotation["containers"]["main"]["requests"] == batch
    assert pod["status"]["qosClass"] == "BestEffort"
    line = await webhook.line(lambda line: line.get("pod") == "default/a", "pod admitted")
    assert (line["reason"], line["profiles"], line["band"]) == ("patched", ["spark"], "koord-batch")
    assert await webhook.stop() == 0


async def test_other_pods_and_protected_namespaces_stay_as_they_are(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile(selector={}))
    await cluster.start_webhook("--namespace", "mine")
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    await cluster.until_registered()
    for namespace in ("kube-system", names.CONFIG_NAMESPACE, "mine"):
        pod = await create_pod(cluster, make_pod("a", namespace))
        assert pod["metadata"]["labels"] == {"app": "spark"}
    mirror = make_pod("m", annotations={names.ANNOTATION_MIRROR_POD: "x"})
    assert (await create_pod(cluster, mirror))["metadata"]["labels"] == {"app": "spark"}
    changed = await create_pod(cluster, make_pod("b"))
    assert changed["metadata"]["labels"][names.LABEL_QOS] == "BE"


async def test_the_first_pod_of_a_new_namespace_matches_its_profile(cluster: Any) -> None:
    profile = make_profile(namespaceSelector={"matchLabels": {"colocation": "on"}})
    await cluster.client.create(PROFILES, profile)
    await cluster.start_webhook()
    await cluster.until_registered()
    for number in range(5):
        name = f"team-{number}"
        await cluster.client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"colocation": "on"}}})
        pod = await create_pod(cluster, make_pod("first", name))
        assert pod["metadata"]["labels"][names.LABEL_QOS] == "BE"


async def test_a_dry_run_gets_the_same_patch_and_leaves_nothing(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile())
    await cluster.start_webhook()
    await cluster.until_registered()
    pod = await create_pod(cluster, make_pod("a"), dry_run=True)
    assert pod["metadata"]["labels"][names.LABEL_QOS] == "BE"
    assert cluster.storage.read("", "pods", "default", "a") is None


async def test_a_faulty_profile_is_reported_and_a_refusal_reaches_the_user(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile(priorityClassName="nowhere"))
    bad_selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
    await cluster.client.create(PROFILES, make_profile("bad", selector=bad_selector, labels={"never": "set"}))
    webhook = await cluster.start_webhook()
    await cluster.until_registered()
    line = await webhook.line(lambda line: line["message"] == "faulty profile", "faulty profile")
    assert (line["profile"], "spec.selector" in line["problem"]) == ("bad", True)
    with pytest.raises(ApiError, match=r'mpod-create\.koordinator\.sh.*"nowhere"'):
        await create_pod(cluster, make_pod("a"))

    def announced() -> bool:
        events = cluster.storage.read_all(EVENTS.group, EVENTS.plural)
        return any(event["reason"] == "InvalidProfile" for event in events)

    await cluster.until(announced, "the Event")


async def test_a_damaged_registration_is_repaired_and_the_rest_left_alone(cluster: Any) -> None:
    await cluster.start_webhook()
    await cluster.until_registered()
    client, resource = cluster.client, MUTATING_WEBHOOK_CONFIGURATIONS
    foreign = {
        "name": "foreign.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    operations = [
        {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""},
        {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3},
        {"op": "add", "path": "/webhooks/0", "value": foreign},
    ]
    await client.patch(resource, MUTATING_NAME, operations, content_type=JSON_PATCH)
    await cluster.until_registered()
    entries = (await client.get(resource, MUTATING_NAME))["webhooks"]
    assert [entry["name"] for entry in entries] == ["foreign.example.org", POD_WEBHOOK]
    assert entries[1]["timeoutSeconds"] == 3
    assert "caBundle" not in entries[0]["clientConfig"]


async def test_pods_are_created_unchanged_while_no_webhook_runs(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile())
    webhook = await cluster.start_webhook()
    await cluster.until_registered()
    await webhook.stop(signal.SIGKILL)
    pod = await create_pod(cluster, make_pod("a"))
    assert pod["metadata"]["labels"] == {"app": "spark"}
    again = await cluster.start_webhook()
    await again.line(lambda line: line["message"] == "the API server calls this webhook", "registration")
    assert (await create_pod(cluster, make_pod("b")))["metadata"]["labels"][names.LABEL_QOS] == "BE"


async def test_a_bundle_reaches_our_entries_of_a_validating_configuration_and_no_other(cluster: Any) -> None:
    client, resource = cluster.client, VALIDATING_WEBHOOK_CONFIGURATIONS
    entries = [
        {
            "name": name,
            "clientConfig": {"service": {"name": "w", "namespace": "default"}},
            "rules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for name in ("foreign.example.org", "vpod.koordinator.sh")
    ]
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "v"}, "webhooks": entries}
    await client.create(resource, body)
    now, ours = datetime.now(UTC), {"vpod.koordinator.sh"}
    pem = issue_authority(now).certificate_pem
    assert await trust(client, resource, "v", ours, pem, now)
    assert not await trust(client, resource, "v", ours, pem, now)
    found = await client.get(resource, "v")
    assert is_trusted(found, ours, pem)
    assert "caBundle" not in found["webhooks"][0]["clientConfig"]
    with pytest.raises(NotFound):
        await trust(client, resource, "absent", ours, pem, now)


async def test_two_webhooks_with_their_own_authorities_are_both_trusted(cluster: Any) -> None:
    await cluster.client.create(PROFILES, make_profile())
    for folder in ("one", "two"):
        webhook = await cluster.start_webhook("--cert-dir", str(cluster.directory / folder))
        await webhook.line(lambda line: line["message"] == "the API server calls this webhook", "registration")
    resource = MUTATING_WEBHOOK_CONFIGURATIONS
    found = await cluster.client.get(resource, MUTATING_NAME)
    for folder in ("one", "two"):
        pem = (cluster.directory / folder / "current" / "ca.crt").read_bytes()
        assert is_trusted(found, {POD_WEBHOOK}, pem)
