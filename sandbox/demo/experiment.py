"""The phases of the demo: creates and removes the batch pods with kubectl, runs the load, takes the windows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sandbox.demo import manifests
from sandbox.demo.accounting import Accountant, CpuTimes, use_between
from sandbox.demo.cgroup_values import CgroupValues, qos_path
from sandbox.demo.cluster_view import ClusterView, NotInTime, as_result
from sandbox.demo.components import Workplace
from sandbox.demo.executor import read_counter
from sandbox.demo.kubectl import Kubectl
from sandbox.demo.load import generator_cpus, latencies_ms, start_load
from sandbox.demo.loadgen import LoadResult
from sandbox.demo.noise import NoiseLimits, choose_rounds, judge
from sandbox.demo.plan import Plan
from sandbox.demo.quota_watch import QuotaWatch, as_steps, first_cut_s
from sandbox.demo.result import LoadStep, Phase, PhaseName, Pod, Round
from sandbox.demo.sampler import Sampler
from sandbox.demo.statistics import percentile, windows

NAMESPACES = {PhaseName.PLAIN: manifests.PLAIN_NAMESPACE, PhaseName.KOORD: manifests.KOORD_NAMESPACE}
EXECUTORS = f"{manifests.APP_LABEL}={manifests.EXECUTOR_APP}"
STEP_WINDOW_S = 0.5


@dataclass(frozen=True, slots=True)
class Instruments:
    """What a measured experiment works with."""

    place: Workplace
    kubectl: Kubectl
    view: ClusterView
    accountant: Accountant
    values: CgroupValues
    sampler: Sampler
    cgroup_parent: str
    service_port: int
    cpus: int
    origin_s: float


class Experiment:
    """Runs rounds; `note` is told what goes on, in sentences."""

    def __init__(self, plan: Plan, with_: Instruments, note: Callable[[str], None]) -> None:
        self._plan = plan
        self._with = with_
        self._note = note
        self._executors = manifests.executor_count(with_.cpus)
        self.step: LoadStep | None = None
        self.generator_scheduling = ""
        self.batch_pods: dict[PhaseName, Pod] = {}

    async def rounds(self) -> tuple[list[Round], list[Round]]:
        """(rounds that count, rounds discarded): as many as planned, more when foreign load met some."""
        plan, limits, done = self._plan, NoiseLimits(), list[Round]()
        while len(done) < plan.rounds + plan.extra_rounds:
            quiet = sum(not item.noise for item in done)
            if quiet >= plan.rounds:
                break
            item = judge(await self._round(len(done) + 1), limits)
            done.append(item)
            for reason in item.noise:
                self._note(f"round {len(done)} is noisy: {reason}")
        return choose_rounds(done, plan.rounds)

    async def _round(self, number: int) -> Round:
        alone = await self._phase(PhaseName.ALONE, number)
        async with self.batch(PhaseName.KOORD):
            koord = await self._phase(PhaseName.KOORD, number)
            if self.step is None:
                self.step = await self._load_step()
        async with self.batch(PhaseName.PLAIN):
            plain = await self._phase(PhaseName.PLAIN, number)
        return Round(alone, plain, koord)

    @asynccontextmanager
    async def batch(self, name: PhaseName) -> AsyncIterator[None]:
        """The executors of a phase, from created and ready to deleted and gone.

        After an error they stay: the whole cluster ends then.
        """
        tools, namespace = self._with, NAMESPACES[name]
        await self.start_batch(name)
        tools.sampler.point_accountant()
        await asyncio.sleep(self._plan.settle_s)
        yield
        await tools.kubectl.delete_pods(namespace, EXECUTORS, grace_s=1)

    async def start_batch(self, name: PhaseName) -> None:
        """Create the executors of a phase with kubectl and wait until all are ready.

        Foreign load makes the node offer less: then those that found room must do.
        """
        tools, namespace = self._with, NAMESPACES[name]
        await tools.kubectl.create(manifests.executor_pods(namespace, self._executors, tools.place.work))
        try:
            pods = await tools.view.wait_ready(namespace, self._executors)
        except NotInTime as late:
            pods = tools.view.ready_pods(namespace)
            if not pods:
                raise
            self._note(f"going on with {len(pods)} executors: {late}")
        self.batch_pods.setdefault(name, as_result(pods[0]))

    async def _phase(self, name: PhaseName, number: int) -> Phase:
        plan, tools = self._plan, self._with
        load = await start_load(
            tools.service_port, plan.phase_load(), plan.round_seed(number), tools.values.root_procs()
        )
        try:
            began_s, ended_s = load.start_s + plan.warm_s, load.start_s + plan.warm_s + plan.measure_s
            before, work_before = await self._read_at(began_s)
            after, work_after = await self._read_at(ended_s)
            result = await load.finish()
        finally:
            await load.abort()
        self.generator_scheduling = result.scheduling
        latencies = latencies_ms(result, plan.warm_s, plan.warm_s + plan.measure_s)
        phase = Phase(
            name=name,
            began_s=began_s - tools.origin_s,
            cpu=use_between(before, after, tools.cpus, generator_cpus(result)),
            p50_ms=percentile(latencies, 50),
            p99_ms=percentile(latencies, 99),
            requests=len(latencies),
            errors=result.errors,
            batch_work=work_after - work_before,
            latencies_ms=tuple(latencies),
        )
        self._note(
            f"round {number}, {name}: p50 {phase.p50_ms:.2f} ms, p99 {phase.p99_ms:.2f} ms, "
            f"CPU use {100 * phase.cpu.use_ratio:.0f} %, batch {phase.cpu.batch:.2f} CPU"
        )
        return phase

    async def _read_at(self, moment_s: float) -> tuple[CpuTimes, int]:
        await asyncio.sleep(max(0.0, moment_s - time.monotonic()))
        return self._with.accountant.take(), self._work()

    def _work(self) -> int:
        counters = self._with.place.work.glob("*/*")
        return sum(read_counter(path) for path in counters)

    async def _load_step(self) -> LoadStep:
        """Beside the running batch pods: the load steps up, and the quota is watched."""
        plan, tools = self._plan, self._with
        watch = QuotaWatch(
            tools.values.quota_file(qos_path(tools.cgroup_parent, "BestEffort")),
            tools.values.period_us(qos_path(tools.cgroup_parent, "BestEffort")),
        )
        load = await start_load(tools.service_port, plan.step_load(), plan.round_seed(0), tools.values.root_procs())
        watch.start()
        try:
            result = await load.finish()
        finally:
            changes = await watch.stop()
            await load.abort()
        step_s = load.start_s + plan.step_before_s
        cut_s = first_cut_s(changes, step_s, tools.cpus)
        step = LoadStep(
            began_s=step_s - tools.origin_s,
            from_rps=plan.step_from_rps,
            to_rps=plan.step_to_rps,
            reaction_ms=None if cut_s is None else cut_s * 1000,
            quota=tuple(as_steps(changes, load.start_s, step_s + plan.step_after_s, step_s)),
            p99=tuple(_windows_around_step(result, plan.step_before_s)),
            requests=len(result.latency_us),
        )
        self._note(
            f"load step {step.from_rps:g} -> {step.to_rps:g} requests/s: "
            + (f"quota cut after {step.reaction_ms:.0f} ms" if step.reaction_ms is not None else "no quota cut")
        )
        return step


def _windows_around_step(result: LoadResult, step_s: float) -> list[tuple[float, float]]:
    moments = [scheduled / 1e6 for scheduled in result.scheduled_us]
    latencies = [latency / 1000 for latency in result.latency_us]
    return [(at - step_s, p99) for at, p99 in windows(moments, latencies, STEP_WINDOW_S, 99)]
