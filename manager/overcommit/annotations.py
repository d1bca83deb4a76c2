"""What people and other programs write into a node's annotations, read leniently: what cannot be read is ignored and
named."""

from collections.abc import Mapping
from typing import Any

import msgspec

from koord.api import names, quantity
from koord.api.objects import ResourceList
from koord.api.priority import PriorityBand
from koord.api.quantity import NANO, InvalidQuantity
from koord.api.timestamps import parse_rfc3339
from manager.overcommit.amounts import NO_OFFER, ZERO, Amounts, Offer, read_amounts
from manager.overcommit.cpu_list import count_cpus


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


class LastOffer(msgspec.Struct, frozen=True):
    """What the manager noted beside its last write: at (RFC 3339), why (the write rule's reason), by whom, and the
    time of the report it was decided on."""

    at: str = ""
    why: str = ""
    by: str = ""
    report: str = ""

    @property
    def at_s(self) -> float | None:
        """When, in epoch seconds; None when it cannot be read."""
        try:
            return parse_rfc3339(self.at)
        except ValueError:
            return None


NEVER_WRITTEN = LastOffer()
_RESERVATION = msgspec.json.Decoder(_Reservation | None)
_THIRD_PARTY = msgspec.json.Decoder(_ThirdParty | None)
_ORIGIN = msgspec.json.Decoder(_Origin | None)
_LAST = msgspec.json.Decoder(LastOffer | None)
_RAW = msgspec.json.Decoder(ResourceList | None)


def reservation(text: str | None, problems: list[str]) -> Amounts:
    """What the reservation annotation keeps for other uses."""
    if not text:
        return ZERO
    try:
        stated = _RESERVATION.decode(text) or _Reservation()
        amounts = read_amounts(stated.resources)
        if stated.reserved_cpus:
            amounts = Amounts(count_cpus(stated.reserved_cpus) * NANO, amounts.memory)
    except (msgspec.DecodeError, ValueError) as error:
        problems.append(_ignored(names.ANNOTATION_NODE_RESERVATION, text, error, "nothing is reserved by it"))
        return ZERO
    return amounts


def third_party(text: str | None, problems: list[str]) -> Offer:
    """What other schedulers have handed out of the batch resources."""
    if not text:
        return NO_OFFER
    cpu = memory = 0
    try:
        for allocation in (_THIRD_PARTY.decode(text) or _ThirdParty()).allocations:
            if allocation.priority == PriorityBand.BATCH:
                cpu += quantity.nano(allocation.resources.get(names.BATCH_CPU, 0))
                memory += quantity.nano(allocation.resources.get(names.BATCH_MEMORY, 0))
    except (msgspec.DecodeError, InvalidQuantity) as error:
        problems.append(_ignored(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, text, error, "nothing is subtracted"))
        return NO_OFFER
    return Offer(cpu // NANO, memory // NANO)


def origin(text: str | None, problems: list[str]) -> Mapping[str, Any] | None:
    """The resources of the origin annotation; None when it is absent or unreadable."""
    if not text:
        return None
    try:
        return (_ORIGIN.decode(text) or _Origin()).resources
    except msgspec.DecodeError as error:
        name = names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE
        problems.append(_ignored(name, text, error, "it will be rewritten"))
        return None


def last_offer(text: str | None) -> LastOffer:
    """What was noted beside the last write; empty when nothing readable was."""
    if not text:
        return NEVER_WRITTEN
    try:
        return _LAST.decode(text) or NEVER_WRITTEN
    except msgspec.DecodeError:
        return NEVER_WRITTEN


def raw_allocatable(text: str | None, problems: list[str]) -> Amounts | None:
    """cpu and memory as the kubelet reports them, of a node whose resources are amplified; None when it is not."""
    if not text:
        return None
    try:
        found = _RAW.decode(text) or {}
        return read_amounts(found) if names.CPU in found and names.MEMORY in found else None
    except (msgspec.DecodeError, InvalidQuantity) as error:
        problems.append(_ignored(names.ANNOTATION_RAW_ALLOCATABLE, text, error, "status.allocatable counts"))
        return None


def _ignored(annotation: str, text: str, error: Exception, consequence: str) -> str:
    return f'annotation {annotation}: invalid value "{text[:100]}" ({error}); {consequence}'
