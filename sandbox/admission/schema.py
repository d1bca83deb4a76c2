"""Structural schemas of custom resources: prune what is unknown, fill defaults, validate.

A CustomResourceDefinition's openAPIV3Schema is compiled once into a StructuralSchema. Validation
is the jsonschema library's with a dialect of OpenAPI 3 as CRDs use it (boolean exclusive bounds,
nullable, x-kubernetes-int-or-string, list types, Kubernetes formats). CEL rules
(x-kubernetes-validations) are not evaluated.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from sandbox.admission.fields import FieldError
from sandbox.admission.request import JsonObject
from sandbox.admission.schema_errors import field_errors
from sandbox.admission.schema_formats import FORMATS

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_NOT_VALIDATED = {"default", "description", "title", "example", "externalDocs"}


class StructuralSchema:
    """One version's schema. The operations change the object that they are given, in place."""

    def __init__(self, open_api_v3_schema: JsonObject) -> None:
        self._schema = copy.deepcopy(open_api_v3_schema)
        root = _to_json_schema(self._schema)
        root.get("properties", {}).pop("metadata", None)  # ObjectMeta has its own validation
        self._validator: Validator = _DIALECT(root, format_checker=FORMATS)

    def prune(self, obj: JsonObject) -> list[str]:
        """Drop fields that the schema does not name; return their paths, e.g. `spec.colour`."""
        dropped: list[str] = []
        _prune(obj, self._schema, "", True, dropped)
        return dropped

    def apply_defaults(self, obj: JsonObject) -> None:
        """Set absent fields that have a default; drop nulls where null is no legal value."""
        _default(obj, self._schema)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Everything wrong with the object, in document order; empty when valid."""
        errors = self._validator.iter_errors(obj)
        return [found for error in errors for found in field_errors(error)]


def compile_schema(open_api_v3_schema: JsonObject) -> StructuralSchema:
    """Compile a CRD version's `schema.openAPIV3Schema`; the argument is not kept or changed."""
    return StructuralSchema(open_api_v3_schema)


def _prune(value: Any, schema: JsonObject, path: str, is_resource: bool, dropped: list[str]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                _prune(item, items, f"{path}[{index}]", bool(items.get(_EMBEDDED)), dropped)
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    keeps_unknown = bool(schema.get(_PRESERVE)) or additional is True
    for key in list(value):
        if is_resource and key in _ROOT_FIELDS:
            continue
        below = f"{path}.{key}" if path else key
        known = properties.get(key, additional if isinstance(additional, dict) else None)
        if known is not None:
            _prune(value[key], known, below, bool(known.get(_EMBEDDED)), dropped)
        elif not keeps_unknown:
            del value[key]
            dropped.append(below)


def _default(value: Any, schema: JsonObject) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                _default(item, items)
        return
    if not isinstance(value, dict):
        return
    for key, known in schema.get("properties", {}).items():
        if key in value and value[key] is None and not known.get("nullable"):
            del value[key]
        if key not in value and "default" in known:
            value[key] = copy.deepcopy(known["default"])
        if key in value:
            _default(value[key], known)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        for key, item in value.items():
            if key not in schema.get("properties", {}):
                _default(item, additional)


def _to_json_schema(schema: JsonObject) -> JsonObject:
    """Rewrite OpenAPI's nullable and Kubernetes' int-or-string into plain JSON schema words."""
    out = {key: value for key, value in schema.items() if key not in _NOT_VALIDATED}
    if out.pop(_INT_OR_STRING, False):
        out["type"] = ["integer", "string"]
        out.pop("anyOf", None)
    if "properties" in out:
        out["properties"] = {name: _to_json_schema(below) for name, below in out["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(out.get(key), dict):
            out[key] = _to_json_schema(out[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in out:
            out[key] = [_to_json_schema(below) for below in out[key]]
    if out.pop("nullable", False) and "type" in out:
        types = out["type"] if isinstance(out["type"], list) else [out["type"]]
        out["type"] = [*types, "null"]
        if "enum" in out:
            out["enum"] = [*out["enum"], None]
    return out


def _is_integer(_checker: object, instance: object) -> bool:
    if isinstance(instance, bool):
        return False
    return isinstance(instance, int) or (isinstance(instance, float) and instance.is_integer())


def _check_list_type(validator: Validator, kind: str, instance: object, schema: JsonObject) -> Iterator[Any]:
    if not isinstance(instance, list) or kind not in ("map", "set"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", [])
    seen: list[object] = []
    for index, item in enumerate(instance):
        identity: object = item
        if kind == "map":
            if not isinstance(item, dict):
                continue
            identity = {key: item.get(key) for key in keys}
        if identity in seen:
            yield jsonschema.ValidationError(
                "duplicate", validator="x-kubernetes-list-type", path=[index], instance=identity
            )
        seen.append(identity)


def _check_pattern(validator: Validator, pattern: str, instance: object, schema: JsonObject) -> Iterator[Any]:
    if isinstance(instance, str) and not re.search(pattern, instance):
        yield jsonschema.ValidationError("pattern", validator="pattern", validator_value=pattern)


_DIALECT: type[Validator] = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft4Validator,
    {"x-kubernetes-list-type": _check_list_type, "pattern": _check_pattern},
    type_checker=jsonschema.Draft4Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
