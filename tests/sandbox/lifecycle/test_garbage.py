"""Garbage collection, namespace deletion and pod clean-up against the real API server."""

from typing import Any

import pytest

from koord.kube.errors import Forbidden, NotFound
from koord.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, NODES, REPLICA_SETS, raw

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)
MAPS = raw("", "v1", "configmaps", "ConfigMap", True)


async def config_map(cluster: Any, name: str, *owners: JsonObject, namespace: str = "default") -> JsonObject:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    metadata = {"name": name, "namespace": namespace, "ownerReferences": references}
    made: JsonObject = await cluster.client.create(MAPS, {"metadata": metadata})
    return made


def names(cluster: Any, namespace: str = "default") -> set[str]:
    return {obj["metadata"]["name"] for obj in cluster.storage.read_all("", "configmaps", namespace)}


async def test_dependents_follow_their_owner_through_generations(cluster: Any) -> None:
    owner = await config_map(cluster, "owner")
    child = await config_map(cluster, "child", owner)
    await config_map(cluster, "grandchild", child)
    await config_map(cluster, "other")
    await cluster.client.delete(CONFIGMAPS, "owner", "default")
    await cluster.until(lambda: names(cluster) == {"other"})


async def test_a_dependent_of_two_owners_stays_until_both_are_gone_and_forgets_the_first(cluster: Any) -> None:
    one, two = await config_map(cluster, "one"), await config_map(cluster, "two")
    await config_map(cluster, "shared", one, two)
    await cluster.client.delete(CONFIGMAPS, "one", "default")

    def owners() -> list[str]:
        found = cluster.read(CONFIGMAPS, "shared")
        return [ref["name"] for ref in found["metadata"].get("ownerReferences") or ()]

    await cluster.until(lambda: owners() == ["two"])
    await cluster.client.delete(CONFIGMAPS, "two", "default")
    await cluster.until(lambda: names(cluster) == set())


async def test_foreground_deletion_keeps_the_owner_until_its_dependents_are_gone(cluster: Any) -> None:
    owner = await config_map(cluster, "owner")
    child = await config_map(cluster, "child", owner)
    await cluster.client.patch(
        CONFIGMAPS, "child", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="default"
    )
    await cluster.client.delete(CONFIGMAPS, "owner", "default", propagation="Foreground")
    await cluster.until(lambda: cluster.read(CONFIGMAPS, "child")["metadata"].get("deletionTimestamp"))
    assert cluster.read(CONFIGMAPS, "owner") is not None
    assert child["metadata"]["uid"]
    await cluster.client.patch(CONFIGMAPS, "child", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.until(lambda: names(cluster) == set())


async def test_orphaning_leaves_the_dependents_without_an_owner(cluster: Any) -> None:
    owner = await config_map(cluster, "owner")
    await config_map(cluster, "child", owner)
    await cluster.client.delete(CONFIGMAPS, "owner", "default", propagation="Orphan")
    await cluster.until(lambda: names(cluster) == {"child"})
    assert not cluster.read(CONFIGMAPS, "child")["metadata"].get("ownerReferences")


async def test_an_object_made_for_an_owner_that_never_was_is_collected(cluster: Any) -> None:
    await config_map(cluster, "lost", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
    await cluster.until(lambda: names(cluster) == set())


async def test_an_owner_of_the_same_name_and_another_uid_does_not_count(cluster: Any) -> None:
    owner = await config_map(cluster, "owner")
    await config_map(cluster, "mistaken", {"metadata": {"name": "owner", "uid": "another"}})
    await cluster.until(lambda: names(cluster) == {"owner"})
    assert owner["metadata"]["uid"]


async def test_deleting_a_deployment_takes_replica_sets_and_pods_with_it(cluster: Any) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    deployment = await cluster.client.create(
        DEPLOYMENTS, {"metadata": {"name": "d", "namespace": "default"}, "spec": spec}
    )
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment["metadata"]["uid"]}
    replica_set = await cluster.client.create(
        REPLICA_SETS, {"metadata": {"name": "d-1", "namespace": "default", "ownerReferences": [owner]}, "spec": spec}
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "d-1", "uid": replica_set["metadata"]["uid"]}
    await cluster.client.create(
        PODS,
        {
            "metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner], "labels": {"app": "x"}},
            "spec": template["spec"],
        },
    )
    await cluster.client.delete(DEPLOYMENTS, "d", "default", propagation="Foreground")
    await cluster.until(lambda: cluster.read(PODS, "p") is None and cluster.read(DEPLOYMENTS, "d") is None)


async def test_a_deleted_namespace_empties_itself_refuses_newcomers_and_goes(cluster: Any) -> None:
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "team"}})
    await config_map(cluster, "one", namespace="team")
    held = await config_map(cluster, "held", namespace="team")
    await cluster.client.patch(
        CONFIGMAPS, "held", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="team"
    )
    await cluster.client.delete(NAMESPACES, "team")
    await cluster.until(lambda: names(cluster, "team") == {"held"})
    namespace = cluster.read(NAMESPACES, "team")
    assert namespace["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await config_map(cluster, "late", namespace="team")
    await cluster.client.patch(CONFIGMAPS, "held", {"metadata": {"finalizers": None}}, namespace="team")
    await cluster.until(lambda: cluster.read(NAMESPACES, "team") is None)
    assert held["metadata"]["uid"]
    with pytest.raises(NotFound):
        await config_map(cluster, "later", namespace="team")


async def test_pods_of_a_node_that_is_gone_fail_and_go(cluster: Any) -> None:
    await cluster.client.create(NODES, {"metadata": {"name": "n1"}})
    metadata = {"name": "p", "namespace": "default", "finalizers": ["example.com/hold"]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x:1"}]}
    await cluster.client.create(PODS, {"metadata": metadata, "spec": spec})
    await cluster.client.delete(NODES, "n1")
    await cluster.until(lambda: cluster.read(PODS, "p")["metadata"].get("deletionTimestamp"))
    status = cluster.read(PODS, "p")["status"]
    assert status["phase"] == "Failed"
    assert {entry["reason"] for entry in status["conditions"] if entry["type"] == "DisruptionTarget"} == {
        "DeletionByPodGC"
    }
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.until(lambda: cluster.read(PODS, "p") is None)


async def test_a_node_that_registers_again_in_time_keeps_its_pods(cluster: Any) -> None:
    await cluster.client.create(NODES, {"metadata": {"name": "n1"}})
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x:1"}]}
    for name in ("stays", "witness"):
        await cluster.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await cluster.client.delete(NODES, "n1")
    await cluster.client.create(NODES, {"metadata": {"name": "n1"}})
    await cluster.client.create(
        PODS,
        {"metadata": {"name": "lost", "namespace": "default"}, "spec": {**spec, "nodeName": "never-was"}},
    )
    await cluster.until(lambda: cluster.read(PODS, "lost") is None)
    assert {pod["metadata"]["name"] for pod in cluster.pods()} == {"stays", "witness"}
