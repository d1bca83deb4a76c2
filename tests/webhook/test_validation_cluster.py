"""Objects that are refused, by the webhook as a process beside a real API server, and what the user is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api import names
from koord.api.objects import JsonObject
from koord.kube.errors import ApiError
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import CONFIGMAPS, NODES, VALIDATING_WEBHOOK_CONFIGURATIONS, raw
from webhook.registration import VALIDATING_NAME

PODS = raw("", "v1", "pods", "Pod", True)
PROFILES = raw("config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile", False)


def pod(name: str, **labels: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }


def profile(name: str, **spec: Any) -> JsonObject:
    head = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
    return {**head, "metadata": {"name": name}, "spec": spec}


async def start(cluster: Any, *flags: str) -> None:
    await cluster.start_webhook(*flags)
    await cluster.until_registered()
    resource = VALIDATING_WEBHOOK_CONFIGURATIONS

    def registered() -> bool:
        return cluster.storage.read(resource.group, resource.plural, "", VALIDATING_NAME) is not None

    await cluster.until(registered, "validation is registered")


async def test_a_pod_that_contradicts_itself_is_refused_and_told_what_would_do(cluster: Any) -> None:
    await start(cluster)
    with pytest.raises(ApiError) as refused:
        await cluster.client.create(PODS, pod("a", **{names.LABEL_QOS: "BE"}), "default")
    text = str(refused.value)
    assert "vpod.koordinator.sh" in text
    assert "koordinator.sh/qosClass=BE and priorityClass= cannot be used in combination" in text
    assert "BE goes with koord-mid or koord-batch or koord-free, priority 7000-7999 or 5000-5999 or 3000-3999" in text
    assert "here spec.priority is 0" in text


async def test_a_pod_from_before_can_be_patched_and_deleted_but_not_turned_into_something_else(cluster: Any) -> None:
    await cluster.client.create(PODS, pod("old", **{names.LABEL_QOS: "BE"}), "default")
    await start(cluster)
    client = cluster.client
    await client.patch(PODS, "old", {"metadata": {"labels": {"note": "kept"}}}, namespace="default")
    with pytest.raises(ApiError, match="field is immutable"):
        await client.patch(PODS, "old", {"metadata": {"labels": {names.LABEL_QOS: "LS"}}}, namespace="default")
    await client.patch(PODS, "old", {"metadata": {"finalizers": ["example.org/hold"]}}, namespace="default")
    await client.delete(PODS, "old", "default", grace_period_s=0)
    release = [{"op": "remove", "path": "/metadata/finalizers"}]
    await client.patch(PODS, "old", release, namespace="default", content_type=JSON_PATCH)
    assert cluster.storage.read("", "pods", "default", "old") is None


async def test_a_profile_that_makes_illegal_pods_is_refused_when_it_is_written(cluster: Any) -> None:
    await start(cluster)
    client = cluster.client
    with pytest.raises(ApiError, match=r"spec\.qosClass: Unsupported value"):
        await client.create(PROFILES, profile("a", qosClass="be"))
    with pytest.raises(ApiError, match=r"value 5000 does not go with qosClass LSR"):
        await client.create(PROFILES, profile("b", qosClass="LSR", priorityClassName="koord-batch"))
    never = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["y"]}]}
    with pytest.raises(ApiError, match=r"spec\.selector: Forbidden: matches nothing: no value of label app"):
        await client.create(PROFILES, profile("c", selector=never))
    await client.create(PROFILES, profile("d", qosClass="BE", priorityClassName="koord-batch"))


async def test_a_typo_in_the_configuration_never_reaches_a_node(cluster: Any) -> None:
    await start(cluster)
    client = cluster.client
    await client.create(NODES, {"metadata": {"name": "n", "labels": {"x": "1", "y": "1"}}})

    def config(**data: Any) -> JsonObject:
        metadata = {"name": names.CONFIG_NAME, "namespace": names.CONFIG_NAMESPACE}
        return {
            "metadata": metadata,
            "data": {key.replace("_", "-"): json.dumps(value) for key, value in data.items()},
        }

    with pytest.raises(ApiError, match=r"midCPUThresholdPercent.*is 101: allowed: 0 to 100"):
        await client.create(CONFIGMAPS, config(colocation_config={"midCPUThresholdPercent": 101}))
    entries = [{"name": key, "nodeSelector": {"matchLabels": {key: "1"}}} for key in ("x", "y")]
    with pytest.raises(ApiError, match=r"ExistNodeConfict.*exampleNodes"):
        await client.create(CONFIGMAPS, config(colocation_config={"nodeConfigs": entries}))
    await client.create(CONFIGMAPS, config(colocation_config={"enable": True}))


async def test_a_nodes_resources_are_amplified_behind_the_gate(cluster: Any) -> None:
    await start(cluster, "--feature-gates", "NodeMutatingWebhook=true,NodeValidatingWebhook=true")
    ratio = {names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO: '{"cpu":1.5}'}
    await cluster.client.create(NODES, {"metadata": {"name": "n", "annotations": ratio}})
    status = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}}
    await cluster.client.patch(NODES, "n", status, subresource="status")
    found = cluster.storage.read("", "nodes", "", "n")
    assert found["status"]["allocatable"] == {"cpu": "6", "memory": "8Gi"}
    assert json.loads(found["metadata"]["annotations"][names.ANNOTATION_RAW_ALLOCATABLE])["cpu"] == "4"
