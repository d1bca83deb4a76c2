"""One demo from start to end: the cluster up, the objects applied, the phases run, everything gone again."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from sandbox.demo import manifests
from sandbox.demo.accounting import Accountant
from sandbox.demo.cgroup_values import of_this_machine, why_not_writable
from sandbox.demo.cluster_process import ClusterProcess, command_to_end
from sandbox.demo.cluster_view import ClusterView, NotInTime, as_result
from sandbox.demo.components import COMPONENTS, Workplace, free_port
from sandbox.demo.experiment import Experiment, Instruments
from sandbox.demo.kubectl import Kubectl, find_kubectl
from sandbox.demo.machine import describe
from sandbox.demo.plan import Plan
from sandbox.demo.result import DemoResult, PhaseName, Pod, Restart, Round
from sandbox.demo.sampler import Sampler
from sandbox.demo.screen import Screen
from sandbox.demo.service import calibrate
from sandbox.demo.stand_in import keep_reporting

T = TypeVar("T")
OFFER_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A cluster that runs on after the demo."""

    kubeconfig: Path
    logs: Path
    end_command: str


@dataclass(slots=True)
class _Found:
    """What a run has found so far."""

    rounds: list[Round] = field(default_factory=list)
    discarded: list[Round] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)


class Session:
    """Runs one demo. `run` leaves nothing behind however it ends, unless told to keep the cluster."""

    def __init__(self, plan: Plan, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self._origin_s = time.monotonic()
        self._values = of_this_machine()
        self._why_not = why_not_writable(self._values)
        self._accountant = Accountant(self._values) if self._values and not self._why_not else None
        self._pids: dict[str, int] = {}
        self._found = _Found()

    async def run(self, *, keep: bool = False) -> tuple[DemoResult, Kept | None]:
        """The demo's result, and the cluster if it was to be kept and all went well.

        Raises KubectlMissing, KubectlFailed, ClusterFailed, NotInTime, LoadFailed.
        """
        binary = find_kubectl()
        place = Workplace(Path(tempfile.mkdtemp(prefix="koord-demo-")))
        cluster = ClusterProcess(place.root, self._take_start)
        kept = None
        try:
            if self._why_not:
                self._screen.note(f"cannot measure: {self._why_not}; running the control plane alone")
            self._screen.note("starting a cluster on this machine: API server, binder, node; then Koord")
            await cluster.start(confined=not self._why_not)
            self._screen.note(f"the cluster is up, kubeconfig {place.kubeconfig}")
            kubectl = Kubectl(binary, place.kubeconfig, place.folder("kubectl"))
            result = await _unless_failed(cluster.failure, self._in_cluster(cluster, place, kubectl, keep=keep))
            if keep:
                cluster.keep()
                kept = Kept(place.kubeconfig, place.logs, command_to_end(cluster.pid))
            return result, kept
        finally:
            if kept is None:
                await cluster.stop()
                shutil.rmtree(place.root, ignore_errors=True)

    def _take_start(self, component: str, pid: int, at_s: float, reason: str) -> None:
        self._pids[component] = pid
        if reason:
            self._found.restarts.append(Restart(component, at_s - self._origin_s, reason))
            self._screen.note(f"{component} {reason}: started again as process {pid}")
        else:
            self._screen.note(f"{component} is ready")
        if self._accountant is not None:
            self._accountant.component_pids = tuple(self._pids[name] for name in COMPONENTS if name in self._pids)

    async def _in_cluster(
        self, cluster: ClusterProcess, place: Workplace, kubectl: Kubectl, *, keep: bool
    ) -> DemoResult:
        parent = cluster.cgroup_parent
        machine = describe(self._values)
        async with ClusterView(place.kubeconfig) as view:
            sampler = Sampler(
                view,
                self._accountant,
                self._values,
                parent,
                cpus=machine.cpus,
                origin_s=self._origin_s,
                on_sample=self._screen.sample,
            )
            tasks = [asyncio.create_task(sampler.run())]
            if self._accountant is None:
                tasks.append(asyncio.create_task(keep_reporting(view)))
            try:
                port = await self._apply(kubectl, view)
                experiment = None
                if self._accountant is not None and self._values is not None:
                    self._accountant.cluster_pids = (cluster.pid,)
                    self._accountant.own_pids = (os.getpid(),)
                    tools = Instruments(
                        place=place,
                        kubectl=kubectl,
                        view=view,
                        accountant=self._accountant,
                        values=self._values,
                        sampler=sampler,
                        cgroup_parent=parent,
                        service_port=port,
                        cpus=machine.cpus,
                        origin_s=self._origin_s,
                    )
                    experiment = Experiment(self._plan, tools, self._screen.note)
                    await self._measure(experiment, keep=keep)
                else:
                    await self._control_plane_only(kubectl, view, place, machine.cpus)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            sampler.record()  # a run without measurements may be over before the next sample is due
            kubectl_version = await kubectl.get_version()
        found = self._found
        return DemoResult(
            measured=experiment is not None,
            why_not_measured=self._why_not,
            machine=machine,
            seed=self._plan.seed,
            rps=self._plan.rps,
            rounds=tuple(found.rounds),
            discarded_rounds=tuple(found.discarded),
            step=experiment.step if experiment else None,
            samples=tuple(sampler.samples),
            restarts=tuple(found.restarts),
            pods=tuple(found.pods),
            generator_scheduling=experiment.generator_scheduling if experiment else "",
            took_s=time.monotonic() - self._origin_s,
            versions={"koord": _own_version(), "kubectl": kubectl_version},
        )

    async def _apply(self, kubectl: Kubectl, view: ClusterView) -> int:
        """Apply profile, configuration and the service, wait for batch-cpu; returns the service's port."""
        plan, note = self._plan, self._screen.note
        await kubectl.apply(manifests.cluster_objects(plan.policy))
        note("kubectl applied the ClusterColocationProfile and slo-controller-config")
        port, iterations = free_port(), calibrate(plan.cpu_ms)
        await kubectl.create([manifests.service_pod(port, iterations)])
        (service,) = await view.wait_ready(manifests.SERVICE_NAMESPACE, 1)
        self._found.pods.append(as_result(service))
        note(f"the service is ready: {iterations} hashes ({plan.cpu_ms:g} ms of CPU) per request")
        wanted = manifests.executor_count(os.cpu_count() or 1) * manifests.EXECUTOR_CPU_MILLI
        try:
            await view.wait_until(
                lambda: (view.batch_cpu_milli() or 0) >= wanted,
                f"the node offers {wanted} of batch-cpu",
                OFFER_DEADLINE_S,
                lambda: f"it offers {view.batch_cpu_milli()}",
            )
        except NotInTime as late:
            # Foreign load takes the room: a single executor will do, and the rounds are marked as noisy.
            if (view.batch_cpu_milli() or 0) < manifests.EXECUTOR_CPU_MILLI:
                raise NotInTime(f"{late}: other processes use this machine; run the demo when it is idle") from late
            note(f"going on: {late}")
        note(f"the node offers batch-cpu {view.batch_cpu_milli()}")
        return port

    async def _measure(self, experiment: Experiment, *, keep: bool) -> None:
        found = self._found
        found.rounds, found.discarded = await experiment.rounds()
        found.pods += experiment.batch_pods.values()
        if keep:
            await experiment.start_batch(PhaseName.KOORD)

    async def _control_plane_only(self, kubectl: Kubectl, view: ClusterView, place: Workplace, cpus: int) -> None:
        """Create the executors in both namespaces and see them bound."""
        count = manifests.executor_count(cpus)
        for namespace in (manifests.KOORD_NAMESPACE, manifests.PLAIN_NAMESPACE):
            await kubectl.create(manifests.executor_pods(namespace, count, place.work))
            pods = await view.wait_ready(namespace, count)
            self._found.pods.append(as_result(pods[0]))
            self._screen.note(f"{count} executors are bound in {namespace}: {pods[0].status.qos_class}")


async def _unless_failed(failure: asyncio.Future[None], work: Awaitable[T]) -> T:
    """The result of the work, or the failure's exception if it comes first."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, failure), return_when=asyncio.FIRST_COMPLETED)
        if failure.done():
            failure.result()
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _own_version() -> str:
    try:
        return version("koord")
    except PackageNotFoundError:
        return "unknown"
