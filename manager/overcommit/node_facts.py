"""What the formula and the write rule need of a Node, derived once when it changes.

Two nodes with equal facts get equal decisions, so a heartbeat that changes nothing here costs no recomputation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koord.api import names, quantity
from koord.api.objects import Node, ResourceList
from koord.api.priority import PriorityBand
from koord.api.quantity import NANO, Family, InvalidQuantity
from manager.overcommit.amounts import ZERO, Amounts, read_amounts
from manager.overcommit.cpu_list import count_cpus

BATCH_NAMES: Final = (names.BATCH_CPU, names.BATCH_MEMORY)


class _Reservation(msgspec.Struct, frozen=True, rename="camel"):
    resources: ResourceList = {}
    reserved_cpus: str = msgspec.field(name="reservedCPUs", default="")


class _Allocation(msgspec.Struct, frozen=True):
    priority: str = ""
    resources: ResourceList = {}


class _ThirdParty(msgspec.Struct, frozen=True):
    allocations: tuple[_Allocation, ...] = ()


class _Origin(msgspec.Struct, frozen=True):
    resources: dict[str, Any] = {}


_RESERVATION = msgspec.json.Decoder(_Reservation | None)
_THIRD_PARTY = msgspec.json.Decoder(_ThirdParty | None)
_ORIGIN = msgspec.json.Decoder(_Origin | None)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. Amounts as in `Amounts`; batch numbers are milli-cores and bytes.

    published: per batch name the (capacity, allocatable) texts on the node. origin: the resources of the
    originExtendedAllocatable annotation, None when it is absent or unreadable. third_party: batch-cpu and
    batch-memory that other schedulers have handed out.
    """

    name: str
    labels: Mapping[str, str]
    strategy_annotation: str
    capacity: Amounts
    kubelet_reserved: Amounts
    annotation_reserved: Amounts
    third_party: tuple[int, int]
    published: Mapping[str, tuple[str | None, str | None]]
    origin: Mapping[str, Any] | None
    memory_family: Family = "decimal"
    problems: tuple[str, ...] = field(default=())


def derive(node: Node) -> NodeFacts:
    """The facts of a node. Raises InvalidQuantity when its own cpu or memory cannot be read."""
    annotations = node.metadata.annotations
    problems: list[str] = []
    capacity = read_amounts(node.status.capacity)
    allocatable = read_amounts(node.status.allocatable)
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels,
        strategy_annotation=annotations.get(names.ANNOTATION_COLOCATION_STRATEGY, ""),
        capacity=capacity,
        kubelet_reserved=Amounts(
            max(capacity.cpu - allocatable.cpu, 0), max(capacity.memory - allocatable.memory, 0)
        ),
        annotation_reserved=_reservation(annotations.get(names.ANNOTATION_NODE_RESERVATION), problems),
        third_party=_third_party(annotations.get(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS), problems),
        published={name: _published(node, name) for name in BATCH_NAMES},
        origin=_origin(annotations.get(names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE), problems),
        memory_family=quantity.family(node.status.capacity.get(names.MEMORY, "0")),
        problems=tuple(problems),
    )


def _published(node: Node, name: str) -> tuple[str | None, str | None]:
    capacity, allocatable = node.status.capacity.get(name), node.status.allocatable.get(name)
    return (None if capacity is None else str(capacity), None if allocatable is None else str(allocatable))


def _reservation(text: str | None, problems: list[str]) -> Amounts:
    if not text:
        return ZERO
    try:
        reservation = _RESERVATION.decode(text) or _Reservation()
        amounts = read_amounts(reservation.resources)
        if reservation.reserved_cpus:
            amounts = Amounts(count_cpus(reservation.reserved_cpus) * NANO, amounts.memory)
    except (msgspec.DecodeError, ValueError) as error:
        problems.append(_ignored(names.ANNOTATION_NODE_RESERVATION, text, error, "nothing is reserved by it"))
        return ZERO
    return amounts


def _third_party(text: str | None, problems: list[str]) -> tuple[int, int]:
    if not text:
        return 0, 0
    cpu = memory = 0
    try:
        for allocation in (_THIRD_PARTY.decode(text) or _ThirdParty()).allocations:
            if allocation.priority == PriorityBand.BATCH:
                cpu += quantity.nano(allocation.resources.get(names.BATCH_CPU, 0))
                memory += quantity.nano(allocation.resources.get(names.BATCH_MEMORY, 0))
    except (msgspec.DecodeError, InvalidQuantity) as error:
        problems.append(_ignored(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, text, error, "nothing is subtracted"))
        return 0, 0
    return cpu // NANO, memory // NANO


def _origin(text: str | None, problems: list[str]) -> Mapping[str, Any] | None:
    if not text:
        return None
    try:
        return (_ORIGIN.decode(text) or _Origin()).resources
    except msgspec.DecodeError as error:
        name = names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE
        problems.append(_ignored(name, text, error, "it will be rewritten"))
        return None


def _ignored(annotation: str, text: str, error: Exception, consequence: str) -> str:
    return f'annotation {annotation}: invalid value "{text[:100]}" ({error}); {consequence}'
