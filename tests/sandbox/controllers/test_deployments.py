"""Deployments and ReplicaSets against the real API server."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from koord.kube.resources import DEPLOYMENTS, PRIORITY_CLASSES, REPLICA_SETS, raw

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)
KUBECTL = Path(sys.executable).parent / "kubectl"


def deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
            **spec,
        },
    }


def living(cluster: Any) -> list[JsonObject]:
    return [pod for pod in cluster.pods() if not pod["metadata"].get("deletionTimestamp")]


def is_complete(cluster: Any, replicas: int) -> bool:
    status = (cluster.read(DEPLOYMENTS, "web") or {}).get("status") or {}
    generation = cluster.read(DEPLOYMENTS, "web")["metadata"]["generation"]
    return (
        status.get("observedGeneration") == generation
        and status.get("updatedReplicas") == status.get("replicas") == status.get("availableReplicas") == replicas
    )


async def kubectl(cluster: Any, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL), *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.kubeconfig.parent)},
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_a_deployment_becomes_available_and_kubectl_sees_the_rollout_end(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(DEPLOYMENTS, deployment())
    await cluster.until(lambda: is_complete(cluster, 3))
    output = await kubectl(cluster, "rollout", "status", "deployment/web", "--timeout=20s")
    assert "successfully rolled out" in output
    conditions = {entry["type"]: entry for entry in cluster.read(DEPLOYMENTS, "web")["status"]["conditions"]}
    assert conditions["Available"]["reason"] == "MinimumReplicasAvailable"
    assert conditions["Progressing"]["reason"] == "NewReplicaSetAvailable"


async def test_an_evicted_pod_comes_back_at_once_while_the_old_one_still_terminates(cluster: Any) -> None:
    cluster.kubelet(holds=True)
    await cluster.client.create(DEPLOYMENTS, deployment())
    await cluster.until(lambda: is_complete(cluster, 3))
    victim = living(cluster)[0]["metadata"]["name"]
    await cluster.client.evict(victim, "default")
    await cluster.until(lambda: len(living(cluster)) == 3)
    assert victim not in {pod["metadata"]["name"] for pod in living(cluster)}
    assert len(cluster.pods()) == 4


async def test_a_rolling_update_keeps_within_surge_and_unavailability(cluster: Any) -> None:
    cluster.kubelet()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await cluster.client.create(DEPLOYMENTS, deployment(6, strategy=strategy))
    await cluster.until(lambda: is_complete(cluster, 6))
    counts: list[tuple[int, int]] = []

    def watch(event: object) -> None:
        wanted = [rs["spec"]["replicas"] for rs in cluster.storage.read_all("apps", "replicasets")]
        ready = sum(
            rs["status"].get("availableReplicas", 0) for rs in cluster.storage.read_all("apps", "replicasets")
        )
        counts.append((sum(wanted), ready))

    cluster.storage.listen(("apps", "replicasets"), watch)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    await cluster.client.patch(DEPLOYMENTS, "web", patch, namespace="default")
    await cluster.until(lambda: cluster.read(DEPLOYMENTS, "web")["metadata"]["generation"] > 1)
    await cluster.until(lambda: is_complete(cluster, 6))
    assert max(total for total, _ in counts) <= 7
    assert min(ready for _, ready in counts) >= 5
    assert {pod["spec"]["containers"][0]["image"] for pod in living(cluster)} == {"web:2"}
    annotations = cluster.read(DEPLOYMENTS, "web")["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "2"


async def test_undo_goes_back_to_the_old_replica_set_under_a_new_revision(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(DEPLOYMENTS, deployment(2))
    await cluster.until(lambda: is_complete(cluster, 2))
    await kubectl(cluster, "set", "image", "deployment/web", "web=web:2")
    await cluster.until(lambda: is_complete(cluster, 2))
    await kubectl(cluster, "rollout", "undo", "deployment/web")
    await kubectl(cluster, "rollout", "status", "deployment/web", "--timeout=20s")
    assert {pod["spec"]["containers"][0]["image"] for pod in living(cluster)} == {"web:1"}
    assert len(cluster.storage.read_all("apps", "replicasets")) == 2
    assert "3" in await kubectl(cluster, "rollout", "history", "deployment/web")


async def test_recreate_removes_all_old_pods_before_a_new_one_starts(cluster: Any) -> None:
    kubelet = cluster.kubelet(holds=True)
    await cluster.client.create(DEPLOYMENTS, deployment(2, strategy={"type": "Recreate"}))
    await cluster.until(lambda: is_complete(cluster, 2))
    await kubectl(cluster, "set", "image", "deployment/web", "web=web:2")
    await cluster.until(lambda: cluster.pods() and not living(cluster))
    assert len(cluster.storage.read_all("apps", "replicasets")) == 1
    kubelet.release.set()
    await cluster.until(lambda: is_complete(cluster, 2))
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"web:2"}


async def test_scaling_follows_the_scale_subresource_both_ways(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(DEPLOYMENTS, deployment(1))
    await cluster.until(lambda: is_complete(cluster, 1))
    for replicas in (5, 2, 0):
        await kubectl(cluster, "scale", "deployment/web", f"--replicas={replicas}")
        await cluster.until(lambda replicas=replicas: len(cluster.pods()) == replicas)
    await cluster.until(lambda: is_complete(cluster, 0))


async def test_a_rollout_that_does_not_move_exceeds_its_deadline(cluster: Any) -> None:
    cluster.kubelet(starts=lambda pod: False)
    await cluster.client.create(DEPLOYMENTS, deployment(1, progressDeadlineSeconds=1))

    def reason() -> bool:
        conditions = (cluster.read(DEPLOYMENTS, "web").get("status") or {}).get("conditions") or ()
        return any(entry["reason"] == "ProgressDeadlineExceeded" for entry in conditions)

    await cluster.until(reason)


async def test_a_refused_pod_is_told_in_the_status_and_made_once_it_is_allowed(cluster: Any) -> None:
    cluster.kubelet()
    body = deployment(1)
    body["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    await cluster.client.create(DEPLOYMENTS, body)

    def failure() -> bool:
        conditions = (cluster.read(DEPLOYMENTS, "web").get("status") or {}).get("conditions") or ()
        return any(entry["type"] == "ReplicaFailure" and "missing" in entry["message"] for entry in conditions)

    await cluster.until(failure)
    await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": "missing"}, "value": 7})
    await cluster.until(lambda: is_complete(cluster, 1))
    assert cluster.pods()[0]["spec"]["priority"] == 7
    conditions = cluster.read(DEPLOYMENTS, "web")["status"]["conditions"]
    await cluster.until(
        lambda: (
            "ReplicaFailure"
            not in {entry["type"] for entry in cluster.read(DEPLOYMENTS, "web")["status"]["conditions"]}
        ),
        str(conditions),
    )


async def test_a_replica_set_adopts_matching_orphans_and_gives_up_relabelled_pods(cluster: Any) -> None:
    cluster.kubelet()
    body = deployment(2)
    body["kind"] = "ReplicaSet"
    orphan = {
        "metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    await cluster.client.create(PODS, orphan)
    await cluster.client.create(REPLICA_SETS, body)
    await cluster.until(lambda: len(cluster.pods()) == 2)
    adopted = cluster.read(PODS, "orphan")
    assert adopted["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    await cluster.client.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}}, namespace="default")
    await cluster.until(lambda: len(cluster.pods()) == 3)
    await cluster.until(lambda: not cluster.read(PODS, "orphan")["metadata"].get("ownerReferences"))


async def test_a_hundred_pods_are_made_without_a_double(cluster: Any) -> None:
    await cluster.client.create(DEPLOYMENTS, deployment(100))
    await cluster.until(lambda: len(cluster.pods()) >= 100)
    await cluster.until(lambda: cluster.read(DEPLOYMENTS, "web")["status"].get("replicas") == 100)
    assert len(cluster.pods()) == 100
