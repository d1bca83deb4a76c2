"""Writes NodeMetric's status at the interval that its spec asks for."""

import asyncio
import logging
import time

from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.kube.resources import NODE_METRICS
from koordlet import metrics
from koordlet.agent import Agent
from koordlet.conditions import Conditions
from koordlet.node import KernelNode
from koordlet.observing import Observed
from koordlet.report import PodUsageSeries, UsageSeries, build_status
from koordlet.views import MetricPolicy, metric_policy

logger = logging.getLogger("koord.koordlet.reporting")

FIRST_REPORT_S = 10.0
"""A new agent reports this soon, not a whole interval later: the manager waits for it."""
_LOOK_S = 0.5


class Reporter:
    """Reports while a NodeMetric exists; the manager makes and removes it."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        node: KernelNode,
        observed: Observed,
        agent: Agent,
        conditions: Conditions,
        min_report_s: float,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._node = node
        self._observed = observed
        self._agent = agent
        self._conditions = conditions
        self._min_report_s = min_report_s

    async def run(self) -> None:
        """Report for ever."""
        began = time.monotonic()
        reported: float | None = None
        while True:
            await asyncio.sleep(_LOOK_S)
            policy = metric_policy(self._observed.node_metric, self._min_report_s)
            self._node.sampler.count_page_cache(policy.counts_page_cache)
            now = time.monotonic()
            due = began + min(FIRST_REPORT_S, policy.report_s) if reported is None else reported + policy.report_s
            if now < due or self._observed.node_metric is None:
                continue
            if await self.report(policy, now):
                reported = now

    async def report(self, policy: MetricPolicy, now_s: float) -> bool:
        """Write one report; returns whether to wait a whole interval before the next."""
        status = self._status(policy, now_s)
        if status is None:
            return False
        try:
            await self._client.patch(NODE_METRICS, self._node_name, {"status": status}, subresource="status")
        except NotFound:
            metrics.REPORTS.labels("not found").inc()
            return True
        except ApiError as error:
            metrics.REPORTS.labels("failed").inc()
            self._conditions.ill("NodeMetric report", str(error))
            return True
        metrics.REPORTS.labels("written").inc()
        self._conditions.well("NodeMetric report")
        return True

    def _status(self, policy: MetricPolicy, now_s: float) -> dict[str, object] | None:
        sampler = self._node.sampler
        pods = []
        for here in self._agent.pods:
            sample = here.sample
            if here.view is not None and sample is not None and sample.cpu_series and sample.memory_series:
                pods.append(PodUsageSeries(here.view, UsageSeries(sample.cpu_series, sample.memory_series)))
        return build_status(
            UsageSeries(sampler.node_cpu, sampler.node_memory),
            UsageSeries(sampler.system_cpu, sampler.system_memory),
            pods,
            policy,
            now_s,
            time.time(),
        )
