"""Apply a Kubernetes strategic merge patch to an object; pure, the inputs stay untouched.

Same outcome as the API server (and as Koordinator's profile `patch`): maps merge recursively, `null`
deletes, lists are replaced unless the schema names a merge key (or says the list is a set of scalars).
Directives: `$patch: delete|replace`, `$retainKeys`, `$setElementOrder/<list>`,
`$deleteFromPrimitiveList/<list>`. A directive never reaches the result, also where the original has no
such field.

Order of a merged list: items that the patch names keep the patch's order, the others keep theirs; an
untouched item comes before a patch item only if both existed and it came first, so new items lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koord.api.merge_schema import UNTYPED, FieldRule, MergeSchema, merge_schema

__all__ = ["FieldRule", "MergeSchema", "StrategicMergeError", "merge_schema", "strategic_merge"]

JsonObject = dict[str, Any]

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ELEMENT_ORDER = "$setElementOrder/"
_DELETE_FROM_PRIMITIVES = "$deleteFromPrimitiveList/"


class StrategicMergeError(ValueError):
    """The patch cannot be applied: an unknown directive, or a list item without its merge key."""


def strategic_merge(original: Mapping[str, Any], patch: Mapping[str, Any], schema: MergeSchema) -> JsonObject:
    """The object that `patch` makes of `original`.

    Unchanged parts are shared with the inputs, so treat the result as read-only or copy it first.
    Raises StrategicMergeError naming the offending field.
    """
    return _merge_map(original, patch, schema, "")


def _merge_map(original: Mapping[str, Any], patch: Mapping[str, Any], schema: MergeSchema, path: str) -> JsonObject:
    directive = patch.get(_PATCH)
    if directive == "delete":
        return {}
    if directive == "replace":
        rest = {key: value for key, value in patch.items() if key != _PATCH}
        return _merge_map({}, rest, schema, path)
    if directive not in (None, "merge"):
        raise StrategicMergeError(
            f"{path or '.'}: unknown {_PATCH} directive {directive!r}: allowed: delete, merge, replace"
        )
    result = dict(original)
    if _RETAIN_KEYS in patch:
        _retain_keys(result, patch, path)
    orders = {
        key.removeprefix(_SET_ELEMENT_ORDER): _require_list(value, f"{path}.{key}")
        for key, value in patch.items()
        if key.startswith(_SET_ELEMENT_ORDER)
    }
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM_PRIMITIVES):
            _delete_scalars(result, key, value, path)
        elif not _is_directive(key):
            _merge_field(result, key, value, schema.rule(key), f"{path}.{key}", orders.get(key))
    for name, order in orders.items():
        current = result.get(name)
        if isinstance(current, list):
            live = original.get(name)
            result[name] = _arrange(
                current, order, live if isinstance(live, list) else [], schema.rule(name).merge_key
            )
    return result


def _is_directive(key: str) -> bool:
    return key.startswith("$") and (
        key in (_PATCH, _RETAIN_KEYS) or key.startswith((_SET_ELEMENT_ORDER, _DELETE_FROM_PRIMITIVES))
    )


def _merge_field(
    result: JsonObject, key: str, value: Any, rule: FieldRule, path: str, order: list[Any] | None
) -> None:
    if value is None:
        result.pop(key, None)
        return
    current = result.get(key)
    if isinstance(value, Mapping):
        base = current if isinstance(current, Mapping) and not rule.replaced else {}
        result[key] = _merge_map(base, value, rule.inner, path)
    elif isinstance(value, list):
        if order is not None:
            _check_order(value, order, rule.merge_key, path)
        if rule.merged:
            result[key] = _merge_list(current if isinstance(current, list) else [], value, rule, path)
        else:
            result[key] = [_without_nulls(item, path) for item in value]
    else:
        result[key] = value


def _without_nulls(value: Any, path: str) -> Any:
    """An item of a replaced list as stored: nulls and directives inside it mean nothing."""
    if isinstance(value, Mapping):
        return _merge_map({}, value, UNTYPED, path)
    if isinstance(value, list):
        return [_without_nulls(item, path) for item in value]
    return value


def _retain_keys(result: JsonObject, patch: Mapping[str, Any], path: str) -> None:
    keep = _require_list(patch[_RETAIN_KEYS], f"{path}.{_RETAIN_KEYS}")
    for key, value in patch.items():
        if value is not None and not _is_directive(key) and key not in keep:
            raise StrategicMergeError(f"{path}.{key}: set by the patch but not in its {_RETAIN_KEYS} {keep}")
    for key in [key for key in result if key not in keep]:
        del result[key]


def _delete_scalars(result: JsonObject, directive: str, values: Any, path: str) -> None:
    name = directive.removeprefix(_DELETE_FROM_PRIMITIVES)
    unwanted = _require_list(values, f"{path}.{directive}")
    current = result.get(name)
    if isinstance(current, list):
        result[name] = [item for item in current if item not in unwanted]


def _merge_list(original: list[Any], patch: list[Any], rule: FieldRule, path: str) -> list[Any]:
    if not rule.merge_key:
        return _merge_scalars(original, patch, path)
    live, items = _apply_list_directives(original, patch, rule.merge_key, path)
    merged = list(live)
    for item in items:
        key = _key_of(item, rule.merge_key, path)
        place = _index(merged, key, rule.merge_key)
        item_path = f"{path}[{rule.merge_key}={key}]"
        if place is None:
            merged.append(_merge_map({}, item, rule.inner, item_path))
        else:
            merged[place] = _merge_map(merged[place], item, rule.inner, item_path)
    return _arrange(merged, items, live, rule.merge_key)


def _merge_scalars(original: list[Any], patch: list[Any], path: str) -> list[Any]:
    if any(isinstance(item, Mapping | list) for item in (*original, *patch)):
        raise StrategicMergeError(f"{path}: items of this list must be scalars, not objects or lists")
    return _arrange(list(dict.fromkeys([*original, *patch])), patch, original, "")


def _apply_list_directives(
    original: list[Any], patch: list[Any], merge_key: str, path: str
) -> tuple[list[Any], list[Any]]:
    """Take the items with `$patch` out of `patch` and act on them: (what is left of original, of patch).

    As in the API server one item with `$patch: replace`, whatever else it says, replaces the whole list
    by the other items.
    """
    live, items, replace = list(original), [], False
    for item in patch:
        directive = item.get(_PATCH) if isinstance(item, Mapping) else None
        if directive == "delete":
            unwanted = _key_of(item, merge_key, path)
            live = [old for old in live if not _has_key(old, merge_key, unwanted)]
        elif directive == "replace":
            replace = True
        elif directive is None:
            items.append(item)
        else:
            raise StrategicMergeError(
                f"{path}: unknown {_PATCH} directive {directive!r} in a list: allowed: delete, replace"
            )
    return ([], items) if replace else (live, items)


def _key_of(item: Any, merge_key: str, path: str) -> Any:
    if not isinstance(item, Mapping):
        raise StrategicMergeError(f"{path}: items must be objects with merge key {merge_key!r}, got {item!r}")
    if item.get(merge_key) is None:
        raise StrategicMergeError(f"{path}: item {dict(item)!r} does not contain its merge key {merge_key!r}")
    return item[merge_key]


def _has_key(item: Any, merge_key: str, key: Any) -> bool:
    return isinstance(item, Mapping) and bool(item.get(merge_key) == key)


def _index(items: Sequence[Any], key: Any, merge_key: str) -> int | None:
    for place, item in enumerate(items):
        if _has_key(item, merge_key, key):
            return place
    return None


def _arrange(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Order `merged`: what `order` names in its order, the rest woven in by the order in `live`."""
    wanted, before = _places(order, merge_key), _places(live, merge_key)
    keyed = [(_identity(item, merge_key), item) for item in merged]
    nowhere = len(live)
    named = sorted((pair for pair in keyed if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [(before.get(key, nowhere), item) for key, item in keyed if key not in wanted]
    others.sort(key=lambda pair: pair[0])
    result: list[Any] = []
    woven = 0
    for key, item in named:
        old_place = before.get(key, -1)
        # A new item has no old place: nothing goes before it. Others go before what they preceded.
        while woven < len(others) and others[woven][0] < old_place:
            result.append(others[woven][1])
            woven += 1
        result.append(item)
    return result + [item for _, item in others[woven:]]


def _places(items: list[Any], merge_key: str) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item, merge_key), place)
    return places


def _identity(item: Any, merge_key: str) -> Any:
    key = item.get(merge_key) if merge_key and isinstance(item, Mapping) else item
    return repr(key) if isinstance(key, Mapping | list) else key


def _check_order(items: list[Any], order: list[Any], merge_key: str, path: str) -> None:
    """The patch's own items must follow its $setElementOrder list."""
    order_keys = [_key_of(item, merge_key, path) if merge_key else item for item in order]
    position = -1
    for item in items:
        if isinstance(item, Mapping) and _PATCH in item:
            continue
        key = _key_of(item, merge_key, path) if merge_key else item
        try:
            position = order_keys.index(key, position + 1)
        except ValueError:
            raise StrategicMergeError(
                f"{path}: the items of the patch do not follow {_SET_ELEMENT_ORDER}: {key!r} is missing or"
                f" out of order in {order_keys}"
            ) from None


def _require_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise StrategicMergeError(f"{path}: must be a list, got {type(value).__name__}")
    return value
