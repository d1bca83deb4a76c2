"""Who asked for, uses, is offered and has taken how much of each node and of the cluster: the rows of `koordctl top`.

Amounts are (cpu in cores, memory in bytes). Production is everything that is not sold again: production pods and
those of no class. Batch counts the free class too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from koord.api import quantity
from koord.api.quantity import InvalidQuantity
from manager.overcommit.amounts import ZERO, Amounts, Offer
from manager.overcommit.node_facts import NOT_SHOWN, NodeFacts
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import UsageReport
from manager.overcommit.shortage import RESOURCE_NAMES, TierName

PRODUCTION: Final = "production"
CLASSES: Final = (PRODUCTION, str(TierName.MID), str(TierName.BATCH))
_NANO: Final = 10**9
_MILLI: Final = 1000


class Amount(NamedTuple):
    """cpu in cores, memory in bytes."""

    cpu: float = 0.0
    memory: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """The sum per resource."""
        return Amount(self.cpu + other.cpu, self.memory + other.memory)


NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True)
class Use:
    """One class, on one node or in the cluster. requested: by all its pods, waiting ones included. taken: by those
    that have a node. used: as reported. offered: what it may take, of production all that is allocatable."""

    pods: int = 0
    requested: Amount = NOTHING
    used: Amount = NOTHING
    offered: Amount = NOTHING
    taken: Amount = NOTHING

    def plus(self, other: "Use") -> "Use":
        """Both together."""
        return Use(
            self.pods + other.pods,
            self.requested.plus(other.requested),
            self.used.plus(other.used),
            self.offered.plus(other.offered),
            self.taken.plus(other.taken),
        )


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node. used: of the whole node, None without a usable report. report_age_s: None without a report."""

    name: str
    capacity: Amount
    used: Amount | None
    report_age_s: float | None
    classes: dict[str, Use]
    short: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """The whole picture."""

    nodes: tuple[NodeRow, ...]
    classes: dict[str, Use] = field(default_factory=dict)


def node_row(facts: NodeFacts, pods: Iterable[PodShare], report: UsageReport | None, now_s: float) -> NodeRow:
    """The row of one node."""
    classes = _of_pods(pods, report)
    allocatable = Amounts(
        facts.capacity.cpu - facts.kubelet_reserved.cpu, facts.capacity.memory - facts.kubelet_reserved.memory
    )
    offered = {PRODUCTION: from_nano(allocatable)}
    short = []
    for tier in TierName:
        offer = Offer(*(_allocatable(facts, name) for name in RESOURCE_NAMES[tier]))
        offered[str(tier)] = from_offer(offer)
        held = classes[str(tier)].taken
        if held.cpu * _MILLI > offer.cpu + 0.5 or held.memory > offer.memory:
            short.append(str(tier))
    classes = {
        name: Use(use.pods, use.requested, use.used, offered[name], use.taken) for name, use in classes.items()
    }
    usage = None if report is None or report.node_usage is None else from_nano(report.node_usage)
    age_s = None if report is None or report.updated_s is None else now_s - report.updated_s
    return NodeRow(facts.name, from_nano(facts.capacity), usage, age_s, classes, tuple(short))


def _allocatable(facts: NodeFacts, name: str) -> int:
    text = facts.published.get(name, NOT_SHOWN)[1]
    try:
        return 0 if text is None else quantity.value(text)
    except InvalidQuantity:
        return 0


def cluster_rows(nodes: Iterable[NodeRow], waiting: Iterable[PodShare]) -> Rows:
    """All nodes by name, and the classes over them. waiting: pods that have no node yet."""
    listed = tuple(sorted(nodes, key=lambda row: row.name))
    totals = dict.fromkeys(CLASSES, Use())
    for row in listed:
        totals = {name: totals[name].plus(row.classes[name]) for name in CLASSES}
    for share in waiting:
        name, asked = class_of(share), from_nano(_asked(share))
        totals[name] = totals[name].plus(Use(pods=1, requested=asked))
    return Rows(listed, totals)


def class_of(share: PodShare) -> str:
    """The class of a pod."""
    if not share.protected:
        return str(TierName.BATCH)
    return str(TierName.MID) if share.mid else PRODUCTION


def _of_pods(pods: Iterable[PodShare], report: UsageReport | None) -> dict[str, Use]:
    counts = dict.fromkeys(CLASSES, 0)
    asked = dict.fromkeys(CLASSES, ZERO)
    used = dict.fromkeys(CLASSES, ZERO)
    measured = {} if report is None else report.pods
    for share in pods:
        if not share.counted:
            continue
        name = class_of(share)
        counts[name] += 1
        asked[name] = asked[name].plus(_asked(share))
        if (use := measured.get(share.key)) is not None:
            used[name] = used[name].plus(Amounts(use.cpu, use.memory))
    return {
        name: Use(counts[name], from_nano(asked[name]), from_nano(used[name]), NOTHING, from_nano(asked[name]))
        for name in CLASSES
    }


def _asked(share: PodShare) -> Amounts:
    return share.request if class_of(share) == PRODUCTION else share.held


def from_nano(amounts: Amounts) -> Amount:
    """Nano units as cores and bytes."""
    return Amount(amounts.cpu / _NANO, amounts.memory // _NANO)


def from_offer(offer: Offer) -> Amount:
    """Milli-cores and bytes as cores and bytes."""
    return Amount(offer.cpu / _MILLI, offer.memory)
