"""What the API server says about this node: its pods, its Node, its NodeSLO, its NodeMetric.

Everything is kept as last heard: while the API server is away the agent goes on with it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from koord.api.errors import InvalidInput
from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric, NodeSLO
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import NODE_METRICS, NODE_SLOS, NODES, PODS
from koord.kube.store import Store
from koordlet.conditions import Conditions
from koordlet.suppress.tick import Presence
from koordlet.views import NodeView, PodView, SuppressPolicy, suppress_policy, view_node, view_pod

logger = logging.getLogger("koord.koordlet.observing")

T = TypeVar("T")


class Observed:
    """Four watches, each limited to this node by a field selector, and the views made of what they bring."""

    def __init__(self, client: Client, node_name: str, conditions: Conditions) -> None:
        own = f"metadata.name={node_name}"
        self._node_name = node_name
        self._conditions = conditions
        self._pods: Store[Pod] = Store(
            client, PODS, field_selector=f"spec.nodeName={node_name}", first_list_from_cache=True
        )
        self._nodes: Store[Node] = Store(client, NODES, field_selector=own)
        self._slos: Store[NodeSLO] = Store(client, NODE_SLOS, field_selector=own)
        self._metrics: Store[NodeMetric] = Store(client, NODE_METRICS, field_selector=own)
        self._by_cgroup_uid: dict[str, PodView] = {}
        self._policy = SuppressPolicy()
        self._node: NodeView | None = None
        self._pods.subscribe(self._on_pod)
        self._nodes.subscribe(self._on_node)
        self._slos.subscribe(self._on_slo)

    def loops(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """The watches to keep running, by name."""
        stores = (self._pods, self._nodes, self._slos, self._metrics)
        return [(f"watch of {store.resource}", store.run) for store in stores]

    def pod_of(self, cgroup_uid: str) -> PodView | None:
        """The pod whose cgroup carries this uid."""
        return self._by_cgroup_uid.get(cgroup_uid)

    def pods(self) -> list[PodView]:
        """All pods of this node."""
        return list(self._by_cgroup_uid.values())

    @property
    def node(self) -> NodeView | None:
        """Own Node, None until it was seen."""
        return self._node

    @property
    def policy(self) -> SuppressPolicy:
        """The last readable strategy; all off before there was one."""
        return self._policy

    @property
    def slo(self) -> Presence:
        """Whether the NodeSLO was read, is there, or was deleted."""
        if self._slos.get(self._node_name) is not None:
            return Presence.PRESENT
        return Presence.DELETED if self._slos.statistics.synced else Presence.UNKNOWN

    @property
    def node_metric(self) -> NodeMetric | None:
        """Own NodeMetric as last heard, None while the manager has not made one."""
        return self._metrics.get(self._node_name)

    def readiness(self) -> bool | str:
        """True once all four were listed."""
        stores = (self._pods, self._nodes, self._slos, self._metrics)
        missing = [str(store.resource) for store in stores if not store.statistics.synced]
        return f"not listed yet: {', '.join(missing)}" if missing else True

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._forget(change.object)
            return
        view = view_pod(change.new)
        for problem in view.problems:
            logger.warning("pod is not understood in full: %s", problem)
        if change.old is not None:
            self._forget(change.old)
        self._by_cgroup_uid[view.cgroup_uid] = view

    def _forget(self, pod: Pod) -> None:
        view = view_pod(pod)
        known = self._by_cgroup_uid.get(view.cgroup_uid)
        if known is not None and known.uid == view.uid:
            del self._by_cgroup_uid[view.cgroup_uid]

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            return  # a node object that is being registered again; what it said still holds
        self._node = view_node(change.new)
        self._tell("own Node", self._node.problems)

    def _on_slo(self, change: Change[NodeSLO]) -> None:
        if change.new is None:
            self._policy = SuppressPolicy()
            self._tell("own NodeSLO", ())
            return
        try:
            self._policy = suppress_policy(change.new)
        except InvalidInput as error:
            self._tell("own NodeSLO", (f"{error}; the last readable one stays in force",))
        else:
            self._tell("own NodeSLO", ())

    def _tell(self, name: str, problems: tuple[str, ...]) -> None:
        if problems:
            self._conditions.ill(name, "; ".join(problems))
        else:
            self._conditions.well(name)
