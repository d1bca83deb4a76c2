"""The agent as the process it is: against a real API over HTTPS and the real cgroups of this machine."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from koord import crds
from koord.api.qos import KubeQoS
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_METRICS, NODE_SLOS, NODES, PODS
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.server import ADMIN, ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.kubeconfig import make_credentials, render_kubeconfig, server_context

Tree = Any  # RealTree of conftest, which importlib mode does not let us import
NODE = "worker"
UID_LS, UID_BATCH = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
SPEC = {"requests": {"kubernetes.io/batch-cpu": "500"}, "limits": {"kubernetes.io/batch-cpu": "1k"}}
DEADLINE_S = 20.0


class Cluster:
    """An API server with one node, its pods and its NodeSLO; `stop` and `start` keep port and content."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._credentials = make_credentials("127.0.0.1")
        self._storage = Storage()
        self._kinds = builtin_kinds()
        self._chain = AdmissionChain(self._storage)
        self._port = 0
        self.client: Client
        self._server: ApiServer

    async def start(self) -> None:
        tokens = {self._credentials.token: ADMIN}
        self._server = ApiServer(self._storage, self._kinds, self._chain, tokens=tokens)
        self._port = await self._server.start(port=self._port, ssl_context=server_context(self._credentials))

    async def stop(self) -> None:
        await self._server.stop()

    async def fill(self) -> None:
        self.kubeconfig.write_text(render_kubeconfig(self._credentials, f"https://127.0.0.1:{self._port}"))
        self.client = await connect(str(self.kubeconfig))
        for definition in crds.load():
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.client.patch(NODES, NODE, status, subresource="status")

    async def slo(self, **strategy: Any) -> None:
        block = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cfsQuota", **strategy}
        body = {"metadata": {"name": NODE}, "spec": {"resourceUsedThresholdWithBE": block}}
        await self.client.create(NODE_SLOS, {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", **body})

    async def pod(self, name: str, qos: str, **metadata: Any) -> str:
        """A running pod of the node; returns the uid that its cgroup must carry."""
        requests = {"requests": {"cpu": "10m"}} if qos == "LS" else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"koordinator.sh/qosClass": qos}, **metadata},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none", "resources": requests}]},
        }
        made = await self.client.create(PODS, body, "default")
        return made.metadata.uid

    async def run_pod(self, name: str, container_id: str) -> None:
        statuses = [{"name": "main", "containerID": f"sandbox://{container_id}", "image": "none", "imageID": ""}]
        for one in statuses:
            one.update(ready=True, restartCount=0, state={})  # type: ignore[call-overload]
        status = {"status": {"phase": "Running", "containerStatuses": statuses}}
        await self.client.patch(PODS, name, status, namespace="default", subresource="status")

    async def close(self) -> None:
        await self.client.close()
        await self.stop()
        await self._chain.close()


@pytest.fixture
async def cluster(tree: Tree, tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    await cluster.start()
    try:
        await cluster.fill()
        yield cluster
    finally:
        await cluster.close()


class Run:
    """One run of `python -m koordlet`."""

    def __init__(self, cluster: Cluster, tree: Tree, folder: Path) -> None:
        self.log = folder / "log"
        self.flags = ["--kubeconfig", str(cluster.kubeconfig), "--node-name", NODE, "--cgroup-parent", tree.parent]
        self.flags += ["--state-dir", str(folder / "state"), "--health-port", "0", "--min-report-interval-s", "1"]
        self.flags += ["--cycle-s", "0.5"]
        self.process: asyncio.subprocess.Process

    async def start(self, *more: str) -> None:
        with self.log.open("w") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "koordlet", *self.flags, *more, stderr=log
            )

    async def end(self, number: int) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.process.wait()

    def lines(self, message: str) -> list[dict[str, Any]]:
        parsed = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in parsed if message in line["message"]]

    async def get(self, path: str) -> tuple[int, str]:
        port = self.lines("health and metrics are served")[0]["port"]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, await response.text()


@pytest.fixture
async def run(cluster: Cluster, tree: Tree, tmp_path: Path) -> AsyncIterator[Run]:
    run = Run(cluster, tree, tmp_path)
    yield run
    await run.end(signal.SIGKILL)


