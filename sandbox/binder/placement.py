"""Where a pod goes, or why it can go nowhere. Pure.

The filters and their order, the wording of refusals and the score are kube-scheduler's (least allocated of cpu
and memory); ties go to the node with fewer pods, then to the first by name. There is no preemption.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from koord.api import names
from koord.api.quantity import NANO
from sandbox.binder import constraints
from sandbox.binder.ledger import PODS, Demand, NodeFacts, NodeUsage
from sandbox.node import model

UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS = "Too many pods"
NO_NODES = "no nodes available to schedule pods"

_BEST_SCORE = 100


@dataclass(frozen=True)
class Placement:
    """The decision. node: None when nothing fits. score: 0 to 100, of the chosen node.

    refusals: node name to the reasons of the first filter that refused it.
    """

    node: str | None
    score: int = 0
    refusals: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """Why the pod fits nowhere, as kube-scheduler says it; empty when it fits."""
        if self.node is not None:
            return ""
        if not self.refusals:
            return NO_NODES
        counted = Counter(reason for reasons in self.refusals.values() for reason in reasons)
        total = len(self.refusals)
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{total} nodes are available: {reasons}."


def decide(spec: model.PodSpec, demand: Demand, candidates: Iterable[tuple[NodeFacts, NodeUsage]]) -> Placement:
    """Choose the best node that accepts the pod."""
    refusals: dict[str, tuple[str, ...]] = {}
    best: tuple[int, int, str] | None = None
    for node, usage in candidates:
        if reasons := refuse(spec, demand, node, usage):
            refusals[node.name] = reasons
            continue
        rank = (-least_allocated(demand, node, usage), usage.pods, node.name)
        if best is None or rank < best:
            best = rank
    if best is None:
        return Placement(None, refusals=refusals)
    return Placement(best[2], -best[0], refusals)


def refuse(spec: model.PodSpec, demand: Demand, node: NodeFacts, usage: NodeUsage) -> tuple[str, ...]:
    """The reasons of the first filter that refuses the node; empty when it accepts the pod."""
    if node.unschedulable and not constraints.tolerates(spec.tolerations, constraints.TAINT_UNSCHEDULABLE):
        return (UNSCHEDULABLE,)
    if constraints.is_repelled(spec.tolerations, node.taints):
        return (UNTOLERATED,)
    if not constraints.matches_affinity(spec, node.name, node.labels):
        return (AFFINITY_MISMATCH,)
    return insufficient(demand, node, usage)


def insufficient(demand: Demand, node: NodeFacts, usage: NodeUsage) -> tuple[str, ...]:
    """One reason for every resource of which too little is left, the number of pods included."""
    reasons = []
    if (usage.pods + 1) * NANO > node.allocatable.get(PODS, 0):
        reasons.append(TOO_MANY_PODS)
    for name, wanted in demand.requests.items():
        if wanted > node.allocatable.get(name, 0) - usage.requests.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return tuple(reasons)


def least_allocated(demand: Demand, node: NodeFacts, usage: NodeUsage) -> int:
    """0 to 100: the mean share of cpu and memory that would be left, in whole percent as kube-scheduler rounds."""
    cpu = _share_left(node.allocatable.get(names.CPU, 0), usage.scored_cpu + demand.scored_cpu)
    memory = _share_left(node.allocatable.get(names.MEMORY, 0), usage.scored_memory + demand.scored_memory)
    return (cpu + memory) // 2


def _share_left(allocatable: int, wanted: int) -> int:
    if allocatable <= 0 or wanted > allocatable:
        return 0
    return (allocatable - wanted) * _BEST_SCORE // allocatable
