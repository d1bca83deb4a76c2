"""What is known of each node right now, derived as the stores change, and who must hear of a change.

Derivation happens once per change of an object; a decision then only adds up numbers.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from koord.api import names
from koord.api.devices import Device
from koord.api.objects import Node, Pod
from koord.api.quantity import InvalidQuantity
from koord.api.slo import NodeMetric
from koord.api.topology import NodeResourceTopology
from koord.kube.changes import Change
from koord.kube.store import Store, is_older
from manager.overcommit import node_facts, pod_share
from manager.overcommit.devices import NO_DEVICES, DeviceOffer, device_offer
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodKey, PodShare
from manager.overcommit.report import UsageReport, read_report

logger = logging.getLogger("koord.manager.observations")

OnChange = Callable[[str], None]
_NO_PODS: Final[dict[PodKey, PodShare]] = {}
LEAVE_DEVICES: Final = DeviceOffer({})
"""Of a node whose devices are not known: nothing is touched."""


class Observations:
    """Facts, report and pods per node name. `on_resources(node)` is called when a decision about the node's batch
    resources may differ from the last one."""

    def __init__(
        self,
        nodes: Store[Node],
        pods: Store[Pod],
        reports: Store[NodeMetric],
        topologies: Store[NodeResourceTopology],
        devices: Store[Device],
        on_resources: OnChange,
    ) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._versions: dict[str, str] = {}
        self._reports: dict[str, UsageReport] = {}
        self._pods: dict[str, dict[PodKey, PodShare]] = {}
        self._nodes = nodes
        self._topologies = topologies
        self._device_store = devices
        self._devices: dict[str, DeviceOffer] = {}
        self._on_resources = on_resources
        nodes.subscribe(self._node_changed)
        pods.subscribe(self._pod_changed)
        reports.subscribe(self._report_changed)
        topologies.subscribe(self._topology_changed)
        devices.subscribe(self._device_changed)

    def node(self, name: str) -> Node | None:
        """The node object itself, for what is not derived."""
        return self._nodes.get(name)

    def node_names(self) -> list[str]:
        """All nodes."""
        return [node.metadata.name for node in self._nodes.values()]

    def facts(self, name: str) -> NodeFacts | None:
        """The node's facts; None when there is no such node or its capacity cannot be read."""
        return self._facts.get(name)

    def version(self, name: str) -> str:
        """The resourceVersion of the node that the facts are of; "" when there is none."""
        return self._versions.get(name, "")

    def topology(self, name: str) -> NodeResourceTopology | None:
        """The node's topology object."""
        return self._topologies.get(name)

    def cpu_info(self, name: str) -> str | None:
        """What the topology object says of the node's CPU, unread."""
        topology = self._topologies.get(name)
        return None if topology is None else topology.metadata.annotations.get(names.ANNOTATION_CPU_BASIC_INFO)

    def devices(self, name: str) -> DeviceOffer:
        """What the node offers of its devices."""
        if not self._device_store.statistics.synced:
            return LEAVE_DEVICES
        return self._devices.get(name, NO_DEVICES)

    def report(self, name: str) -> UsageReport | None:
        """The node's last report; None without a NodeMetric."""
        return self._reports.get(name)

    def pods_on(self, name: str) -> Collection[PodShare]:
        """The shares of the pods bound to the node."""
        return self._pods.get(name, _NO_PODS).values()

    def note_written(self, node: Node) -> None:
        """Take in a node as the API server returned it from a write, ahead of the watch."""
        known = self._versions.get(node.metadata.name)
        if known is not None and not is_older(node.metadata.resource_version, known):
            self._take_node(node)

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._facts.pop(name, None)
            self._versions.pop(name, None)
            self._on_resources(name)
            return
        if is_older(change.new.metadata.resource_version, self._versions.get(name, "")):
            return  # an event from before our own write
        before = self._facts.get(name)
        self._take_node(change.new)
        if before is None or before != self._facts.get(name):
            self._on_resources(name)

    def _take_node(self, node: Node) -> None:
        name = node.metadata.name
        self._versions[name] = node.metadata.resource_version
        try:
            self._facts[name] = node_facts.derive(node)
        except InvalidQuantity as error:
            self._facts.pop(name, None)
            logger.warning("Node/%s: status: %s; the node is left alone", name, error)

    def _pod_changed(self, change: Change[Pod]) -> None:
        metadata = change.object.metadata
        key = (metadata.namespace, metadata.name)
        before = self._drop(change.old, key)
        after = None
        if change.new is not None and change.new.spec.node_name:
            after = pod_share.derive(change.new)
            self._pods.setdefault(after.node, {})[key] = after
        if before == after:
            return
        for share in (before, after):
            # Batch and free pods are in no sum, but what they hold may exceed what is offered.
            if share is not None and share.counted:
                self._on_resources(share.node)

    def _drop(self, old: Pod | None, key: PodKey) -> PodShare | None:
        if old is None or not old.spec.node_name:
            return None
        on_node = self._pods.get(old.spec.node_name)
        share = on_node.pop(key, None) if on_node is not None else None
        if on_node is not None and not on_node:
            del self._pods[old.spec.node_name]
        return share

    def _report_changed(self, change: Change[NodeMetric]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._reports.pop(name, None)
        elif change.old is not None and change.old.status == change.new.status:
            return
        else:
            self._reports[name] = read_report(change.new, time.time())
        self._on_resources(name)

    def _topology_changed(self, change: Change[NodeResourceTopology]) -> None:
        if change.old is None or change.new is None or _cpu_info(change.old) != _cpu_info(change.new):
            self._on_resources(change.object.metadata.name)

    def _device_changed(self, change: Change[Device]) -> None:
        name = change.object.metadata.name
        before = self._devices.pop(name, None)
        if change.new is not None:
            self._devices[name] = device_offer(change.new)
        if before != self._devices.get(name):
            self._on_resources(name)


def _cpu_info(topology: NodeResourceTopology) -> str | None:
    return topology.metadata.annotations.get(names.ANNOTATION_CPU_BASIC_INFO)
