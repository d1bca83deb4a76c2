"""Evictions over HTTPS, with budgets that are true at this moment."""

import asyncio
from typing import Any

import pytest

from koord.kube.errors import ApiError, Conflict, NotFound, TooManyRequests
from koord.kube.resources import PDBS, REPLICA_SETS, raw

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)


def replica_set(replicas: int) -> JsonObject:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def budget(name: str = "web", **spec: Any) -> JsonObject:
    spec.setdefault("selector", {"matchLabels": {"app": "web"}})
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def running_pods(cluster: Any, number: int, *, ready: bool = True) -> list[JsonObject]:
    """Pods of a ReplicaSet that no controller looks after, running on a node."""
    owner = await cluster.client.create(REPLICA_SETS, replica_set(number))
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    kubelet = cluster.kubelet(holds=True)
    for index in range(number):
        metadata = {
            "name": f"web-{index}",
            "namespace": "default",
            "labels": {"app": "web"},
            "ownerReferences": [reference],
        }
        spec = {"containers": [{"name": "c", "image": "x:1"}]}
        await cluster.client.create(PODS, {"metadata": metadata, "spec": spec})
    await cluster.until(lambda: [pod["status"]["phase"] for pod in cluster.pods()] == ["Running"] * number)
    if not ready:
        for pod in cluster.pods():
            await kubelet.report(pod, "Running", ready=False)
    pods: list[JsonObject] = cluster.pods()
    return pods


def leaving(cluster: Any) -> int:
    return sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in cluster.pods())


async def test_a_budget_refuses_with_429_and_says_what_it_needs(cluster: Any) -> None:
    await running_pods(cluster, 3)
    await cluster.client.create(PDBS, budget(maxUnavailable=1))
    await cluster.client.evict("web-0", "default")
    with pytest.raises(TooManyRequests) as refusal:
        await cluster.client.evict("web-1", "default")
    assert refusal.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refusal.value.retry_after_s == 0
    assert "DisruptionBudget" in refusal.value.causes
    assert leaving(cluster) == 1


async def test_of_many_evictions_at_once_only_as_many_pass_as_the_budget_allows(cluster: Any) -> None:
    await running_pods(cluster, 10)
    await cluster.client.create(PDBS, budget(minAvailable="70%"))
    results = await asyncio.gather(
        *(cluster.client.evict(f"web-{index}", "default") for index in range(10)), return_exceptions=True
    )
    assert sum(result is None for result in results) == 3
    assert sum(isinstance(result, TooManyRequests) for result in results) == 7
    assert leaving(cluster) == 3


async def test_an_evicted_pod_carries_the_disruption_target_condition(cluster: Any) -> None:
    await running_pods(cluster, 1)
    await cluster.client.evict("web-0", "default")
    conditions = {entry["type"]: entry for entry in cluster.pods()[0]["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"


async def test_two_budgets_over_one_pod_answer_500(cluster: Any) -> None:
    await running_pods(cluster, 3)
    for name in ("one", "two"):
        await cluster.client.create(PDBS, budget(name, maxUnavailable=3))
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as refusal:
        await cluster.client.evict("web-0", "default")
    assert refusal.value.status == 500
    assert leaving(cluster) == 0


async def test_a_dry_run_asks_the_budget_and_changes_nothing(cluster: Any) -> None:
    await running_pods(cluster, 2)
    await cluster.client.create(PDBS, budget(maxUnavailable=1))
    for _ in range(3):
        await cluster.client.evict("web-0", "default", dry_run=True)
    assert leaving(cluster) == 0
    await cluster.client.evict("web-0", "default")
    with pytest.raises(TooManyRequests):
        await cluster.client.evict("web-1", "default", dry_run=True)


async def test_another_uid_is_a_conflict_and_a_missing_pod_is_not_found(cluster: Any) -> None:
    pods = await running_pods(cluster, 1)
    with pytest.raises(Conflict):
        await cluster.client.evict("web-0", "default", uid="other")
    with pytest.raises(NotFound):
        await cluster.client.evict("nobody", "default")
    await cluster.client.evict("web-0", "default", uid=pods[0]["metadata"]["uid"])
    assert leaving(cluster) == 1


async def test_pending_and_finished_pods_need_no_budget(small_cluster: Any) -> None:
    cluster = small_cluster
    await cluster.client.create(PDBS, budget(minAvailable=5))
    for name in ("waiting", "done"):
        metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
        spec = {"containers": [{"name": "c", "image": "x:1"}], "nodeName": "n"}
        await cluster.client.create(PODS, {"metadata": metadata, "spec": spec})
    await cluster.client.patch(
        PODS, "done", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
    )
    await cluster.client.evict("done", "default")
    await cluster.client.evict("waiting", "default")
    assert cluster.read(PODS, "done") is None
    assert cluster.read(PODS, "waiting")["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("policy", "least", "passes"),
    [("AlwaysAllow", 2, True), ("IfHealthyBudget", 2, False), (None, 2, False), ("IfHealthyBudget", 1, True)],
)
async def test_pods_that_are_not_ready_go_by_the_unhealthy_pod_policy(
    cluster: Any, policy: str | None, least: int, passes: bool
) -> None:
    pods = await running_pods(cluster, 2, ready=True)
    sick = pods[0]
    await cluster.client.patch(
        PODS,
        sick["metadata"]["name"],
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        namespace="default",
        subresource="status",
    )
    extra = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    await cluster.client.create(PDBS, budget(minAvailable=least, **extra))
    if passes:
        await cluster.client.evict(sick["metadata"]["name"], "default")
    else:
        with pytest.raises(TooManyRequests):
            await cluster.client.evict(sick["metadata"]["name"], "default")
    assert leaving(cluster) == int(passes)


async def test_a_budget_whose_scale_cannot_be_known_allows_nothing_and_says_so(cluster: Any) -> None:
    metadata = {
        "name": "web-0",
        "namespace": "default",
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "u", "controller": True}
        ],
    }
    cluster.kubelet(holds=True)
    # Made by hand: nothing collects the pod between its creation and the eviction.
    cluster.storage.create(
        ("", "pods"),
        {
            "metadata": {**metadata, "uid": "p", "finalizers": ["example.com/hold"]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )
    await cluster.client.create(PDBS, budget(maxUnavailable=1))
    with pytest.raises(TooManyRequests):
        await cluster.client.evict("web-0", "default")


async def test_the_status_of_a_budget_follows_its_pods(cluster: Any) -> None:
    await running_pods(cluster, 3)
    await cluster.client.create(PDBS, budget(maxUnavailable=1))

    def status() -> JsonObject:
        found: JsonObject = cluster.read(PDBS, "web")["status"]
        return {
            key: found.get(key) for key in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        }

    def is_now(expected: int, desired: int, healthy: int, allowed: int) -> bool:
        return list(status().values()) == [expected, desired, healthy, allowed]

    await cluster.until(lambda: is_now(3, 2, 3, 1))
    await cluster.client.evict("web-0", "default")
    await cluster.until(lambda: is_now(3, 2, 2, 0))
    conditions = cluster.read(PDBS, "web")["status"]["conditions"]
    assert conditions[0]["reason"] == "InsufficientPods"
    assert cluster.read(PDBS, "web")["status"]["observedGeneration"] == 1
