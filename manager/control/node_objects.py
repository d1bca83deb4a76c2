"""The loops that keep one NodeMetric and one NodeSLO per node: present, right, and gone with the node."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from koord.api import names
from koord.api.objects import JsonObject
from koord.api.slo import MetricCollectPolicy, NodeMetric
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.resources import Resource
from koord.kube.store import Store
from koord.slo_config import colocation
from koord.slo_config.loading import Configuration
from koord.slo_config.schema import Fragment
from manager import metrics
from manager.control.observations import Observations
from manager.control.strategies import Strategies
from manager.control.work_queue import GONE, NOTHING, Step
from manager.control.write_budget import WriteBudget
from manager.slo.collect_policy import collect_policy
from manager.slo.render import render, spec_changes

logger = logging.getLogger("koord.manager.objects")


class ObjectWriter:
    """Writes one kind of object that is named after its node."""

    def __init__(self, client: Client, resource: Resource[Any], budget: WriteBudget) -> None:
        self._client = client
        self._resource = resource
        self._budget = budget

    async def create(self, name: str, spec: Fragment) -> Any:
        """Create the object; None when somebody else was quicker (the watch will tell)."""
        body = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        await self._budget.take()
        try:
            created = await self._client.create(self._resource, body)
        except AlreadyExists:
            return None
        self._tell("create", name, spec)
        return created

    async def patch_spec(self, name: str, changes: Fragment, version: str) -> Any:
        """Merge changes into the spec of the object in the state that was looked at; returns the stored object."""
        await self._budget.take()
        body = {"metadata": {"resourceVersion": version}, "spec": changes}
        patched = await self._client.patch(self._resource, name, body)
        self._tell("patch", name, changes)
        return patched

    async def delete(self, name: str, uid: str) -> None:
        """Delete exactly this object; one that is gone already is fine."""
        await self._budget.take()
        try:
            await self._client.delete(self._resource, name, uid=uid)
        except NotFound:
            return
        self._tell("delete", name, {})

    def _tell(self, operation: str, name: str, spec: Fragment) -> None:
        metrics.WRITES.labels(self._resource.kind, operation).inc()
        kind = self._resource.kind
        logger.info("%s %s/%s", operation, kind, name, extra={"kind": kind, "node": name, "spec": spec})


class NodeMetricSpecs:
    """Keeps spec.metricCollectPolicy of each NodeMetric; the status is the agent's."""

    def __init__(
        self,
        writer: ObjectWriter,
        stored: Store[NodeMetric],
        observations: Observations,
        configuration: Callable[[], Configuration],
        strategies: Strategies,
    ) -> None:
        self._writer = writer
        self._stored = stored
        self._observations = observations
        self._configuration = configuration
        self._strategies = strategies

    def decide(self, name: str) -> Step:
        """Create, correct or delete the node's NodeMetric. A broken colocation-config corrects none."""
        node = self._observations.node(name)
        stored = self._stored.get(name)
        if node is None:
            return GONE if stored is None else Step(partial(self._writer.delete, name, stored.metadata.uid))
        configuration = self._configuration()
        if stored is not None and configuration.colocation_broken:
            return NOTHING
        annotation = node.metadata.annotations.get(names.ANNOTATION_COLOCATION_STRATEGY, "")
        config = configuration.colocation or colocation.BUILT_IN
        wanted = collect_policy(self._strategies.of(name, config, node.metadata.labels, annotation))
        if stored is None:
            return Step(partial(self._writer.create, name, {"metricCollectPolicy": wanted}))
        if stored.spec.metric_collect_policy == msgspec.convert(wanted, MetricCollectPolicy):
            return NOTHING
        changes = {"metricCollectPolicy": wanted}
        return Step(partial(self._writer.patch_spec, name, changes, stored.metadata.resource_version))


class NodeSLOs:
    """Keeps the spec of each NodeSLO as rendered from the configuration."""

    def __init__(
        self,
        writer: ObjectWriter,
        stored: Store[JsonObject],
        observations: Observations,
        configuration: Callable[[], Configuration],
    ) -> None:
        self._writer = writer
        self._stored = stored
        self._observations = observations
        self._configuration = configuration
        # What was asked for and what the server made of it: defaults of the CRD must not look like a difference.
        self._settled: dict[str, tuple[Fragment, Fragment]] = {}

    def decide(self, name: str) -> Step:
        """Create, correct or delete the node's NodeSLO."""
        node = self._observations.node(name)
        stored = self._stored.get(name)
        if node is None:
            self._settled.pop(name, None)
            if stored is None:
                return GONE
            return Step(partial(self._writer.delete, name, stored["metadata"].get("uid", "")))
        wanted = render(self._configuration(), node.metadata.labels, node.metadata.annotations)
        if stored is None:
            return Step(partial(self._create, name, wanted))
        spec = stored.get("spec") or {}
        if self._settled.get(name) == (wanted, spec):
            return NOTHING
        changes = spec_changes(spec, wanted)
        if not changes:
            return NOTHING
        return Step(partial(self._patch, name, wanted, changes, stored["metadata"].get("resourceVersion", "")))

    async def _create(self, name: str, wanted: Fragment) -> None:
        self._settle(name, wanted, await self._writer.create(name, wanted))

    async def _patch(self, name: str, wanted: Fragment, changes: Fragment, version: str) -> None:
        self._settle(name, wanted, await self._writer.patch_spec(name, changes, version))

    def _settle(self, name: str, wanted: Fragment, answer: JsonObject | None) -> None:
        if answer is not None:
            self._settled[name] = (wanted, answer.get("spec") or {})