async def until(condition: Callable[[], Any], run: Run) -> Any:
    """The first true answer; the agent's log when there is none in time."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if found := condition():
            return found
        if run.process.returncode is not None:
            break
        await asyncio.sleep(0.02)
    pytest.fail(f"not in time; the agent said: {run.log.read_text()[-3000:]}")


def quota(tree: Tree) -> int:
    return int(tree.get(tree.best_effort, "cpu", "cpu.cfs_quota_us"))


def shares(tree: Tree, group: str) -> int:
    return int(tree.get(group, "cpu", "cpu.shares"))


async def populate(cluster: Cluster, tree: Tree) -> tuple[str, str]:
    """An LS pod that asked for 10m and a batch pod, running; returns their cgroups."""
    uid = await cluster.pod("service", "LS")
    tree.put(tree.burstable, "cpu", "cpu.shares", "10")
    service = tree.pod(KubeQoS.BURSTABLE, uid, shares=10)
    spec = {"node.koordinator.sh/extended-resource-spec": json.dumps({"containers": {"main": SPEC}})}
    uid = await cluster.pod("batch", "BE", annotations=spec)
    batch = tree.pod(KubeQoS.BEST_EFFORT, uid)
    await cluster.run_pod("batch", f"{uid}-c0")
    await cluster.slo()
    return service, batch


async def test_the_agent_protects_limits_reports_and_restores(cluster: Cluster, tree: Tree, run: Run) -> None:
    service, batch = await populate(cluster, tree)
    process = tree.run(f"{service}/{Path(service).name.removeprefix('pod')}-c0")
    await run.start()
    await until(lambda: quota(tree) > 0 and shares(tree, tree.burstable) >= 512, run)
    await until(lambda: shares(tree, batch) == 512, run)
    line = run.lines("control files changed")[0]
    assert {"strategy", "decision", "changes"} <= line.keys()
    suppressed = next(one for one in run.lines("control files changed") if one["strategy"] == "suppress")
    assert {"limit_milli", "protected_pods_milli", "system_milli"} <= suppressed["decision"]["budget"].keys()

    metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": NODE}}
    policy = {"reportIntervalSeconds": 1, "aggregateDurationSeconds": 60}
    await cluster.client.create(NODE_METRICS, {**metric, "spec": {"metricCollectPolicy": policy}})
    end = time.monotonic() + DEADLINE_S
    while not (reported := (await cluster.client.get(NODE_METRICS, NODE)).status).pods_metric:
        assert time.monotonic() < end, run.log.read_text()[-3000:]
        await asyncio.sleep(0.1)
    assert [one.name for one in reported.pods_metric] == ["batch", "service"]
    assert [one.qos for one in reported.pods_metric] == ["BE", "LS"]
    assert [one.priority for one in reported.pods_metric] == ["koord-batch", "koord-prod"]
    assert reported.node_metric is not None
    assert reported.node_metric.node_usage.resources["cpu"] != "0"
    assert reported.update_time is not None

    assert (await run.get("/healthz"))[0] == 200
    assert await run.get("/readyz") == (200, (await run.get("/readyz"))[1])
    text = (await run.get("/metrics"))[1]
    for name in ("koordlet_node_used_cpu_cores", "koordlet_be_suppress_cpu_cores", "koordlet_strategy_healthy"):
        assert name in text
    assert _resident_mb(run.process.pid) < 80

    assert await run.end(signal.SIGTERM) == 0
    assert quota(tree) == -1
    assert (shares(tree, tree.burstable), shares(tree, service), shares(tree, batch)) == (10, 10, 2)
    tree.end(process)


async def test_the_next_start_undoes_what_a_killed_agent_left(cluster: Cluster, tree: Tree, run: Run) -> None:
    service, batch = await populate(cluster, tree)
    await run.start()
    await until(lambda: quota(tree) > 0 and shares(tree, batch) == 512, run)
    await run.end(signal.SIGKILL)
    assert quota(tree) > 0, "nobody was there to undo it"
    await cluster.client.delete(NODE_SLOS, NODE)
    await run.start()
    await until(lambda: run.lines("was not stopped in order"), run)
    await until(lambda: quota(tree) == -1 and shares(tree, tree.burstable) == 10, run)
    await until(lambda: shares(tree, batch) == 512, run)
    await run.end(signal.SIGKILL)
    await run.start("--restore")
    assert await run.process.wait() == 0
    assert (shares(tree, batch), shares(tree, service)) == (2, 10)


async def test_restore_refuses_while_an_agent_runs(cluster: Cluster, tree: Tree, run: Run, tmp_path: Path) -> None:
    await populate(cluster, tree)
    await run.start()
    await until(lambda: quota(tree) > 0, run)
    other = Run(cluster, tree, tmp_path)
    other.log = tmp_path / "other"
    await other.start("--restore")
    assert await other.process.wait() == 1
    assert "another koordlet" in other.log.read_text()
    assert quota(tree) > 0
    await run.end(signal.SIGTERM)


async def test_it_goes_on_with_what_it_knows_while_the_api_server_is_away(
    cluster: Cluster, tree: Tree, run: Run
) -> None:
    service, _ = await populate(cluster, tree)
    await run.start()
    await until(lambda: quota(tree) > 0 and shares(tree, tree.burstable) >= 512, run)
    raised = shares(tree, tree.burstable)
    await cluster.stop()
    tree.put(tree.burstable, "cpu", "cpu.shares", "10")
    tree.put(tree.best_effort, "cpu", "cpu.cfs_quota_us", "-1")
    await until(lambda: quota(tree) > 0 and shares(tree, tree.burstable) == raised, run)
    await cluster.start()
    await cluster.client.delete(NODE_SLOS, NODE)
    await until(lambda: quota(tree) == -1 and shares(tree, tree.burstable) == 10, run)
    assert shares(tree, service) == 10
    await run.end(signal.SIGTERM)


async def test_it_waits_for_kubelets_cgroups_and_says_so(cluster: Cluster, tree: Tree, run: Run) -> None:
    run.flags[run.flags.index(tree.parent)] = f"{tree.parent}/nowhere"
    await run.start()
    await until(lambda: run.lines("kubelet's cgroup is missing"), run)
    status, text = await run.get("/readyz")
    assert status == 503
    assert "--cgroup-parent" in text
    assert run.process.returncode is None
    assert await run.end(signal.SIGTERM) == 0


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
