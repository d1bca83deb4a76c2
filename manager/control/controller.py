"""The manager as a whole: stores, loops and who wakes whom."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from koord.api.objects import JsonObject, Node
from koord.api.slo import NodeMetric
from koord.api.topology import NodeResourceTopology
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import DEVICES, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, raw
from koord.kube.store import Store
from manager.control import garbage
from manager.control.announcing import Announcer
from manager.control.configuration_watch import ConfigurationWatch
from manager.control.last_good import LastGood
from manager.control.node_objects import NodeMetricSpecs, NodeSLOs, ObjectWriter
from manager.control.node_resources import NodeResources
from manager.control.observations import Observations
from manager.control.recording import Recording
from manager.control.strategies import Strategies
from manager.control.work_queue import Decide, Step, WorkQueue
from manager.control.write_budget import WriteBudget
from manager.control.zone_amounts import ZoneAmounts

# Untyped, because a difference in any field counts when specs are compared.
RAW_NODE_SLOS: Final = raw("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO", False)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the manager runs.

    config_namespace, config_name: where slo-controller-config is. resync_s: how often all nodes are decided again
    without an event, a safety net against a bug of ours (every change and every expiry has its own trigger).
    min_interval_s: a node is not decided more often; changes in between become one. writes_per_s, write_burst:
    ceiling over all writes. writes_at_once: concurrent writes per loop. identity: noted beside each write.
    """

    config_namespace: str
    config_name: str
    resync_s: float = 300.0
    min_interval_s: float = 0.25
    writes_per_s: float = 100.0
    write_burst: int = 200
    writes_at_once: int = 16
    identity: str = ""


class Controller:
    """Watches from construction on (run its `stores`), writes only inside `lead`."""

    def __init__(
        self,
        client: Client,
        announcer: Announcer,
        settings: Settings,
        *,
        may_write: Callable[[], bool] = lambda: True,
        recording: Recording | None = None,
    ) -> None:
        """may_write: asked before every write; False once the lease may be another's."""
        self._settings = settings
        budget = WriteBudget(settings.writes_per_s, settings.write_burst, may_write)
        self._nodes = Store(client, NODES)
        self._pods = Store(client, PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
        self._reports = Store(client, NODE_METRICS)
        self._slos = Store(client, RAW_NODE_SLOS)
        self._topologies = Store(client, NODE_RESOURCE_TOPOLOGIES)
        self._devices = Store(client, DEVICES)
        self.observations = Observations(
            self._nodes, self._pods, self._reports, self._topologies, self._devices, self._wake_resources
        )
        self.config = ConfigurationWatch(
            client, settings.config_namespace, settings.config_name, announcer, self._configuration_changed
        )
        strategies = Strategies()
        current = self.config.current
        self.resources = NodeResources(
            client, self.observations, current, strategies, budget, announcer, settings.identity, recording
        )
        self.zones = ZoneAmounts(client, self._topologies, self.observations, self.resources, budget)
        specs = NodeMetricSpecs(
            ObjectWriter(client, NODE_METRICS, budget), self._reports, self.observations, current, strategies
        )
        slos = NodeSLOs(ObjectWriter(client, RAW_NODE_SLOS, budget), self._slos, self.observations, current)
        last_good = LastGood(client, self.config, settings.config_namespace, budget)
        self._resources_queue = self._queue("resources", self._decide_resources)
        self._zones_queue = self._queue("zones", self.zones.decide)
        self._specs_queue = self._queue("nodemetric", specs.decide)
        self._slos_queue = self._queue("nodeslo", slos.decide)
        self._config_queue = self._queue("config", last_good.decide)
        self._nodes.subscribe(self._node_changed)
        self._reports.subscribe(self._report_changed)
        self._slos.subscribe(self._slo_changed)
        self._topologies.subscribe(self._topology_changed)
        self.config.stored.subscribe(lambda _: self._wake_config())

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """All that is watched; each needs its `run`."""
        return (*self._needed, *self._optional)

    @property
    def _needed(self) -> tuple[Store[Any], ...]:
        return (self._nodes, self._pods, self._reports, self._slos, self.config.store, self.config.stored)

    @property
    def _optional(self) -> tuple[Store[Any], ...]:
        """Kinds that a cluster may not have."""
        return (self._topologies, self._devices)

    def check_synced(self) -> bool | str:
        """True once everything needed for a decision is known, else what is not; for readiness."""
        missing = [str(store.resource) for store in self._needed if not store.statistics.synced]
        missing += [str(store.resource) for store in self._optional if not _answered(store)]
        return f"not listed yet: {', '.join(missing)}" if missing else True

    async def wait_synced(self) -> None:
        """Return once everything needed for a decision is known."""
        needed = (store.wait_synced() for store in self._needed)
        await asyncio.gather(*needed, *(store.wait_answered() for store in self._optional))

    async def lead(self) -> None:
        """Decide and write for ever; call while holding the lease, cancel when it is lost."""
        await self.wait_synced()
        garbage.spare_what_exists()
        self.resources.begin()
        self.zones.begin()
        self._configuration_changed()
        with self.config.leading():
            async with asyncio.TaskGroup() as group:
                for queue in (*self._node_queues, self._config_queue):
                    group.create_task(queue.run())
                group.create_task(self._resync())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_s)
            self._wake_all()

    @property
    def _node_queues(self) -> tuple[WorkQueue, ...]:
        return (self._resources_queue, self._zones_queue, self._specs_queue, self._slos_queue)

    def _decide_resources(self, name: str) -> Step:
        step = self.resources.decide(name)
        if self._topologies.get(name) is not None:
            self._zones_queue.request(name)
        return step

    def _wake_resources(self, name: str) -> None:
        self._resources_queue.request(name)

    def _wake_config(self) -> None:
        self._config_queue.request(self.config.stored_name)

    def _configuration_changed(self) -> None:
        self._wake_config()
        self._wake_all()

    def _wake_all(self) -> None:
        for name in self.observations.node_names():
            for queue in (self._resources_queue, self._specs_queue, self._slos_queue):
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

    def _topology_changed(self, change: Change[NodeResourceTopology]) -> None:
        if change.old is None or change.new is None or change.old.zones != change.new.zones:
            self._zones_queue.request(change.object.metadata.name)

    def _queue(self, name: str, decide: Decide) -> WorkQueue:
        settings = self._settings
        return WorkQueue(name, decide, min_interval_s=settings.min_interval_s, writes_at_once=settings.writes_at_once)


def _answered(store: Store[Any]) -> bool:
    statistics = store.statistics
    return statistics.synced or statistics.refused
