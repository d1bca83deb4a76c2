"""Types of custom kinds, read from their structural OpenAPI v3 schema. Pure."""

from typing import Any

from sandbox.apiserver.fields import builtin
from sandbox.apiserver.fields.types import ANYTHING, Anything, FieldType, Leaf, ListOf, MapOf, Scalar, Struct

JsonObject = dict[str, Any]

_SCALARS = {
    "string": Scalar.STRING,
    "integer": Scalar.INTEGER,
    "number": Scalar.NUMBER,
    "boolean": Scalar.BOOLEAN,
}


def type_of_schema(schema: JsonObject | None) -> Struct:
    """The type of a whole custom object; apiVersion, kind and metadata are always known."""
    found = _type(schema or {"x-kubernetes-preserve-unknown-fields": True})
    members = dict(found.fields) if isinstance(found, Struct) else {}
    members |= {
        "apiVersion": Leaf(Scalar.STRING),
        "kind": Leaf(Scalar.STRING),
        "metadata": builtin.struct("V1ObjectMeta"),
    }
    extra = found.extra if isinstance(found, Struct) else ANYTHING
    return Struct(members, extra=extra, description=(schema or {}).get("description", ""))


def _type(schema: JsonObject) -> FieldType:
    description = schema.get("description", "")
    if schema.get("x-kubernetes-int-or-string"):
        return Leaf(Scalar.INT_OR_STRING, description)
    if schema.get("type") == "array":
        return _list(schema, description)
    if schema.get("type") == "object" or "properties" in schema or "additionalProperties" in schema:
        return _object(schema, description)
    scalar = _SCALARS.get(schema.get("type", ""))
    return Leaf(scalar, description) if scalar else Anything(description)


def _list(schema: JsonObject, description: str) -> ListOf:
    element = _type(schema.get("items") or {})
    form = schema.get("x-kubernetes-list-type", "atomic")
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if form == "map" else ()
    properties = (schema.get("items") or {}).get("properties") or {}
    defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return ListOf(element, keys=keys, unique=form == "set", defaults=defaults, description=description)


def _object(schema: JsonObject, description: str) -> FieldType:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    additional = schema.get("additionalProperties")
    if schema.get("x-kubernetes-embedded-resource"):
        preserve = True
    if isinstance(additional, dict) and not schema.get("properties"):
        return MapOf(_type(additional), atomic=atomic, description=description)
    extra: FieldType | None = ANYTHING if preserve or additional is True else None
    if isinstance(additional, dict):
        extra = _type(additional)
    members = {key: _type(member) for key, member in (schema.get("properties") or {}).items()}
    required = frozenset(schema.get("required") or ())
    return Struct(members, extra=extra, atomic=atomic, required=required, description=description)
