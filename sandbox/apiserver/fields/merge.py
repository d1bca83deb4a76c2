"""Server-side apply: an applied configuration over the live document, with ownership and conflicts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.fields import last_applied, ownership, sets
from sandbox.apiserver.fields.ownership import Manager, Owned, Owners
from sandbox.apiserver.fields.types import FieldType, child, is_atomic

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class FieldConflict:
    """A field that the applied configuration wants to change and another manager owns."""

    manager: Manager
    field: sets.Path
    time: str

    @property
    def path(self) -> str:
        """The field as messages show it."""
        return sets.spell(self.field)

    def sentence(self) -> str:
        """`conflict with "kubectl"`; of an updater also its version and the time of its entry."""
        return f"conflict with {self.owner()}"

    def owner(self) -> str:
        """The manager as messages show it."""
        told = f'"{self.manager.name}"'
        if self.manager.subresource:
            told += f' with subresource "{self.manager.subresource}"'
        if self.manager.operation == ownership.UPDATE:
            told += f" using {self.manager.api_version}" + (f" at {self.time}" if self.time else "")
        return told


class ApplyConflict(Exception):  # noqa: N818
    """Other managers own fields that the configuration would change."""

    def __init__(self, conflicts: Sequence[FieldConflict]) -> None:
        super().__init__(summary(conflicts))
        self.conflicts = tuple(conflicts)


def summary(conflicts: Sequence[FieldConflict]) -> str:
    """The message of the 409, grouped by manager as kubectl shows it."""
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: {conflicts[0].sentence()}: {conflicts[0].path}"
    grouped: dict[str, list[str]] = {}
    for conflict in conflicts:
        grouped.setdefault(conflict.owner(), []).append(conflict.path)
    lines = [
        f"conflicts with {told}:\n" + "\n".join(f"- {path}" for path in paths) for told, paths in grouped.items()
    ]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


@dataclass(frozen=True)
class Applied:
    """The merged document (its managedFields set), and whether anything but ownership changed."""

    document: JsonObject
    changed: bool


def apply_over_last_applied(
    live: JsonObject, config: JsonObject, kind: FieldType, manager: Manager, now: str, *, force: bool
) -> Applied:
    """As `apply`; for kubectl, which applied on the client's side before, its own earlier fields are no conflicts."""
    if manager.name != last_applied.MANAGER:
        return apply(live, config, kind, manager, now, force=force)
    try:
        applied = apply(live, config, kind, manager, now, force=force)
    except ApplyConflict as error:
        allowed = last_applied.allowed_conflicts(live, kind)
        left = [conflict for conflict in error.conflicts if conflict.field not in allowed]
        if left:
            raise ApplyConflict(left) from None
        applied = apply(live, config, kind, manager, now, force=True)
    return Applied(last_applied.kept_current(applied.document, config), applied.changed)


def apply(
    live: JsonObject, config: JsonObject, kind: FieldType, manager: Manager, now: str, *, force: bool
) -> Applied:
    """Apply `config` as `manager`. `live` is {} for an object to be created. Raises ApplyConflict."""
    owners = ownership.read(live)
    previous = owners.get(manager)
    wanted = frozenset(sets.field_set(config, kind) - sets.STRIPPED)
    merged = _merge(live, config, kind)
    stale = (previous.paths if previous else frozenset()) - wanted
    others = {other: owned for other, owned in owners.items() if other != manager}
    pruned = _prune(merged, kind, stale, wanted.union(*(owned.paths for owned in others.values())))
    change = sets.compare(live, pruned, kind)
    conflicts = _conflicts(others, change)
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    kept = ownership.changed(others, change, manager, now, take=False)
    time = previous.time if previous and previous.paths == wanted and change.same else now
    kept[manager] = Owned(wanted, time)
    metadata = {**pruned.get("metadata", {}), "managedFields": ownership.write(kept)}
    return Applied({**pruned, "metadata": metadata}, not change.same)


def _conflicts(others: Owners, change: sets.Comparison) -> list[FieldConflict]:
    written = change.added | change.modified
    return [
        FieldConflict(other, path, owned.time)
        for other, owned in sorted(others.items(), key=lambda item: item[0].name)
        for path in sorted(owned.paths & written)
    ]


def _merge(live: Any, config: Any, kind: FieldType) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not is_atomic(kind, config):
        merged = dict(live)
        for name, member in config.items():
            known = merged.get(name)
            merged[name] = member if known is None else _merge(known, member, child(kind, name))
        return merged
    if isinstance(live, list) and isinstance(config, list) and not is_atomic(kind, config):
        return _merge_lists(live, config, kind)
    return config


def _merge_lists(live: list[Any], config: list[Any], kind: FieldType) -> list[Any]:
    """Items of both; those of both stand in the applied order, live-only ones come before new ones of their place."""
    before, wanted = sets.keyed_items(live, kind), sets.keyed_items(config, kind)
    if before is None or wanted is None:
        return config
    element = sets.element_type(kind)
    merged = {key: _merge(before[key], item, element) if key in before else item for key, item in wanted.items()}
    return [merged[key] if key in merged else before[key] for key in _merged_order(list(before), list(wanted))]


def _merged_order(live: list[str], wanted: list[str]) -> list[str]:
    """The keys of both lists without repetition."""
    in_live, in_wanted = set(live), set(wanted)
    shared = [key for key in wanted if key in in_live]
    order: list[str] = []
    left, right = 0, 0
    while left < len(live) or right < len(wanted):
        key = live[left] if left < len(live) else ""
        if key and key not in in_wanted:
            order.append(key)
            left += 1
        elif key and shared and key != shared[0] and right < len(wanted):
            left += 1  # its place is where the applied list has it
        elif right < len(wanted):
            taken = wanted[right]
            order.append(taken)
            right += 1
            if shared and taken == shared[0]:
                shared.pop(0)
            if taken == key:
                left += 1
        else:
            left += 1
    return order


def _prune(
    document: JsonObject, kind: FieldType, stale: frozenset[sets.Path], owned: frozenset[sets.Path]
) -> JsonObject:
    """Remove what the manager applied before and no longer does, where nobody else owns it or anything below."""
    if not stale - owned:
        return document
    ancestors = {path[:depth] for path in owned for depth in range(1, len(path) + 1)}
    gone = {path for path in stale if path not in ancestors}
    return _Pruning(gone, owned).without(document, kind, ()) or {} if gone else document


@dataclass(frozen=True)
class _Pruning:
    """What to take out, and the owned fields, which stay even when that empties them."""

    gone: set[sets.Path]
    owned: frozenset[sets.Path]

    def without(self, value: Any, kind: FieldType, path: sets.Path) -> Any:
        """The value without what is gone; None when that emptied it."""
        if is_atomic(kind, value) or not value:
            return value
        left = self._map(value, kind, path) if isinstance(value, dict) else self._list(value, kind, path)
        return left if left or path in self.owned else None

    def _map(self, value: JsonObject, kind: FieldType, path: sets.Path) -> JsonObject:
        kept = {}
        for name, member in value.items():
            where = (*path, f"f:{name}")
            if where in self.gone:
                continue
            left = self.without(member, child(kind, name), where)
            if left is not None or member is None:
                kept[name] = left
        return kept

    def _list(self, value: list[Any], kind: FieldType, path: sets.Path) -> list[Any]:
        keyed = sets.keyed_items(value, kind)
        if keyed is None:
            return value
        items = []
        for key, item in keyed.items():
            if (*path, key) not in self.gone:
                left = self.without(item, sets.element_type(kind), (*path, key))
                items.append({} if left is None else left)
        return items
