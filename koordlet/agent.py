"""The node agent's loops: each cycle measures, lets every strategy decide, writes; a faster one only cuts.

A strategy that fails keeps its files as they are for this cycle and stops no other. Nothing here decides.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from koord.api.qos import KubeQoS
from koordlet import metrics, telling
from koordlet.batching import BatchResources
from koordlet.conditions import Conditions
from koordlet.node import KernelNode, online_cpus
from koordlet.protection import Protection
from koordlet.sampling.load import Load
from koordlet.sampling.sampler import CycleSample
from koordlet.settings import Settings
from koordlet.snapshot import Facts, PodHere, Snapshot
from koordlet.strategy import Proposal, Strategy
from koordlet.suppress.fastpath import fast_step
from koordlet.suppress.strategy import Suppression
from koordlet.suppress.tick import TickLimits
from koordlet.sysfs.changes import Applied, Owner, Wish
from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.knobs import Knob

logger = logging.getLogger("koord.koordlet.agent")

FRESH_CYCLES = 2
PROCESSORS_EVERY_S = 60.0


class Agent:
    """One node's decisions and writes. Use from one event loop only."""

    def __init__(self, settings: Settings, node: KernelNode, facts: Facts, conditions: Conditions) -> None:
        self._settings = settings
        self._node = node
        self._facts = facts
        self._conditions = conditions
        limits = TickLimits(FRESH_CYCLES * settings.cycle_s, settings.stale_after_s)
        self.suppression = Suppression(node.executor, limits)
        self.protection = Protection(node.executor)
        self.batch = BatchResources(node.executor)
        self._strategies: list[Strategy] = [self.suppression, self.protection, self.batch]
        self._sampled_at_s: float | None = None
        self._turn_before: Load | None = None
        self._processors_at_s = time.monotonic()
        self.pods: list[PodHere] = []
        """The pods of the last cycle."""
        self._wake = asyncio.Event()
        self.cycled_at_s = time.monotonic()

    # Loops

    async def run_cycles(self) -> None:
        """Cycle for ever, at a fixed rate; a pod's cgroup that appears brings the next cycle forward."""
        interval = self._settings.cycle_s
        due = time.monotonic()
        while True:
            with self._guard("cycle"):
                self.cycle(time.monotonic())
            self._wake.clear()
            due = max(due + interval, time.monotonic() + interval / 2)
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + due - time.monotonic()):
                    await self._wake.wait()
            except TimeoutError:
                continue
            due = time.monotonic()

    async def run_fast(self) -> None:
        """Look for steps of load and new pods for ever."""
        interval = self._settings.fast_cycle_s
        while True:
            await asyncio.sleep(interval)
            with self._guard("fast path"):
                self.look(time.monotonic())

    # One turn

    def cycle(self, now_s: float) -> Applied:
        """Measure, decide, apply. `now_s` is the monotonic clock."""
        began = time.perf_counter()
        self._node.executor.begin_cycle()
        snapshot = self._observe(now_s)
        proposals: dict[Owner, Proposal] = {}
        for strategy in self._strategies:
            with self._guard(f"strategy {strategy.owner}", strategy.owner):
                proposal = strategy.propose(snapshot)
                if proposal is not None:
                    proposals[strategy.owner] = proposal
        applied = self._apply(proposals)
        telling.cycle(self._settings.node_name, snapshot, self.suppression, self.protection)
        self.cycled_at_s = time.monotonic()
        metrics.CYCLE_SECONDS.observe(time.perf_counter() - began)
        return applied

    def look(self, now_s: float) -> None:
        """The fast path's turn."""
        if self._node.discovery.is_changed():
            self._wake.set()
        baseline = self.suppression.baseline
        if baseline is None:
            return
        before, self._turn_before = self._turn_before, self._node.fast.turn(now_s)
        load = self._turn_before
        if load is None:
            return
        group = self._best_effort_dir
        reading = self._node.executor.current(group, Knob.QUOTA)
        if reading is None or not isinstance(reading.value, int):
            return
        step = fast_step(baseline, load, reading.value, before)
        if step is None:
            return
        applied = self._node.executor.apply_one(Owner.SUPPRESS, Wish(group, Knob.QUOTA, step.quota_us))
        metrics.FAST_CUTS.inc(len(applied.changed))
        telling.changes(applied, {Owner.SUPPRESS: {"step": step, "load": load, "baseline": baseline}})

    @property
    def _best_effort_dir(self) -> str:
        return self._node.layout.class_dir(KubeQoS.BEST_EFFORT)

    # Observe

    def _observe(self, now_s: float) -> Snapshot:
        node, facts = self._node, self._facts
        try:
            groups = node.discovery.refresh()
        except Unsupported as error:
            self._conditions.ill("cgroups", str(error))
            groups = []
        else:
            self._conditions.well("cgroups")
        if now_s - self._processors_at_s > PROCESSORS_EVERY_S:
            self._processors_at_s = now_s
            node.processors = online_cpus(self._settings.devices_root)
        sample = node.sampler.sample(now_s, groups, self._best_effort_dir)
        self._note_sample(now_s, sample)
        self.pods = [PodHere(group, facts.pod_of(group.uid), sample.pods.get(group.group)) for group in groups]
        return Snapshot(
            now_s=now_s,
            layout=node.layout,
            is_v2=node.mounts.is_v2,
            pods=self.pods,
            listed_pods=len(facts.pods()),
            node=facts.node,
            slo=facts.slo,
            policy=facts.policy,
            sample=sample,
            sample_age_s=None if self._sampled_at_s is None else now_s - self._sampled_at_s,
            processors=node.processors,
            load=node.fast.mark(now_s),
        )

    def _note_sample(self, now_s: float, sample: CycleSample) -> None:
        if sample.node_cpu_cores is not None:
            self._sampled_at_s = now_s
        metrics.SAMPLE_ERRORS.inc(len(sample.node_errors) + len(sample.pod_errors))
        for error in sample.pod_errors:
            self._conditions.remark(error)
        if sample.node_errors:
            self._conditions.ill("sampling", sample.node_errors[0])
        else:
            self._conditions.well("sampling")

    # Apply

    def _apply(self, proposals: dict[Owner, Proposal]) -> Applied:
        executor = self._node.executor
        began = time.perf_counter()
        applied = Applied()
        with self._guard("control files"):
            applied = executor.apply({owner: proposal.wishes for owner, proposal in proposals.items()})
        metrics.UPDATE_MILLISECONDS.observe(1000 * (time.perf_counter() - began))
        metrics.JOURNAL_ENTRIES.set(len(executor.journal.entries))
        telling.changes(applied, {owner: proposal.decision for owner, proposal in proposals.items()})
        if applied.failed:
            self._conditions.ill("writing", applied.failed[0].error)
        elif not executor.is_pausing:
            self._conditions.well("writing")
        if applied.not_permitted:
            self._conditions.ill("permission", applied.not_permitted[0])
        elif applied.changed:
            self._conditions.well("permission")
        for text in applied.unsupported:
            self._conditions.remark(text)
        return applied

    @contextmanager
    def _guard(self, name: str, strategy: str = "") -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logger.exception("%s failed", name)
            self._conditions.ill(name, f"{type(error).__name__}: {error}")
            if strategy:
                metrics.STRATEGY_FAILURES.labels(strategy).inc()
                metrics.STRATEGY_HEALTHY.labels(strategy).set(0)
        else:
            self._conditions.well(name)
            if strategy:
                metrics.STRATEGY_HEALTHY.labels(strategy).set(1)
