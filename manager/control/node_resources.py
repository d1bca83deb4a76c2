"""The loop that keeps the batch, mid and device resources of every node right, and its ratios and conditions."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from koord.api.objects import Node
from koord.api.timestamps import format_rfc3339
from koord.kube.client import Client
from koord.kube.errors import Conflict, Invalid
from koord.kube.requests import JSON_PATCH, STRATEGIC_PATCH
from koord.kube.resources import NODES
from koord.slo_config import colocation
from koord.slo_config.loading import Configuration
from koord.slo_config.options import Options
from manager import metrics
from manager.control.announcing import Announcer
from manager.control.fleet_metrics import Decided
from manager.control.last_writes import LastWrites
from manager.control.node_memory import NodeMemory
from manager.control.observations import Observations
from manager.control.recording import Recording
from manager.control.strategies import Strategies
from manager.control.work_queue import GONE, Step
from manager.control.write_budget import WriteBudget
from manager.overcommit.annotations import LastOffer
from manager.overcommit.decide import NO_MEMORY, Memory, decide
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.node_patch import changes, condition_changes, condition_patch, json_patch
from manager.overcommit.report import UsageReport
from manager.overcommit.shortage import Shortage, TierName
from manager.overcommit.terms import as_log
from manager.overcommit.wanted import Wanted, node_ratios, wanted
from manager.overcommit.write_rule import WriteReason, WriteVerdict, judge

logger = logging.getLogger("koord.manager.resources")

# With a configuration that was broken from the start, published resources are left for so long, then removed:
# a restart beside a typo must not empty the cluster at once, nor may old numbers stand for ever.
UNKNOWN_CONFIG_HOLD_S: Final = 15 * 60.0
_PAST_EXPIRY_S: Final = 0.01
_CONFLICTS_AT_ONCE: Final = 3
"""Conflicting writes that are repeated at once on the node's newest state; then the queue's back-off rules."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """One look at one node."""

    facts: NodeFacts
    version: str
    decision: NodeDecision
    wanted: Wanted
    verdict: WriteVerdict
    conditions: dict[TierName, Shortage | None]

    @property
    def is_due(self) -> bool:
        """Whether anything must be written."""
        return self.verdict.write or bool(self.conditions)


class NodeResources:
    """Decides per node and writes what the write rule asks for."""

    def __init__(
        self,
        client: Client,
        observations: Observations,
        configuration: Callable[[], Configuration],
        strategies: Strategies,
        budget: WriteBudget,
        announcer: Announcer,
        identity: str = "",
        recording: Recording | None = None,
    ) -> None:
        self._client = client
        self._observations = observations
        self._configuration = configuration
        self._strategies = strategies
        self._budget = budget
        self._announcer = announcer
        self._identity = identity
        self._recording = recording
        self._started_s = time.time()
        self._writes = LastWrites(self._started_s)
        self._memories: dict[str, NodeMemory] = {}
        self._last: dict[str, NodeDecision] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._decisions = {reason: metrics.DECISIONS.labels(reason) for reason in Reason}

    def begin(self) -> None:
        """Another process may have led until now: nothing is known of the writes before."""
        self._started_s = time.time()
        self._writes = LastWrites(self._started_s)
        self._memories.clear()

    def decision(self, name: str) -> NodeDecision | None:
        """The last decision about a node."""
        return self._last.get(name)

    def decided(self) -> Iterator[Decided]:
        """The last decision of every node, with its capacity and the time of its report."""
        for name, decision in self._last.items():
            if (facts := self._observations.facts(name)) is not None:
                report = self._observations.report(name)
                yield decision, facts.capacity, None if report is None else report.updated_s

    def decide(self, name: str) -> Step:
        """Decide one node; the step writes it if that is due and asks to be called when time changes the answer."""
        if self._observations.facts(name) is None:
            self._forget(name)
            return GONE
        now_s = time.time()
        judged = self._judge(name, now_s)
        if judged is None:
            return Step(retry_after_s=max(0.0, self._started_s + UNKNOWN_CONFIG_HOLD_S - now_s) + _PAST_EXPIRY_S)
        self._take_down(judged, now_s)
        write = partial(self._write, name) if judged.is_due else None
        return Step(write, _next_look_s(judged, now_s))

    def _judge(self, name: str, now_s: float) -> _Judged | None:
        """None when the node is gone or no configuration is known."""
        facts = self._observations.facts(name)
        configuration = self._configuration()
        config = configuration.colocation
        if config is None and now_s > self._started_s + UNKNOWN_CONFIG_HOLD_S:
            config = colocation.BUILT_IN
        if facts is None or config is None:
            return None
        resolved = self._strategies.of(name, config, facts.labels, facts.strategy_annotation)
        ratios = node_ratios(
            facts,
            configuration.normalization,
            configuration.amplification,
            self._observations.cpu_info(name),
            enabled=resolved.enabled,
        )
        since_s = now_s - self._writes.at(facts, resolved.strategy.update_time_threshold_seconds, now_s)
        report, pods = self._observations.report(name), self._observations.pods_on(name)
        memory = self._recall(name, resolved.options, report, now_s, since_s)
        decision = decide(facts, report, pods, resolved, now_s, ratios.factor, memory)
        want = wanted(facts, decision, ratios, self._observations.devices(name))
        self._tell_problems(name, ratios.problems)
        return _Judged(
            facts,
            self._observations.version(name),
            decision,
            want,
            judge(facts, want, resolved.strategy, since_s),
            condition_changes(facts, decision.shortages),
        )

    def _recall(
        self, name: str, options: Options, report: UsageReport | None, now_s: float, unchanged_s: float
    ) -> Memory:
        if not (options.damping.is_on or options.peak.sigmas > 0):
            self._memories.pop(name, None)
            return NO_MEMORY
        memory = self._memories.setdefault(name, NodeMemory())
        return memory.recall(options, report, now_s, unchanged_s)

    def _take_down(self, judged: _Judged, now_s: float) -> None:
        """Remember, count and record a decision."""
        decision = judged.decision
        name = decision.node
        report = self._observations.report(name)
        memory = self._memories.get(name)
        if memory is not None and decision.calculation is not None and report is not None:
            memory.note_decision(decision, now_s)
            memory.note_usage(report, decision.calculation.sums, decision.resolved.options.peak.window_minutes)
        if self._recording is not None:
            reported_s = None if report is None else report.updated_s
            self._recording.note(decision, judged.facts.capacity, now_s, reported_s, str(judged.verdict.reason))
        before = self._last.get(name)
        self._last[name] = decision
        self._decisions[decision.reason].inc()
        if before is None or before.reason is not decision.reason:
            if before is not None:
                metrics.NODES.labels(before.reason).dec()
            metrics.NODES.labels(decision.reason).inc()
        if decision.notes and (before is None or before.notes != decision.notes):
            logger.warning("Node/%s: %s", name, "; ".join(decision.notes))

    async def _write(self, name: str) -> None:
        """Write what is right when the turn has come: while many nodes wait, reports change and expire."""
        for attempt in range(_CONFLICTS_AT_ONCE):
            await self._budget.take()
            judged = self._judge(name, time.time())
            if judged is None or not judged.is_due:
                return
            try:
                await self._apply(judged)
            except (Conflict, Invalid):
                if attempt + 1 == _CONFLICTS_AT_ONCE:
                    raise
                self._observations.note_written(await self._client.get(NODES, name))
            else:
                return

    async def _apply(self, judged: _Judged) -> None:
        decision, why = judged.decision, judged.verdict.reason
        if judged.verdict.write:
            node = await self._patch(judged)
            self._writes.note(decision.node, time.time())
            self._observations.note_written(node)
            _tell(judged)
            if why is WriteReason.DISAPPEARS and judged.verdict.resource in _OFFERED and decision.published is None:
                self._announcer.batch_removed(node, decision)
        for tier, short in judged.conditions.items():
            self._budget.check()
            patch = condition_patch(tier, short, time.time())
            node = await self._client.patch(
                NODES, decision.node, patch, subresource="status", content_type=STRATEGIC_PATCH
            )
            metrics.WRITES.labels(NODES.kind, "patch").inc()
            self._observations.note_written(node)
            self._announcer.shortage(node, tier, short)

    async def _patch(self, judged: _Judged) -> Node:
        note = LastOffer(
            at=format_rfc3339(time.time()),
            why=str(judged.verdict.reason),
            by=self._identity,
            report=_report_time(judged.decision),
        )
        found = changes(judged.facts, judged.wanted, note)
        patch, name = json_patch(judged.facts, judged.version, found), judged.decision.node
        node = await self._client.patch(NODES, name, patch, subresource="status", content_type=JSON_PATCH)
        metrics.WRITES.labels(NODES.kind, "patch").inc()
        if found.shown_by(node.metadata.annotations, node.metadata.labels):
            return node
        # A server that takes only status from the status endpoint.
        self._budget.check()
        metrics.WRITES.labels(NODES.kind, "patch").inc()
        metadata = {**found.metadata(), "resourceVersion": node.metadata.resource_version}
        return await self._client.patch(NODES, name, {"metadata": metadata})

    def _tell_problems(self, name: str, problems: tuple[str, ...]) -> None:
        if problems == self._problems.get(name, ()):
            return
        self._problems[name] = problems
        node = self._observations.node(name)
        for problem in problems:
            logger.warning("Node/%s: %s", name, problem)
            if node is not None:
                self._announcer.ratio_problem(node, problem)

    def _forget(self, name: str) -> None:
        self._strategies.forget(name)
        self._writes.forget(name)
        self._memories.pop(name, None)
        self._problems.pop(name, None)
        if self._recording is not None:
            self._recording.forget(name)
        last = self._last.pop(name, None)
        if last is not None:
            metrics.NODES.labels(last.reason).dec()


_OFFERED: Final = frozenset(("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"))


def _tell(judged: _Judged) -> None:
    before = {name: allocatable for name, (_, allocatable) in judged.facts.published.items()}
    logger.info(
        "batch resources of %s written",
        judged.decision.node,
        extra={"decision": as_log(judged.decision), "write": str(judged.verdict.reason), "before": before},
    )


def _report_time(decision: NodeDecision) -> str:
    life_s = decision.resolved.strategy.degrade_time_minutes * 60
    return "" if decision.expires_at_s is None else format_rfc3339(decision.expires_at_s - life_s)


def _next_look_s(judged: _Judged, now_s: float) -> float | None:
    """When time alone changes the answer: the report expires or decays, growth goes on, a small difference is due."""
    decision = judged.decision
    moments = []
    if decision.reason is Reason.CALCULATED and decision.expires_at_s is not None:
        moments.append(decision.expires_at_s - now_s + _PAST_EXPIRY_S)
    if decision.look_again_s is not None:
        moments.append(max(decision.look_again_s - now_s, 0.0) + _PAST_EXPIRY_S)
    if judged.verdict.retry_after_s is not None:
        moments.append(judged.verdict.retry_after_s + _PAST_EXPIRY_S)
    return min(moments, default=None)
