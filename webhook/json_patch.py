"""RFC 6902 patches: single operations, the pointers they use, and the two ways to get a list of them. Pure.

The fast way builds operations where a change is made. The slow way, `diff`, compares whole documents and is
used only where a free-form patch may have changed anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from koord.api.objects import JsonObject


class Operation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One operation; `value` is unset for remove."""

    op: str
    path: str
    value: Any = msgspec.UNSET


@lru_cache(maxsize=8192)
def escape(key: str) -> str:
    """A key as a segment of a JSON pointer: ~ becomes ~0, / becomes ~1."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(segment: str) -> str:
    """The key that a segment of a JSON pointer names."""
    return segment.replace("~1", "/").replace("~0", "~")


def map_operations(
    pointer: str, original: Mapping[str, Any] | None, final: Mapping[str, Any], operations: list[Operation]
) -> None:
    """Append what turns the map at `pointer` from `original` (None: absent or null) into `final`.

    Nothing is ever removed here, and an existing map is never written as a whole: keys that the caller did
    not look at stay.
    """
    if original is None:
        if final:
            operations.append(Operation("add", pointer, dict(final)))
        return
    for key, value in final.items():
        if key not in original:
            operations.append(Operation("add", f"{pointer}/{escape(key)}", value))
        elif original[key] != value:
            operations.append(Operation("replace", f"{pointer}/{escape(key)}", value))


def diff(original: Any, final: Any) -> list[Operation]:
    """Operations that turn one document into the other.

    Lists of equal length are compared item by item, others replaced as a whole: exact, not minimal.
    """
    operations: list[Operation] = []
    _diff(original, final, "", operations)
    return operations


def _diff(original: Any, final: Any, pointer: str, operations: list[Operation]) -> None:
    if isinstance(original, dict) and isinstance(final, dict):
        gone = (key for key in original if key not in final)
        operations.extend(Operation("remove", f"{pointer}/{escape(key)}") for key in gone)
        for key, value in final.items():
            path = f"{pointer}/{escape(key)}"
            if key in original:
                _diff(original[key], value, path, operations)
            else:
                operations.append(Operation("add", path, value))
    elif isinstance(original, list) and isinstance(final, list) and len(original) == len(final):
        for place, (old, new) in enumerate(zip(original, final, strict=True)):
            _diff(old, new, f"{pointer}/{place}", operations)
    # A JSON true is not 1, though Python says they are equal.
    elif type(original) is not type(final) or original != final:
        operations.append(Operation("replace", pointer, final))


def apply_operations(document: JsonObject, operations: Iterable[Operation]) -> JsonObject:
    """The document after add, replace and remove operations on members of objects; the input is untouched.

    Copies only the objects on the way to a change. Raises KeyError or IndexError when a parent is missing.
    """
    result = dict(document)
    for operation in operations:
        *parents, last = [unescape(segment) for segment in operation.path.split("/")[1:]]
        target: Any = result
        for segment in parents:
            key = int(segment) if isinstance(target, list) else segment
            child = target[key]
            child = dict(child) if isinstance(child, dict) else list(child)
            target[key] = child
            target = child
        if operation.op == "remove":
            del target[last]
        else:
            target[last] = operation.value
    return result
