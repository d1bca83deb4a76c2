"""The workload controllers as clients of a real API server, in place of kube-controller-manager.

Skipped where there is none; `make kubernetes` builds one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.resources import DAEMON_SETS, DEPLOYMENTS, JOBS, Resource, raw
from sandbox.controllers.informers import STATEFUL_SETS
from sandbox.controllers.workloads import WorkloadControllers
from tests.kubernetes.control_plane import ControlPlane, find_assets

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)
NODES = raw("", "v1", "nodes", "Node", False)
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """etcd and API server, no controllers."""
    assets, why = find_assets()
    if assets is None:
        pytest.skip(f"no real API server: {why}")
    with ControlPlane(assets, programs=("etcd", "kube-apiserver")) as plane:
        account = {"metadata": {"name": "default"}}
        assert plane.api("POST", "/api/v1/namespaces/default/serviceaccounts", account)[0] in (201, 409)
        yield plane


@pytest.fixture
async def client(
    plane: ControlPlane, make_kubelet: Callable[[Client], Any], no_open_sockets: None
) -> AsyncIterator[Client]:
    """A client, with our controllers and a kubelet at work."""
    async with await connect(str(plane.kubeconfig)) as client:
        controllers = WorkloadControllers(client)
        tasks = [asyncio.ensure_future(work) for work in (controllers.run(), make_kubelet(client).run())]
        await controllers.wait_ready()
        yield client
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := await condition()):
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.05)
    return found


async def status_of(client: Client, resource: Resource[JsonObject], name: str) -> JsonObject:
    found = await client.get(resource, name, "default")
    status: JsonObject = found.get("status") or {}
    return status


async def pods_of(client: Client, name: str, phase: str = "Running") -> list[JsonObject]:
    page = await client.list(PODS, "default", label_selector=f"app={name}")
    return [
        pod for pod in page.items if pod["status"]["phase"] == phase and not pod["metadata"].get("deletionTimestamp")
    ]


def workload(kind: str, name: str, image: str = "web:1", **spec: Any) -> JsonObject:
    template: JsonObject = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": name}}
    return {"kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **spec}}


async def test_a_deployment_rolls_out_updates_and_heals(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload("Deployment", "web", replicas=3))

    async def is_complete() -> bool:
        found = await client.get(DEPLOYMENTS, "web", "default")
        status = found.get("status") or {}
        return (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("updatedReplicas") == status.get("replicas") == status.get("availableReplicas") == 3
        )

    await until(is_complete)
    victim = (await pods_of(client, "web"))[0]["metadata"]["name"]
    await client.evict(victim, "default")

    async def has_healed() -> bool:
        names = {pod["metadata"]["name"] for pod in await pods_of(client, "web")}
        return len(names) == 3 and victim not in names

    await until(has_healed)
    body = workload("Deployment", "web", "web:2", replicas=3)
    await client.patch(DEPLOYMENTS, "web", {"spec": body["spec"]}, namespace="default")

    async def is_updated() -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in await pods_of(client, "web")]
        return images == ["web:2"] * 3 and await is_complete()

    await until(is_updated)
    found = await client.get(DEPLOYMENTS, "web", "default")
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    conditions = {entry["type"]: entry["reason"] for entry in found["status"]["conditions"]}
    assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}


async def test_a_job_replaces_an_evicted_pod_and_completes(
    client: Client, make_kubelet: Callable[[Client], Any]
) -> None:
    await client.create(JOBS, workload("Job", "batch", completions=3, parallelism=2))

    async def two_run() -> bool:
        return len(await pods_of(client, "batch")) == 2

    await until(two_run)
    await client.evict((await pods_of(client, "batch"))[0]["metadata"]["name"], "default")

    async def is_counted() -> bool:
        return (await status_of(client, JOBS, "batch")).get("failed") == 1

    await until(is_counted)
    kubelet = make_kubelet(client)

    async def is_done() -> bool:
        for pod in await pods_of(client, "batch"):
            await kubelet.report(pod, "Succeeded", exit_code=0)
        conditions = (await status_of(client, JOBS, "batch")).get("conditions") or ()
        return any(entry["type"] == "Complete" for entry in conditions)

    await until(is_done)
    assert (await status_of(client, JOBS, "batch"))["succeeded"] == 3


async def test_daemon_and_stateful_sets_place_their_pods(client: Client) -> None:
    for name in ("a", "b"):
        await client.create(NODES, {"metadata": {"name": name}, "spec": {"taints": []}})
        # A new node is tainted as not ready until a controller finds it ready.
        await client.patch(NODES, name, {"spec": {"taints": None}})
    await client.create(DAEMON_SETS, workload("DaemonSet", "agent"))

    async def two_daemons() -> bool:
        return (await status_of(client, DAEMON_SETS, "agent")).get("numberAvailable") == 2

    await until(two_daemons)
    await client.create(STATEFUL_SETS, workload("StatefulSet", "db", replicas=2, serviceName="db"))

    async def two_members() -> bool:
        return (await status_of(client, STATEFUL_SETS, "db")).get("availableReplicas") == 2

    await until(two_members)
    assert sorted(pod["metadata"]["name"] for pod in await pods_of(client, "db")) == ["db-0", "db-1"]
