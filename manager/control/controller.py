"""The manager as a whole: stores, loops and who wakes whom."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from koord.api.objects import JsonObject, Node
from koord.api.slo import NodeMetric
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import NODE_METRICS, NODES, PODS, raw
from koord.kube.store import Store
from manager.control import garbage
from manager.control.announcing import Announcer
from manager.control.batch_resources import BatchResources
from manager.control.configuration_watch import ConfigurationWatch
from manager.control.node_objects import NodeMetricSpecs, NodeSLOs, ObjectWriter
from manager.control.observations import Observations
from manager.control.strategies import Strategies
from manager.control.work_queue import Decide, WorkQueue
from manager.control.write_budget import WriteBudget

# Untyped, because a difference in any field counts when specs are compared.
RAW_NODE_SLOS: Final = raw("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO", False)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the manager runs.

    config_namespace, config_name: where slo-controller-config is. resync_s: how often all nodes are decided again
    without an event, a safety net against a bug of ours (every change and every expiry has its own trigger).
    min_interval_s: a node is not decided more often; changes in between become one. writes_per_s, write_burst:
    ceiling over all writes. writes_at_once: concurrent writes per loop.
    """

    config_namespace: str
    config_name: str
    resync_s: float = 300.0
    min_interval_s: float = 0.25
    writes_per_s: float = 100.0
    write_burst: int = 200
    writes_at_once: int = 16


class Controller:
    """Watches from construction on (call `watch`), writes only inside `lead`."""

    def __init__(self, client: Client, announcer: Announcer, settings: Settings) -> None:
        self._settings = settings
        budget = WriteBudget(settings.writes_per_s, settings.write_burst)
        self._nodes = Store(client, NODES)
        self._pods = Store(client, PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
        self._reports = Store(client, NODE_METRICS)
        self._slos = Store(client, RAW_NODE_SLOS)
        self.observations = Observations(self._nodes, self._pods, self._reports, self._wake_resources)
        self.config = ConfigurationWatch(
            client, settings.config_namespace, settings.config_name, announcer, self._wake_all
        )
        strategies = Strategies()
        self.batch = BatchResources(client, self.observations, self.config.current, strategies, budget, announcer)
        specs = NodeMetricSpecs(
            ObjectWriter(client, NODE_METRICS, budget),
            self._reports,
            self.observations,
            self.config.current,
            strategies,
        )
        slos = NodeSLOs(
            ObjectWriter(client, RAW_NODE_SLOS, budget), self._slos, self.observations, self.config.current
        )
        self._resources_queue = self._queue("batch", self.batch.decide)
        self._specs_queue = self._queue("nodemetric", specs.decide)
        self._slos_queue = self._queue("nodeslo", slos.decide)
        self._nodes.subscribe(self._node_changed)
        self._reports.subscribe(self._report_changed)
        self._slos.subscribe(self._slo_changed)

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """All that is watched; each needs its `run`."""
        return (self._nodes, self._pods, self._reports, self._slos, self.config.store)

    def check_synced(self) -> bool | str:
        """True once everything needed for a decision is known, else what is not; for readiness."""
        missing = [str(store.resource) for store in self.stores if not store.statistics.synced]
        return f"not listed yet: {', '.join(missing)}" if missing else True

    async def wait_synced(self) -> None:
        """Return once everything needed for a decision is known."""
        await asyncio.gather(*(store.wait_synced() for store in self.stores))

    async def lead(self) -> None:
        """Decide and write for ever; call while holding the lease, cancel when it is lost."""
        await self.wait_synced()
        garbage.spare_what_exists()
        self.batch.begin()
        self._wake_all()
        async with asyncio.TaskGroup() as group:
            for queue in self._queues:
                group.create_task(queue.run())
            group.create_task(self._resync())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_s)
            self._wake_all()

    @property
    def _queues(self) -> tuple[WorkQueue, ...]:
        return (self._resources_queue, self._specs_queue, self._slos_queue)

    def _wake_resources(self, name: str) -> None:
        self._resources_queue.request(name)

    def _wake_all(self) -> None:
        for name in self.observations.node_names():
            for queue in self._queues:
                queue.request(name)

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.old is not None and change.new is not None:
            before, after = change.old.metadata, change.new.metadata
            if before.labels == after.labels and before.annotations == after.annotations:
                return
        self._specs_queue.request(name)
        self._slos_queue.request(name)

    def _report_changed(self, change: Change[NodeMetric]) -> None:
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._specs_queue.request(change.object.metadata.name)

    def _slo_changed(self, change: Change[JsonObject]) -> None:
        if change.old is None or change.new is None or change.old.get("spec") != change.new.get("spec"):
            self._slos_queue.request(change.object["metadata"]["name"])

    def _queue(self, name: str, decide: Decide) -> WorkQueue:
        settings = self._settings
        return WorkQueue(name, decide, min_interval_s=settings.min_interval_s, writes_at_once=settings.writes_at_once)
