"""Sets of field paths, as metadata.managedFields spells them. Pure.

A path is a tuple of elements in FieldsV1 spelling: `f:name` a member, `k:{"name":"a"}` a list item by its keys,
`v:"a"` a member of a set. A set of paths is a plain Python set; a path in it means that the field itself is a
member, not what lies below.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandbox.apiserver.fields.types import ANYTHING, FieldType, ListOf, Struct, child, is_atomic

JsonObject = dict[str, Any]
Path = tuple[str, ...]
PathSet = set[Path]

_SERVER_OWNED = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_ALWAYS_THERE = frozenset(
    f"f:{name}"
    for name in ("containers", "jobTemplate", "metadata", "spec", "status", "strategy", "template", "updateStrategy")
)
# Nobody owns these: the server does.
STRIPPED: frozenset[Path] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _SERVER_OWNED)}
)


@dataclass
class Comparison:
    """How one document differs from another."""

    added: PathSet = field(default_factory=set)
    modified: PathSet = field(default_factory=set)
    removed: PathSet = field(default_factory=set)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.modified or self.removed)


def field_set(document: JsonObject, kind: FieldType) -> PathSet:
    """All fields that a document sets, without what the server owns."""
    found: PathSet = set()
    _collect(document, kind, (), found)
    return found - STRIPPED


def compare(old: JsonObject, new: JsonObject, kind: FieldType) -> Comparison:
    """The fields in which `new` differs from `old`, without what the server owns."""
    result = Comparison()
    _compare_maps(old, new, kind, (), result)
    return Comparison(result.added - STRIPPED, result.modified - STRIPPED, result.removed - STRIPPED)


def _collect(value: Any, kind: FieldType, path: Path, found: PathSet) -> None:
    if not value or is_atomic(kind, value):
        found.add(path)
    elif isinstance(value, dict):
        _collect_map(value, kind, path, found)
    else:
        keyed = keyed_items(value, kind)
        if keyed is None:
            found.add(path)
            return
        element = element_type(kind)
        for key, item in keyed.items():
            found.add((*path, key))
            if isinstance(item, dict):
                _collect_map(item, element, (*path, key), found)


def _collect_map(value: JsonObject, kind: FieldType, path: Path, found: PathSet) -> None:
    known = kind.fields if isinstance(kind, Struct) else {}
    for name, member in value.items():
        where = (*path, f"f:{name}")
        if name not in known:
            found.add(where)
        _collect(member, child(kind, name), where, found)


def _compare_maps(old: JsonObject, new: JsonObject, kind: FieldType, path: Path, result: Comparison) -> None:
    for name, member in new.items():
        where = (*path, f"f:{name}")
        if name not in old:
            _added(member, child(kind, name), where, result)
            if not isinstance(kind, Struct) or name not in kind.fields:
                result.added.add(where)
        elif old[name] != member:
            _compare(old[name], member, child(kind, name), where, result)
    for name in old.keys() - new.keys():
        where = (*path, f"f:{name}")
        result.removed.add(where)
        _collect(old[name], child(kind, name), where, result.removed)


def _added(member: Any, kind: FieldType, path: Path, result: Comparison) -> None:
    _collect(member, kind, path, result.added)
    for container, empty in _containers(member, kind, path):
        if container[-1] not in _ALWAYS_THERE:
            result.added.add(container)
        elif empty:
            result.added.discard(container)


def _containers(value: Any, kind: FieldType, path: Path) -> Iterator[tuple[Path, bool]]:
    """Maps and lists that a new value brings, and whether they are empty: an updater owns them as such, too.

    Structs that Go cannot leave out were there before in Kubernetes' eyes.
    """
    if not isinstance(value, dict | list) or is_atomic(kind, value):
        return
    yield path, not value
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _containers(member, child(kind, name), (*path, f"f:{name}"))
    else:
        for key, item in (keyed_items(value, kind) or {}).items():
            yield from _containers(item, element_type(kind), (*path, key))


def _compare(old: Any, new: Any, kind: FieldType, path: Path, result: Comparison) -> None:
    if is_atomic(kind, new) or is_atomic(kind, old) or type(old) is not type(new):
        result.modified.add(path)
    elif isinstance(new, dict):
        if not new:
            result.modified.add(path)
        _compare_maps(old, new, kind, path, result)
    else:
        _compare_lists(old, new, kind, path, result)


def _compare_lists(old: list[Any], new: list[Any], kind: FieldType, path: Path, result: Comparison) -> None:
    before, after = keyed_items(old, kind), keyed_items(new, kind)
    if before is None or after is None:
        result.modified.add(path)
        return
    element = element_type(kind)
    for key, item in after.items():
        where = (*path, key)
        if key not in before:
            result.added.add(where)
            if isinstance(item, dict):
                _collect_map(item, element, where, result.added)
        elif item != before[key]:
            _compare(before[key], item, element, where, result)
    for key in before.keys() - after.keys():
        result.removed.add((*path, key))
        if isinstance(before[key], dict):
            _collect_map(before[key], element, (*path, key), result.removed)


def element_type(kind: FieldType) -> FieldType:
    """The type of a list's items."""
    return kind.element if isinstance(kind, ListOf) else ANYTHING


def keyed_items(items: list[Any], kind: FieldType) -> dict[str, Any] | None:
    """Items of a map or set list by path element; None when the list can only be taken as a whole."""
    keyed: dict[str, Any] = {}
    for item in items:
        element = item_element(item, kind)
        if element is None or element in keyed:
            return None
        keyed[element] = item
    return keyed


def item_element(item: Any, kind: FieldType) -> str | None:
    """The path element of a list item, None when it lacks a key."""
    if not isinstance(kind, ListOf):
        return None
    if kind.unique:
        return f"v:{msgspec.json.encode(item).decode()}"
    if not kind.keys or not isinstance(item, dict):
        return None
    keys = {key: item.get(key, kind.defaults.get(key)) for key in kind.keys}
    if all(value is None for value in keys.values()):
        return None
    present = {key: keys[key] for key in sorted(keys) if keys[key] is not None}
    return f"k:{msgspec.json.encode(present).decode()}"


def to_fields_v1(paths: Iterable[Path]) -> JsonObject:
    """The nested FieldsV1 document of a set."""
    root: JsonObject = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_leaf_marks(root)


def _without_leaf_marks(node: JsonObject) -> JsonObject:
    if node.keys() == {"."}:
        return {}
    return {key: _without_leaf_marks(member) if key != "." else {} for key, member in node.items()}


def from_fields_v1(document: JsonObject) -> PathSet:
    """The set that a FieldsV1 document spells. Members that are no objects are skipped."""
    return set(_paths(document, ()))


def _paths(node: JsonObject, path: Path) -> Iterator[Path]:
    for key, member in node.items():
        if key == ".":
            yield path
        elif isinstance(member, dict):
            where = (*path, key)
            if member:
                yield from _paths(member, where)
            else:
                yield where


def spell(path: Path) -> str:
    """A path as conflict messages show it: `.spec.containers[name="a"].image`."""
    text = ""
    for element in path:
        tag, _, body = element.partition(":")
        if tag == "f":
            text += f".{body}"
        elif tag == "k":
            pairs = msgspec.json.decode(body, type=dict[str, Any])
            told = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in pairs.items())
            text += f"[{told}]"
        else:
            text += f"[={body}]"
    return text
