"""The loop that keeps the batch resources of every node right."""

import contextlib
import logging
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

from koord.api import names
from koord.kube.client import Client
from koord.kube.resources import NODES
from manager import metrics
from manager.config import colocation
from manager.config.colocation import ColocationConfig
from manager.config.loading import Configuration
from manager.control.announcing import Announcer
from manager.control.observations import Observations
from manager.control.strategies import Strategies
from manager.control.work_queue import GONE, Step
from manager.control.write_budget import WriteBudget
from manager.overcommit.decide import decide
from manager.overcommit.decision import BatchDecision, Reason
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
        resolved = self._strategies.of(name, config, facts.labels, facts.strategy_annotation)
        report = self._observations.report(name)
        decision = decide(facts, report, self._observations.pods_on(name), resolved, now_s)
        self._count(decision)
        interval_s = resolved.strategy.update_time_threshold_seconds
        verdict = judge(facts, decision, now_s - self._last_write(name, interval_s))
        retry_after_s = _next_look_s(decision, verdict, now_s)
        if not verdict.write:
            return Step(retry_after_s=retry_after_s)
        return Step(partial(self._write, facts, decision, verdict.reason), retry_after_s)

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

    async def _write(self, facts: NodeFacts, decision: BatchDecision, why: WriteReason) -> None:
        await self._budget.take()
        node = await self._client.patch(NODES, facts.name, status_patch(facts, decision), subresource="status")
        metrics.WRITES.labels("Node", "patch").inc()
        self._last_write_s[facts.name] = time.time()
        annotation = metadata_patch(facts, decision)
        wanted = annotation["metadata"]["annotations"][names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE]
        written = node.metadata.annotations.get(names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE)
        if written != wanted and not origin_is_current(facts, decision):
            # A server that takes only status from the status endpoint.
            node = await self._client.patch(NODES, facts.name, annotation)
            metrics.WRITES.labels("Node", "patch").inc()
        self._observations.note_written(node)
        _tell(facts, decision, why)
        if why is WriteReason.DISAPPEARS:
            self._announcer.batch_removed(node, decision)

    def _count(self, decision: BatchDecision) -> None:
        name = decision.node
        before = self._last.get(name)
        self._last[name] = decision
        metrics.DECISIONS.labels(decision.reason).inc()
        if before is None or before.reason is not decision.reason:
            if before is not None:
                metrics.NODES.labels(before.reason).dec()
            metrics.NODES.labels(decision.reason).inc()
        if before is None or before.published != decision.published:
            _show_gauges(decision)
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


def _show_gauges(decision: BatchDecision) -> None:
    cpu_milli, memory_bytes = decision.published or (0, 0)
    metrics.BATCH_CPU.labels(decision.node).set(cpu_milli / 1000)
    metrics.BATCH_MEMORY.labels(decision.node).set(memory_bytes)


def _next_look_s(decision: BatchDecision, verdict: WriteVerdict, now_s: float) -> float | None:
    """When time alone changes the answer: the report expires, or a small difference becomes due."""
    moments = []
    if decision.reason is Reason.CALCULATED and decision.expires_at_s is not None:
        moments.append(decision.expires_at_s - now_s + _PAST_EXPIRY_S)
    if verdict.retry_after_s is not None:
        moments.append(verdict.retry_after_s + _PAST_EXPIRY_S)
    return min(moments, default=None)
