"""The loop that keeps the batch amounts of every NodeResourceTopology's zones in line with its node's."""

import logging
import time
from functools import partial
from typing import Any

from koord.api.topology import NodeResourceTopology
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import NODE_RESOURCE_TOPOLOGIES
from koord.kube.store import Store
from manager import metrics
from manager.control.node_resources import NodeResources
from manager.control.observations import Observations
from manager.control.work_queue import GONE, NOTHING, Step
from manager.control.write_budget import WriteBudget
from manager.overcommit.amounts import Offer
from manager.overcommit.zone_patch import ZoneWrite, read_zones, zone_write
from manager.overcommit.zones import offered_by_zones

logger = logging.getLogger("koord.manager.zones")

_PAST_DUE_S = 0.01


class ZoneAmounts:
    """Decides after the node's own decision, from the same report and pods."""

    def __init__(
        self,
        client: Client,
        topologies: Store[NodeResourceTopology],
        observations: Observations,
        resources: NodeResources,
        budget: WriteBudget,
    ) -> None:
        self._client = client
        self._topologies = topologies
        self._observations = observations
        self._resources = resources
        self._budget = budget
        self._last_write_s: dict[str, float] = {}
        self._problems: dict[str, list[str]] = {}

    def begin(self) -> None:
        """Another process may have led until now."""
        self._last_write_s.clear()

    def decide(self, name: str) -> Step:
        """Decide one topology object; objects without zones of cpu or memory are left alone."""
        topology = self._topologies.get(name)
        if topology is None:
            self._last_write_s.pop(name, None)
            self._problems.pop(name, None)
            return GONE
        found = self._judge(topology)
        if found is None:
            return NOTHING
        if not found.operations:
            due_s = found.retry_after_s
            return Step(retry_after_s=None if due_s is None else due_s + _PAST_DUE_S)
        return Step(partial(self._write, name))

    def _judge(self, topology: NodeResourceTopology) -> ZoneWrite | None:
        name = topology.metadata.name
        decision, facts = self._resources.decision(name), self._observations.facts(name)
        problems: list[str] = []
        zones = read_zones(topology, problems)
        if problems != self._problems.get(name, []):
            logger.warning("%s", "; ".join(problems))
            self._problems[name] = problems
        if decision is None or facts is None or not zones:
            return None
        offers: list[Offer] | None = None
        report = self._observations.report(name)
        if decision.published is not None and report is not None:
            offers = offered_by_zones(zones, facts, report, self._observations.pods_on(name), decision)
        strategy = decision.resolved.strategy
        interval_s = strategy.update_time_threshold_seconds
        now_s = time.time()
        since_s = now_s - self._last_write_s.setdefault(name, now_s)
        return zone_write(topology, offers, strategy.resource_diff_threshold, interval_s, since_s)

    async def _write(self, name: str) -> None:
        await self._budget.take()
        topology = self._topologies.get(name)
        found = None if topology is None else self._judge(topology)
        if found is None or not found.operations:
            return
        operations: list[Any] = list(found.operations)
        try:
            await self._client.patch(NODE_RESOURCE_TOPOLOGIES, name, operations, content_type=JSON_PATCH)
        except NotFound:
            return
        self._last_write_s[name] = time.time()
        metrics.WRITES.labels(NODE_RESOURCE_TOPOLOGIES.kind, "patch").inc()
        logger.info("zones of %s written", name, extra={"node": name, "write": str(found.reason)})
