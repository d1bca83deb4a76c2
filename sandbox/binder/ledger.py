"""What nodes have and what is already promised of it. Plain values, no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koord.api import names, pod_resources, quantity
from koord.api.objects import Node, Taint
from sandbox.binder import constraints
from sandbox.node import model

PODS = "pods"
_ASSUMED_CPU_NANO = quantity.nano("100m")
_ASSUMED_MEMORY_NANO = quantity.nano("200Mi")
"""What kube-scheduler counts, for scoring alone, for a container that asks for none."""


@dataclass(frozen=True)
class Demand:
    """What a pod takes of a node. requests: nano units. scored_*: the same with an assumption for none."""

    requests: Mapping[str, int]
    scored_cpu: int
    scored_memory: int


@dataclass(frozen=True)
class NodeFacts:
    """What of a node decides on placement. taints: also those that its conditions stand for."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]


@dataclass
class NodeUsage:
    """The sum of the demands on one node."""

    requests: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    scored_cpu: int = 0
    scored_memory: int = 0

    def add(self, demand: Demand, sign: int) -> None:
        """Take a demand in (1) or out (-1)."""
        for name, amount in demand.requests.items():
            self.requests[name] = self.requests.get(name, 0) + sign * amount
        self.pods += sign
        self.scored_cpu += sign * demand.scored_cpu
        self.scored_memory += sign * demand.scored_memory


def demand_of(spec: model.PodSpec) -> Demand:
    """The demand of a pod. Raises InvalidQuantity."""
    requests = pod_resources.requests_nano(spec)
    return Demand(
        {name: amount for name, amount in requests.items() if amount > 0},
        _scored(spec, requests, names.CPU, _ASSUMED_CPU_NANO),
        _scored(spec, requests, names.MEMORY, _ASSUMED_MEMORY_NANO),
    )


def _scored(spec: model.PodSpec, requests: Mapping[str, int], resource: str, assumed: int) -> int:
    silent = sum(resource not in container.resources.requests for container in spec.containers)
    pod_level = spec.resources is not None and resource in spec.resources.requests
    return requests.get(resource, 0) + (0 if pod_level else silent * assumed)


def facts_of(node: Node) -> NodeFacts:
    """The facts of a node. Raises InvalidQuantity."""
    taints = list(node.spec.taints)
    condition = _condition_taint(node)
    if condition is not None and all(taint.key != condition.key for taint in taints):
        taints.append(condition)
    return NodeFacts(
        node.metadata.name,
        node.metadata.labels,
        tuple(taints),
        node.spec.unschedulable,
        {name: quantity.nano(amount) for name, amount in node.status.allocatable.items()},
    )


def _condition_taint(node: Node) -> Taint | None:
    """The taint that Kubernetes' node lifecycle controller would set for a node that is not Ready."""
    ready = next((item.status for item in node.status.conditions if item.type == "Ready"), "False")
    if ready == "True":
        return None
    return constraints.TAINT_UNREACHABLE if ready == "Unknown" else constraints.TAINT_NOT_READY


class Ledger:
    """The usage of every node, kept true pod by pod."""

    def __init__(self) -> None:
        self._usage: dict[str, NodeUsage] = {}
        self._places: dict[str, tuple[str, Demand]] = {}

    def usage(self, node: str) -> NodeUsage:
        """What is promised of a node."""
        return self._usage.get(node) or NodeUsage()

    def place_of(self, uid: str) -> str | None:
        """The node that holds a pod, None when none does."""
        place = self._places.get(uid)
        return place[0] if place else None

    def assign(self, uid: str, node: str, demand: Demand) -> bool:
        """A pod is on a node with this demand; whether that is news. Replaces what was known of it."""
        if self._places.get(uid) == (node, demand):
            return False
        self.release(uid)
        self._places[uid] = (node, demand)
        self._usage.setdefault(node, NodeUsage()).add(demand, 1)
        return True

    def release(self, uid: str) -> bool:
        """A pod is on no node any more; whether it was."""
        place = self._places.pop(uid, None)
        if place is None:
            return False
        node, demand = place
        self._usage[node].add(demand, -1)
        if self._usage[node].pods == 0:
            del self._usage[node]
        return True

    def candidates(self, nodes: Iterable[NodeFacts]) -> list[tuple[NodeFacts, NodeUsage]]:
        """The nodes with what is promised of them, for `placement.decide`."""
        return [(node, self.usage(node.name)) for node in nodes]
