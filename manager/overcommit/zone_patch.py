"""Reading a NodeResourceTopology's zones, and the JSON Patch that makes them show what they offer of batch.

Only the two batch entries of each zone's resource list are owned. The patch begins by testing the resourceVersion
that it was decided on, so an index can never hit another entry.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from koord.api import names, quantity
from koord.api.quantity import InvalidQuantity
from koord.api.topology import NodeResourceTopology, Zone, ZoneResource
from manager.overcommit.amounts import ZERO, Amounts, Offer, read_amounts
from manager.overcommit.write_rule import WriteReason, moved
from manager.overcommit.zones import ZoneFacts

BATCH_NAMES = (names.BATCH_CPU, names.BATCH_MEMORY)
_NATIVE = (names.CPU, names.MEMORY)


class ZoneWrite(NamedTuple):
    """What to do with a topology object: the operations (none: nothing), why, and when a small difference becomes
    due."""

    operations: tuple[dict[str, Any], ...]
    reason: WriteReason
    retry_after_s: float | None = None


def read_zones(topology: NodeResourceTopology, problems: list[str]) -> list[ZoneFacts]:
    """The zones with their cpu and memory; empty when none states any. Nothing of a zone that cannot be read."""
    if not any(entry.name in _NATIVE for zone in topology.zones for entry in zone.resources):
        return []
    found = []
    for zone in topology.zones:
        stated = {
            entry.name: entry.allocatable
            for entry in zone.resources
            if entry.name in _NATIVE and entry.allocatable is not None
        }
        try:
            allocatable = read_amounts(stated)
        except InvalidQuantity as error:
            problems.append(f"NodeResourceTopology/{topology.metadata.name}: zone {zone.name}: {error}")
            allocatable = ZERO
        found.append(ZoneFacts(zone.name, Amounts(*allocatable)))
    return found


def zone_write(
    topology: NodeResourceTopology,
    offers: Sequence[Offer] | None,
    threshold: float,
    interval_s: float,
    since_last_write_s: float,
) -> ZoneWrite:
    """The patch that makes each zone offer its amount, by the same rule as on the node. offers None: remove."""
    wanted = [None] * len(topology.zones) if offers is None else list(offers)
    reason = _reason(topology, wanted, threshold)
    if reason is WriteReason.UNCHANGED:
        return ZoneWrite((), reason)
    if reason is WriteReason.BELOW_THRESHOLD:
        left_s = interval_s - since_last_write_s
        if left_s >= 0:
            return ZoneWrite((), reason, left_s)
        reason = WriteReason.OVERDUE
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": topology.metadata.resource_version}
    ]
    for index, (zone, offer) in enumerate(zip(topology.zones, wanted, strict=True)):
        operations += _zone_operations(index, zone, offer)
    return ZoneWrite(tuple(operations), reason)


def _reason(topology: NodeResourceTopology, wanted: Sequence[Offer | None], threshold: float) -> WriteReason:
    found = WriteReason.UNCHANGED
    for zone, offer in zip(topology.zones, wanted, strict=True):
        shown = {entry.name: entry for entry in zone.resources if entry.name in BATCH_NAMES}
        for position, name in enumerate(BATCH_NAMES):
            amount = None if offer is None else offer[position]
            entry = shown.get(name)
            if entry is None and amount is None:
                continue
            if entry is None:
                return WriteReason.APPEARS
            if amount is None:
                return WriteReason.DISAPPEARS
            for current in (entry.capacity, entry.allocatable, entry.available):
                current_milli = _milli(current)
                if current_milli == amount * 1000:
                    continue
                if current_milli is None or moved(current_milli, amount * 1000, threshold):
                    return WriteReason.MOVED
                found = WriteReason.BELOW_THRESHOLD
    return found


def _zone_operations(index: int, zone: Zone, offer: Offer | None) -> list[dict[str, Any]]:
    """Replace what is there, add in the order of names what is not, remove from the end what goes."""
    path = f"/zones/{index}/resources"
    present = [entry.name for entry in zone.resources]
    if offer is None:
        gone = [position for position, name in enumerate(present) if name in BATCH_NAMES]
        return [{"op": "remove", "path": f"{path}/{position}"} for position in reversed(gone)]
    operations: list[dict[str, Any]] = []
    for name, amount in zip(BATCH_NAMES, offer, strict=True):
        text = quantity.format_value(amount, _memory_family(zone) if name == names.BATCH_MEMORY else "decimal")
        value = {"name": name, "capacity": text, "allocatable": text, "available": text}
        if name in present:
            operations.append({"op": "replace", "path": f"{path}/{present.index(name)}", "value": value})
            continue
        position = next((at for at, other in enumerate(present) if other > name), len(present))
        present.insert(position, name)
        operations.append({"op": "add", "path": f"{path}/{position}", "value": value})
    return operations


def _memory_family(zone: Zone) -> quantity.Family:
    for entry in zone.resources:
        if entry.name == names.MEMORY:
            return _family(entry)
    return "decimal"


def _family(entry: ZoneResource) -> quantity.Family:
    try:
        return "decimal" if entry.allocatable is None else quantity.family(entry.allocatable)
    except InvalidQuantity:
        return "decimal"


def _milli(amount: quantity.QuantityText | None) -> int | None:
    try:
        return None if amount is None else quantity.milli(amount)
    except InvalidQuantity:
        return None
