"""Jobs against the real API server."""

from typing import Any

from koord.kube.resources import JOBS, raw

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)


def job(**spec: Any) -> JsonObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]}}
    metadata = {"name": "work", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def running(cluster: Any) -> list[JsonObject]:
    return [
        pod
        for pod in cluster.pods()
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]


def status(cluster: Any) -> JsonObject:
    return (cluster.read(JOBS, "work") or {}).get("status") or {}


def has_condition(cluster: Any, name: str) -> bool:
    return any(entry["type"] == name for entry in status(cluster).get("conditions") or ())


async def test_a_job_completes_after_its_completions_with_bounded_parallelism(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    most = 0
    await cluster.client.create(JOBS, job(completions=5, parallelism=2))
    for done in range(5):
        await cluster.until(lambda done=done: len(running(cluster)) == min(2, 5 - done))
        most = max(most, len(running(cluster)))
        await kubelet.report(running(cluster)[0], "Succeeded", exit_code=0)
    await cluster.until(lambda: has_condition(cluster, "Complete"))
    await cluster.until(lambda: not status(cluster).get("active"))
    assert status(cluster)["succeeded"] == 5
    assert status(cluster)["completionTime"]
    assert most == 2
    assert len(cluster.pods()) == 5


async def test_an_evicted_pod_is_replaced_at_once_and_counts_as_failed(cluster: Any) -> None:
    cluster.kubelet(holds=True)
    await cluster.client.create(JOBS, job(completions=2, parallelism=2))
    await cluster.until(lambda: len(running(cluster)) == 2)
    victim = running(cluster)[0]["metadata"]["name"]
    await cluster.client.evict(victim, "default")
    await cluster.until(lambda: len(running(cluster)) == 2)
    assert victim not in {pod["metadata"]["name"] for pod in running(cluster)}
    await cluster.until(lambda: status(cluster).get("failed") == 1)


async def test_too_many_failures_fail_the_job_and_end_its_other_pods(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    await cluster.client.create(JOBS, job(parallelism=2, completions=2, backoffLimit=0))
    await cluster.until(lambda: len(running(cluster)) == 2)
    await kubelet.report(running(cluster)[0], "Failed", exit_code=1)
    await cluster.until(lambda: has_condition(cluster, "Failed"))
    condition = next(entry for entry in status(cluster)["conditions"] if entry["type"] == "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    await cluster.until(lambda: not running(cluster))
    assert status(cluster)["failed"] >= 1


async def test_an_indexed_job_gives_each_pod_its_index_and_runs_each_index_once(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    await cluster.client.create(JOBS, job(completions=3, parallelism=3, completionMode="Indexed"))
    await cluster.until(lambda: len(running(cluster)) == 3)
    variables = [pod["spec"]["containers"][0]["env"][0]["value"] for pod in running(cluster)]
    assert sorted(variables) == ["0", "1", "2"]
    for pod in running(cluster):
        await kubelet.report(pod, "Succeeded", exit_code=0)
    await cluster.until(lambda: has_condition(cluster, "Complete"))
    assert status(cluster)["completedIndexes"] == "0-2"
    assert len(cluster.pods()) == 3


async def test_suspending_a_job_removes_its_pods_and_resuming_makes_new_ones(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(JOBS, job(parallelism=2, completions=2))
    await cluster.until(lambda: len(running(cluster)) == 2)
    await cluster.client.patch(JOBS, "work", {"spec": {"suspend": True}}, namespace="default")
    await cluster.until(lambda: not cluster.pods())
    await cluster.client.patch(JOBS, "work", {"spec": {"suspend": False}}, namespace="default")
    await cluster.until(lambda: len(running(cluster)) == 2)


async def test_pods_of_a_deleted_job_are_not_held_back_by_the_tracking_finalizer(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(JOBS, job(parallelism=2, completions=2))
    await cluster.until(lambda: len(running(cluster)) == 2)
    await cluster.client.delete(JOBS, "work", "default")
    for pod in cluster.pods():
        await cluster.client.delete(PODS, pod["metadata"]["name"], "default")
    await cluster.until(lambda: not cluster.pods())


async def test_a_deadline_fails_the_job(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(JOBS, job(activeDeadlineSeconds=1))
    await cluster.until(lambda: has_condition(cluster, "Failed"))
    assert any(entry["reason"] == "DeadlineExceeded" for entry in status(cluster)["conditions"])
