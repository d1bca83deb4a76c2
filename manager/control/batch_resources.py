"""The loop that keeps the batch resources of every node right."""

import contextlib
import logging
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

from koord.api import names
from koord.api.objects import Node
from koord.kube.client import Client
from koord.kube.resources import NODES
from koord.slo_config import colocation
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.loading import Configuration
from manager import metrics
from manager.control.announcing import Announcer
from manager.control.observations import Observations
from manager.control.strategies import Strategies
from manager.control.work_queue import GONE, Step
from manager.control.write_budget import WriteBudget
from manager.overcommit.decide import decide
from manager.overcommit.decision import NO_BATCH, BatchDecision, Reason
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.node_patch import metadata_patch, origin_is_current, status_patch
from manager.overcommit.write_rule import WriteReason, WriteVerdict, judge

logger = logging.getLogger("koord.manager.batch")

# With a configuration that was broken from the start, published resources are left for so long, then removed:
# a restart beside a typo must not empty the cluster at once, nor may old numbers stand for ever.
UNKNOWN_CONFIG_HOLD_S: Final = 15 * 60.0
_PAST_EXPIRY_S: Final = 0.01


class BatchResources:
    """Decides per node and writes what the write rule asks for."""

    def __init__(
        self,
        client: Client,
        observations: Observations,
        configuration: Callable[[], Configuration],
        strategies: Strategies,
        budget: WriteBudget,
        announcer: Announcer,
    ) -> None:
        self._client = client
        self._observations = observations
        self._configuration = configuration
        self._strategies = strategies
        self._budget = budget
        self._announcer = announcer
        self._started_s = time.time()
        self._last_write_s: dict[str, float] = {}
        self._last: dict[str, BatchDecision] = {}
        self._decisions = {reason: metrics.DECISIONS.labels(reason) for reason in Reason}

    def begin(self) -> None:
        """Another process may have led until now: nothing is known of the writes before."""
        self._started_s = time.time()
        self._last_write_s.clear()

    def decision(self, name: str) -> BatchDecision | None:
        """The last decision about a node, for explanations."""
        return self._last.get(name)

    def decide(self, name: str) -> Step:
        """Decide one node; the step writes it if that is due and asks to be called when time changes the answer."""
        facts = self._observations.facts(name)
        if facts is None:
            self._forget(name)
            return GONE
        now_s = time.time()
        config = self._config(now_s)
        if config is None:
            return Step(retry_after_s=max(0.0, self._started_s + UNKNOWN_CONFIG_HOLD_S - now_s) + _PAST_EXPIRY_S)
        decision, verdict = self._judged(facts, config, now_s)
        self._count(decision)
        write = partial(self._write, name) if verdict.write else None
        return Step(write, _next_look_s(decision, verdict, now_s))

    def _judged(self, facts: NodeFacts, config: ColocationConfig, now_s: float) -> tuple[BatchDecision, WriteVerdict]:
        name = facts.name
        resolved = self._strategies.of(name, config, facts.labels, facts.strategy_annotation)
        report, pods = self._observations.report(name), self._observations.pods_on(name)
        decision = decide(facts, report, pods, resolved, now_s)
        interval_s = resolved.strategy.update_time_threshold_seconds
        return decision, judge(facts, decision, now_s - self._last_write(name, interval_s))

    def _config(self, now_s: float) -> ColocationConfig | None:
        config = self._configuration().colocation
        if config is None and now_s > self._started_s + UNKNOWN_CONFIG_HOLD_S:
            return colocation.BUILT_IN
        return config

    def _last_write(self, name: str, interval_s: float) -> float:
        """The last write by this process; before the first one a moment of the last interval that is spread over
        the nodes, so that a restart does not write them all in one second."""
        last = self._last_write_s.get(name)
        if last is None:
            spread = zlib.crc32(name.encode()) / 2**32
            last = self._last_write_s[name] = self._started_s - interval_s * spread
        return last

    async def _write(self, name: str) -> None:
        """Write what is right when the turn has come: while many nodes wait, reports change and expire."""
        await self._budget.take()
        now_s = time.time()
        facts, config = self._observations.facts(name), self._config(now_s)
        if facts is None or config is None:
            return
        decision, verdict = self._judged(facts, config, now_s)
        if not verdict.write:
            return
        node = await self._patch(facts, decision)
        self._last_write_s[name] = time.time()
        self._observations.note_written(node)
        _tell(facts, decision, verdict.reason)
        if verdict.reason is WriteReason.DISAPPEARS:
            self._announcer.batch_removed(node, decision)

    async def _patch(self, facts: NodeFacts, decision: BatchDecision) -> Node:
        node = await self._client.patch(NODES, facts.name, status_patch(facts, decision), subresource="status")
        metrics.WRITES.labels("Node", "patch").inc()
        if origin_is_current(facts, decision):
            return node
        annotation = metadata_patch(facts, decision)
        wanted = annotation["metadata"]["annotations"][names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE]
        if node.metadata.annotations.get(names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE) == wanted:
            return node
        # A server that takes only status from the status endpoint.
        metrics.WRITES.labels("Node", "patch").inc()
        return await self._client.patch(NODES, facts.name, annotation)

    def _count(self, decision: BatchDecision) -> None:
        name = decision.node
        before = self._last.get(name)
        self._last[name] = decision
        self._decisions[decision.reason].inc()
        if before is None or before.reason is not decision.reason:
            if before is not None:
                metrics.NODES.labels(before.reason).dec()
            metrics.NODES.labels(decision.reason).inc()
        if before is None or before.published != decision.published:
            cpu_milli, memory_bytes = decision.published or NO_BATCH
            metrics.BATCH_CPU.labels(name).set(cpu_milli / 1000)
            metrics.BATCH_MEMORY.labels(name).set(memory_bytes)
        if decision.notes and (before is None or before.notes != decision.notes):
            logger.warning("Node/%s: %s", name, "; ".join(decision.notes))
        report = self._observations.report(name)
        if report is not None and report.updated_s is not None:
            metrics.REPORT_TIME.labels(name).set(report.updated_s)

    def _forget(self, name: str) -> None:
        self._strategies.forget(name)
        self._last_write_s.pop(name, None)
        last = self._last.pop(name, None)
        if last is not None:
            metrics.NODES.labels(last.reason).dec()
            for gauge in (metrics.BATCH_CPU, metrics.BATCH_MEMORY, metrics.REPORT_TIME):
                with contextlib.suppress(KeyError):
                    gauge.remove(name)


def _tell(facts: NodeFacts, decision: BatchDecision, why: WriteReason) -> None:
    before = {name: allocatable for name, (_, allocatable) in facts.published.items()}
    logger.info(
        "batch resources of %s written",
        decision.node,
        extra={"decision": decision.as_log(), "write": str(why), "before": before},
    )


def _next_look_s(decision: BatchDecision, verdict: WriteVerdict, now_s: float) -> float | None:
    """When time alone changes the answer: the report expires, or a small difference becomes due."""
    moments = []
    if decision.reason is Reason.CALCULATED and decision.expires_at_s is not None:
        moments.append(decision.expires_at_s - now_s + _PAST_EXPIRY_S)
    if verdict.retry_after_s is not None:
        moments.append(verdict.retry_after_s + _PAST_EXPIRY_S)
    return min(moments, default=None)
