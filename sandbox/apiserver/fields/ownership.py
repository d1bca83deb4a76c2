"""Who owns which field: metadata.managedFields read, updated by a write, and written again. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.fields import sets
from sandbox.apiserver.fields.types import FieldType

JsonObject = dict[str, Any]

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True)
class Manager:
    """The identity of one entry."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True)
class Owned:
    """What a manager owns, and the time (RFC 3339) it last changed any of it."""

    paths: frozenset[sets.Path]
    time: str


Owners = Mapping[Manager, Owned]


def read(document: JsonObject | None) -> dict[Manager, Owned]:
    """The owners that a document records; entries that cannot be understood are dropped."""
    entries = ((document or {}).get("metadata") or {}).get("managedFields") or []
    owners: dict[Manager, Owned] = {}
    for entry in entries:
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        if not isinstance(fields, dict) or entry.get("operation") not in (APPLY, UPDATE):
            continue
        manager = Manager(
            entry.get("manager", ""), entry["operation"], entry.get("apiVersion", ""), entry.get("subresource", "")
        )
        paths = frozenset(sets.from_fields_v1(fields))
        if manager in owners:
            paths |= owners[manager].paths
        owners[manager] = Owned(paths, entry.get("time", ""))
    return owners


def write(owners: Owners) -> list[JsonObject]:
    """The managedFields list, in the API server's order."""
    ordered = sorted(
        owners.items(), key=lambda item: (item[0].operation, item[1].time, item[0].name, item[0].subresource)
    )
    return [_entry(manager, owned) for manager, owned in ordered if owned.paths]


def _entry(manager: Manager, owned: Owned) -> JsonObject:
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": sets.to_fields_v1(owned.paths),
    }
    if not owned.time:
        del entry["time"]
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def after_update(
    old: JsonObject | None, new: JsonObject, kind: FieldType, manager: Manager, now: str
) -> list[JsonObject]:
    """The managedFields of `new` after `manager` wrote it over `old` (None: it creates it).

    What `new` itself carries there is trusted, as clients may edit it; absent, the old ones go on.
    """
    carried = "managedFields" in new["metadata"] or old is None
    owners = read(new if carried else old)
    change = sets.compare(old or {}, new, kind)
    if change.same:
        return write(owners)
    return write(changed(owners, change, manager, now, take=True))


def changed(
    owners: Owners, change: sets.Comparison, manager: Manager, now: str, *, take: bool
) -> dict[Manager, Owned]:
    """Owners after a change by `manager`: others lose what was modified or removed; with `take` it gains the rest."""
    written = change.added | change.modified
    gone = written | change.removed
    result = {
        other: owned if other == manager or not owned.paths & gone else Owned(owned.paths - gone, owned.time)
        for other, owned in owners.items()
    }
    if take:
        before = owners[manager].paths if manager in owners else frozenset()
        after = (before | written) - change.removed
        if after != before or written:
            result[manager] = Owned(frozenset(after), now)
    return {other: owned for other, owned in result.items() if owned.paths}
