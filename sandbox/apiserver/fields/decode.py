"""Reads a document against its type: unknown members, wrong JSON types, quantities in canonical form. Pure.

A real API server decodes built-in kinds into structs, which drops what it does not know, nulls and empty maps and
lists; this does the same. Custom kinds are only looked at: admission prunes them.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from koord.api import quantity
from sandbox.apiserver.fields.types import FieldType, Leaf, ListOf, MapOf, Scalar, Struct, child

JsonObject = dict[str, Any]

_INDEX = re.compile(r"\[\d+\]")
_VERSION_PREFIX = re.compile(r"^[A-Za-z]*?V\d+(?:alpha\d+|beta\d+)?(?=[A-Z])")

QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class WrongType(ValueError):  # noqa: N818
    """A member holds a JSON type that its field cannot; the message is in the API server's words.

    `owner` is the struct that the field belongs to, once it is known.
    """

    def __init__(self, what: str, path: str = "", expected: str = "") -> None:
        super().__init__(what)
        self._what = what
        self.path = path
        self._expected = expected
        self.owner = ""

    def __str__(self) -> str:
        if not self.path:
            return self._what
        place = ".".join(part for part in (self.owner, _INDEX.sub("", self.path)) if part)
        return f"{self._what} into Go struct field {place} of type {self._expected}"


@dataclass
class Decoded:
    """A document in the server's form, and the paths of the members it does not know."""

    document: JsonObject
    unknown: list[str] = field(default_factory=list)


def decode(document: JsonObject, kind: Struct) -> Decoded:
    """Read a built-in document. Raises WrongType. The input stays untouched."""
    decoded = Decoded({})
    decoded.document = _struct(document, kind, "", decoded.unknown)
    return decoded


def unknown_members(document: JsonObject, kind: Struct) -> list[str]:
    """Paths of the members that the type does not know, for custom kinds."""
    found: list[str] = []
    _look(document, kind, "", found)
    return found


def _struct(value: JsonObject, kind: Struct, path: str, unknown: list[str]) -> JsonObject:
    fields = kind.fields
    result: JsonObject = {}
    for key, member in value.items():
        if member is None:
            continue
        where = f"{path}.{key}" if path else key
        expected = fields.get(key) or kind.extra
        if expected is None:
            unknown.append(where)
            continue
        try:
            read = _value(member, expected, where, unknown)
        except WrongType as error:
            error.owner = error.owner or _go_name(kind.name)
            raise
        if read is not None:
            result[key] = read
    return result


def _value(value: Any, kind: FieldType, path: str, unknown: list[str]) -> Any:
    """The member in the server's form; None drops it."""
    if isinstance(kind, Leaf):
        return _leaf(value, kind.scalar, path)
    if isinstance(kind, Struct):
        if not isinstance(value, dict):
            raise _wrong(value, path, kind)
        return _struct(value, kind, path, unknown)
    if isinstance(kind, ListOf):
        if not isinstance(value, list):
            raise _wrong(value, path, kind)
        return _list(value, kind, path, unknown)
    if isinstance(kind, MapOf):
        if not isinstance(value, dict):
            raise _wrong(value, path, kind)
        return _map(value, kind, path, unknown)
    return value


def _list(value: list[Any], kind: ListOf, path: str, unknown: list[str]) -> list[Any] | None:
    items = []
    for index, item in enumerate(value):
        filled = {} if item is None and isinstance(kind.element, Struct) else item
        items.append(_value(filled, kind.element, f"{path}[{index}]", unknown))
    return items or None


def _map(value: JsonObject, kind: MapOf, path: str, unknown: list[str]) -> JsonObject | None:
    result = {}
    for key, item in value.items():
        where = f"{path}.{key}"
        try:
            result[key] = _value("" if item is None else item, kind.element, where, unknown)
        except WrongType as error:
            error.path = path if error.path == where else error.path
            raise
    return result or None


_ACCEPTED: dict[Scalar, tuple[type, ...]] = {
    Scalar.STRING: (str,),
    Scalar.TIME: (str,),
    Scalar.BYTES: (str,),
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.INT_OR_STRING: (int, str),
    Scalar.QUANTITY: (int, float, str),
}
_GO_NAMES = {
    Scalar.STRING: "string",
    Scalar.TIME: "Time",
    Scalar.BYTES: "[]uint8",
    Scalar.INTEGER: "int32",
    Scalar.NUMBER: "float64",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.BOOLEAN: "bool",
}


def _leaf(value: Any, scalar: Scalar, path: str) -> Any:
    if scalar is Scalar.BOOLEAN:
        if not isinstance(value, bool):
            raise _wrong(value, path, Leaf(scalar))
        return value
    if isinstance(value, float) and value.is_integer() and scalar is Scalar.INTEGER:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, _ACCEPTED[scalar]):
        raise _wrong(value, path, Leaf(scalar))
    if scalar is Scalar.QUANTITY:
        try:
            return quantity.canonical(value if isinstance(value, float) else str(value))
        except ValueError:
            raise WrongType(QUANTITY_RULE) from None
    return value


_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def _wrong(value: object, path: str, expected: FieldType) -> WrongType:
    found = _JSON_NAMES.get(type(value), "value")
    return WrongType(f"json: cannot unmarshal {found}", path, _go_type(expected))


def _go_type(kind: FieldType) -> str:
    if isinstance(kind, Leaf):
        return _GO_NAMES[kind.scalar]
    if isinstance(kind, ListOf):
        return f"[]{_go_type(kind.element)}"
    if isinstance(kind, MapOf):
        return f"map[string]{_go_type(kind.element)}"
    return f"v1.{_go_name(kind.name)}" if isinstance(kind, Struct) else "interface {}"


def _go_name(model: str) -> str:
    """`PodSpec` for the model V1PodSpec."""
    return _VERSION_PREFIX.sub("", model)


def _look(value: Any, kind: FieldType, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        for key, member in value.items():
            where = f"{path}.{key}" if path else key
            if isinstance(kind, Struct) and key not in kind.fields and kind.extra is None:
                found.append(where)
            else:
                _look(member, child(kind, key), where, found)
    elif isinstance(value, list) and isinstance(kind, ListOf):
        for index, item in enumerate(value):
            _look(item, kind.element, f"{path}[{index}]", found)
