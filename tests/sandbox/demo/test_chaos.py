"""Every process of a running demo is killed with SIGKILL: the loop closes again, and nothing is lost or left."""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from koord.api import names
from sandbox.demo import manifests
from sandbox.demo.cgroup_values import of_this_machine, pod_path, qos_path, why_not_writable
from sandbox.demo.cluster_process import ClusterFailed, ClusterProcess
from sandbox.demo.cluster_view import ClusterView
from sandbox.demo.components import COMPONENTS, Workplace, component_specs, free_port, sandbox_spec
from sandbox.demo.executor import read_counter
from sandbox.demo.kubectl import Kubectl, find_kubectl
from sandbox.demo.supervisor import Supervisor

VALUES = of_this_machine()
WHY_NOT = why_not_writable(VALUES)
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "cgroups can be written")

RECOVERY_S = 45.0
EXECUTORS = 2


async def eventually(condition, what, timeout_s=RECOVERY_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.05)


class Colocation:
    """A cluster in which the service and some executors run."""

    def __init__(self, place, view, kubectl, parent, pids):
        self.place = place
        self.view = view
        self.kubectl = kubectl
        self.parent = parent
        self.pids = pids
        self.best_effort = qos_path(parent, "BestEffort")

    async def deploy(self):
        await self.kubectl.apply(manifests.cluster_objects(manifests.Policy()))
        await self.kubectl.create([manifests.service_pod(free_port(), 1)])
        await self.view.wait_ready(manifests.SERVICE_NAMESPACE, 1, 60)
        await self.kubectl.create(manifests.executor_pods(manifests.KOORD_NAMESPACE, EXECUTORS, self.place.work))
        await self.view.wait_ready(manifests.KOORD_NAMESPACE, EXECUTORS, 60)
        await eventually(self.is_governed, "koordlet governs the best-effort cgroup")

    def is_governed(self):
        """koordlet has capped best-effort work, which the kubelet never does."""
        return self.quota() is not None and VALUES.weight(self.best_effort) == 2

    def quota(self):
        return VALUES.quota_cpus(self.best_effort)

    def identities(self):
        """Each pod with its restarts: a pod that was lost, replaced or restarted would differ."""
        return {
            (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, status.restart_count)
            for namespace in (manifests.SERVICE_NAMESPACE, manifests.KOORD_NAMESPACE)
            for pod in self.view.ready_pods(namespace)
            for status in pod.status.container_statuses
        }

    async def kill(self, component):
        """SIGKILL, then wait until another process stands in."""
        old = self.pids[component]
        os.kill(old, signal.SIGKILL)
        await eventually(lambda: self.pids[component] != old, f"{component} is started again")


@pytest.fixture
async def colocation(machine_state):
    place = Workplace(Path(tempfile.mkdtemp(prefix="koord-demo-")))
    pids = {}
    cluster = ClusterProcess(place.root, lambda name, pid, *_: pids.update({name: pid}))
    try:
        await cluster.start(confined=True)
        kubectl = Kubectl(find_kubectl(), place.kubeconfig, place.folder("kubectl"))
        async with ClusterView(place.kubeconfig) as view:
            colocation = Colocation(place, view, kubectl, cluster.cgroup_parent, pids)
            await colocation.deploy()
            yield colocation
    finally:
        await cluster.stop()
    machine_state.wait_unchanged()


async def test_killed_components_come_back_the_loop_closes_and_no_pod_is_lost(colocation):
    before = colocation.identities()
    assert len(before) == 1 + EXECUTORS

    await colocation.kill("webhook")
    await check_admission(colocation)

    await colocation.kill("manager")
    await check_overcommit(colocation)

    await colocation.kill("koordlet")
    await check_suppression(colocation)

    await asyncio.gather(*map(colocation.kill, COMPONENTS))
    await check_overcommit(colocation)
    await check_suppression(colocation)
    await check_admission(colocation)

    assert colocation.identities() >= before
    work = [read_counter(path) for path in sorted(colocation.place.work.glob("*/*"))]
    await eventually(
        lambda: all(
            read_counter(path) > done
            for path, done in zip(sorted(colocation.place.work.glob("*/*")), work, strict=True)
        ),
        "every executor goes on working",
    )


