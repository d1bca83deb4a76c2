"""What the formulas and the write rule need of a Node, derived once when it changes.

Two nodes with equal facts get equal decisions, so a heartbeat that changes nothing here costs no recomputation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from koord.api import names, quantity
from koord.api.objects import Node
from koord.api.quantity import Family, InvalidQuantity
from manager.overcommit import annotations
from manager.overcommit.amounts import Amounts, Offer, read_amounts
from manager.overcommit.annotations import NEVER_WRITTEN, LastOffer
from manager.overcommit.shortage import CONDITIONS, RESOURCE_NAMES, TierName

OFFER_NAMES: Final = (names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY)
DEVICE_NAMES: Final = (
    names.GPU,
    names.GPU_CORE,
    names.GPU_MEMORY,
    names.GPU_MEMORY_RATIO,
    names.GPU_SHARED,
    names.HUAWEI_NPU_CORE,
    names.HUAWEI_NPU_CPU,
    names.HUAWEI_NPU_DVPP,
    names.RDMA,
)
_OWNED: Final = frozenset(OFFER_NAMES + DEVICE_NAMES)
_OUR_CONDITIONS: Final = frozenset(CONDITIONS.values())

Shown = tuple[str | None, str | None]
"""The (capacity, allocatable) texts of a resource on a node."""
NOT_SHOWN: Final[Shown] = (None, None)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. Amounts as in `Amounts`; offers are milli-cores and bytes.

    published: the texts on the node of each owned resource name that is there. origin: the resources of the
    originExtendedAllocatable annotation, None when it is absent or unreadable. third_party: what other schedulers
    have handed out of batch. normalization, amplification: the annotations' texts. conditions: the status of our own
    conditions by type. last_offer: what was noted beside the last write, note: its text. empty_maps: those of the
    maps that the manager writes into which the node does not have, as JSON pointers.
    """

    name: str
    labels: Mapping[str, str]
    strategy_annotation: str
    capacity: Amounts
    kubelet_reserved: Amounts
    annotation_reserved: Amounts
    third_party: Offer
    published: Mapping[str, Shown]
    origin: Mapping[str, Any] | None
    memory_family: Family = "decimal"
    problems: tuple[str, ...] = field(default=())
    normalization: str | None = None
    amplification: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    last_offer: LastOffer = NEVER_WRITTEN
    note: str = ""
    empty_maps: tuple[str, ...] = ()

    def shown(self, tier: TierName) -> Offer | None:
        """What the node shows of a tier as allocatable; None when a name is missing or cannot be read."""
        amounts = []
        for name in RESOURCE_NAMES[tier]:
            text = self.published.get(name, NOT_SHOWN)[1]
            try:
                amounts.append(None if text is None else quantity.value(text))
            except InvalidQuantity:
                return None
        cpu, memory = amounts
        return None if cpu is None or memory is None else Offer(cpu, memory)


def derive(node: Node) -> NodeFacts:
    """The facts of a node. Raises InvalidQuantity when its own cpu or memory cannot be read."""
    written = node.metadata.annotations
    problems: list[str] = []
    capacity = read_amounts(node.status.capacity)
    allocatable = annotations.raw_allocatable(written.get(names.ANNOTATION_RAW_ALLOCATABLE), problems)
    if allocatable is None:
        allocatable = read_amounts(node.status.allocatable)
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels,
        strategy_annotation=written.get(names.ANNOTATION_COLOCATION_STRATEGY, ""),
        capacity=capacity,
        kubelet_reserved=Amounts(
            max(capacity.cpu - allocatable.cpu, 0), max(capacity.memory - allocatable.memory, 0)
        ),
        annotation_reserved=annotations.reservation(written.get(names.ANNOTATION_NODE_RESERVATION), problems),
        third_party=annotations.third_party(written.get(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS), problems),
        published=_published(node),
        origin=annotations.origin(written.get(names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE), problems),
        memory_family=quantity.family(node.status.capacity.get(names.MEMORY, "0")),
        problems=tuple(problems),
        normalization=written.get(names.ANNOTATION_CPU_NORMALIZATION_RATIO),
        amplification=written.get(names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO),
        conditions={found.type: found.status for found in node.status.conditions if found.type in _OUR_CONDITIONS},
        last_offer=annotations.last_offer(written.get(names.ANNOTATION_LAST_OFFER)),
        note=written.get(names.ANNOTATION_LAST_OFFER, ""),
        empty_maps=_empty_maps(node),
    )


def _empty_maps(node: Node) -> tuple[str, ...]:
    maps = (
        ("/status/capacity", node.status.capacity),
        ("/status/allocatable", node.status.allocatable),
        ("/metadata/annotations", node.metadata.annotations),
        ("/metadata/labels", node.metadata.labels),
    )
    return tuple(path for path, found in maps if not found)


def _published(node: Node) -> dict[str, Shown]:
    capacity, allocatable = node.status.capacity, node.status.allocatable
    return {
        name: (_text(capacity.get(name)), _text(allocatable.get(name)))
        for name in _OWNED & (capacity.keys() | allocatable.keys())
    }


def _text(amount: str | int | float | None) -> str | None:
    return None if amount is None else str(amount)