async def check_admission(colocation):
    """New pods are mutated again; while the webhook was away the API server let them in as they were."""
    probe = manifests.executor_pods(manifests.KOORD_NAMESPACE, 1, colocation.place.work)[0]
    probe["metadata"]["name"] = "probe"
    deadline = time.monotonic() + RECOVERY_S
    while True:
        await colocation.kubectl.create([probe])
        pod = await colocation.kubectl.get("pod", "probe", "--namespace", manifests.KOORD_NAMESPACE)
        await colocation.kubectl.run(
            "delete", "pod", "probe", "--namespace", manifests.KOORD_NAMESPACE, "--grace-period=0", "--force"
        )
        if names.BATCH_CPU in pod["spec"]["containers"][0]["resources"].get("requests", {}):
            return
        assert time.monotonic() < deadline, pod
        await asyncio.sleep(0.1)


async def check_overcommit(colocation):
    """The manager computes anew: batch-cpu that somebody took away comes back."""
    patch = f'[{{"op": "remove", "path": "/status/allocatable/{names.BATCH_CPU.replace("/", "~1")}"}}]'
    await colocation.kubectl.run("patch", "node", "this-machine", "--subresource=status", "--type=json", "-p", patch)
    await eventually(lambda: colocation.view.batch_cpu_milli(), "batch-cpu is offered again")


async def check_suppression(colocation):
    """koordlet decides anew: when somebody lifts the limit, it is set again."""
    await eventually(colocation.is_governed, "the best-effort cgroup is governed again")
    VALUES.quota_file(colocation.best_effort).write_text("-1" if VALUES.version == 1 else "max 100000")
    await eventually(colocation.is_governed, "the quota is decided anew")


async def test_a_killed_sandbox_ends_the_demo_with_a_clear_error_and_nothing_left(machine_state):
    place = Workplace(Path(tempfile.mkdtemp(prefix="koord-demo-")))
    pids = {}
    cluster = ClusterProcess(place.root, lambda name, pid, *_: pids.update({name: pid}))
    try:
        await cluster.start(confined=True)
        kubectl = Kubectl(find_kubectl(), place.kubeconfig, place.folder("kubectl"))
        async with ClusterView(place.kubeconfig) as view:
            await Colocation(place, view, kubectl, cluster.cgroup_parent, pids).deploy()
        os.kill(pids["sandbox"], signal.SIGKILL)
        with pytest.raises(ClusterFailed, match="sandbox was killed by SIGKILL"):
            await asyncio.wait_for(cluster.failure, 30)
    finally:
        await cluster.stop()
    machine_state.wait_unchanged(40)


async def test_koordlet_gives_every_value_back_even_after_it_was_killed(machine_state):
    """koordlet under a supervisor of its own, so that it alone can be stopped."""
    place = Workplace(Path(tempfile.mkdtemp(prefix="koord-demo-")))
    place.prepare()
    parent, pids = f"koord-demo-test-{os.getpid()}", {}
    rest = Supervisor(place.logs, lambda event: pids.update({event.name: event.pid}))
    agent = Supervisor(place.logs, lambda event: pids.update({event.name: event.pid}))
    webhook, manager, koordlet = component_specs(place, parent, confined=True)
    try:
        await rest.start(sandbox_spec(place, parent, os.cpu_count(), confined=True))
        for spec in (webhook, manager):
            await rest.start(spec)
        kubectl = Kubectl(find_kubectl(), place.kubeconfig, place.folder("kubectl"))
        async with ClusterView(place.kubeconfig) as view:
            await agent.start(koordlet)
            colocation = Colocation(place, view, kubectl, parent, pids)
            await colocation.deploy()
            governed = control_values(colocation)
            await colocation.kill("koordlet")
            await check_suppression(colocation)
            await agent.stop()
            restored = control_values(colocation)
            assert restored != governed
            assert restored == kubelet_values(colocation)
    finally:
        await agent.stop()
        await rest.stop()
        for path in sorted(place.root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        place.root.rmdir()
    machine_state.wait_unchanged()


def control_values(colocation):
    """(weight, quota) of the QoS directories and of each pod."""
    paths = [colocation.best_effort, qos_path(colocation.parent, "Burstable")]
    for namespace in (manifests.SERVICE_NAMESPACE, manifests.KOORD_NAMESPACE):
        paths += [
            pod_path(colocation.parent, pod.status.qos_class, pod.metadata.uid)
            for pod in colocation.view.pods(namespace)
        ]
    return {str(path): (VALUES.weight(path), VALUES.quota_cpus(path)) for path in paths}


def kubelet_values(colocation):
    """What the kubelet's rules give: shares by native requests, 2 without, no quota without limits."""
    shares = manifests.SERVICE_CPU_MILLI * 1024 // 1000
    weights = {"burstable": shares, "besteffort": 2}
    return {path: (weights[path.split("/kubepods/")[1].split("/")[0]], None) for path in control_values(colocation)}
