"""OpenAPI v3 (and a thin v2) of the served kinds, made from their field types. Pure but for importing the models."""

import hashlib
import re
from typing import Any

from sandbox.apiserver.fields import builtin
from sandbox.apiserver.fields.catalog import TypeCatalog
from sandbox.apiserver.fields.types import FieldType, Leaf, ListOf, MapOf, Scalar, Struct
from sandbox.apiserver.kinds import Kind, KindRegistry
from sandbox.apiserver.wire import swagger as wire

JsonObject = dict[str, Any]

_SCALARS: dict[Scalar, JsonObject] = {
    Scalar.STRING: {"type": "string"},
    Scalar.INTEGER: {"type": "integer", "format": "int64"},
    Scalar.NUMBER: {"type": "number", "format": "double"},
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.TIME: {"type": "string", "format": "date-time"},
    Scalar.BYTES: {"type": "string", "format": "byte"},
    Scalar.QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    Scalar.INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
_INFO = {"title": "Kubernetes", "version": "v1.37.0"}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_MODEL_NAME = re.compile(r"([A-Za-z]*?)V(\d+(?:alpha\d+|beta\d+)?)([A-Z].*)")
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_READ_PARAMETERS = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
    "allowWatchBookmarks",
)
_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def schema_name(model: str) -> str:
    """`io.k8s.v1.PodSpec` for the model V1PodSpec; kubectl explain shows the last part."""
    match = _MODEL_NAME.fullmatch(model)
    if not match:
        return f"io.k8s.{model}"
    prefix = f"{match[1].lower()}." if match[1] else ""
    return f"io.k8s.{prefix}v{match[2]}.{match[3]}"


class _Components:
    """Schemas of all structs that are reached."""

    def __init__(self) -> None:
        self.schemas: JsonObject = {}

    def schema(self, kind: FieldType) -> JsonObject:
        """The schema of a field; named structs become references."""
        described = {"description": kind.description} if kind.description else {}
        if isinstance(kind, Leaf):
            return {**self._scalar(kind.scalar), **described}
        if isinstance(kind, ListOf):
            return {"type": "array", "items": self.schema(kind.element), **_list_form(kind), **described}
        if isinstance(kind, MapOf):
            form = {"x-kubernetes-map-type": "atomic"} if kind.atomic else {}
            return {"type": "object", "additionalProperties": self.schema(kind.element), **form, **described}
        if isinstance(kind, Struct):
            if kind.name:
                return {"allOf": [self.reference(kind)], "default": {}}
            return self.object_schema(kind)
        return {"x-kubernetes-preserve-unknown-fields": True, **described}

    def _scalar(self, scalar: Scalar) -> JsonObject:
        if scalar is not Scalar.QUANTITY:
            return _SCALARS[scalar]
        self.schemas[_QUANTITY] = _SCALARS[scalar]
        return {"allOf": [{"$ref": f"#/components/schemas/{_QUANTITY}"}]}

    def reference(self, kind: Struct) -> JsonObject:
        """A $ref to a named struct, whose schema is added when it is new."""
        name = schema_name(kind.name)
        if name not in self.schemas:
            self.schemas[name] = {}  # types refer to themselves
            description = builtin.describe(kind.name)
            self.schemas[name] = {**self.object_schema(kind), "description": description}
        return {"$ref": f"#/components/schemas/{name}"}

    def object_schema(self, kind: Struct) -> JsonObject:
        """The schema of a struct, in place."""
        schema: JsonObject = {"type": "object"}
        if kind.description:
            schema["description"] = kind.description
        if kind.fields:
            schema["properties"] = {key: self.schema(member) for key, member in kind.fields.items()}
        if kind.required:
            schema["required"] = sorted(kind.required)
        if kind.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        if kind.extra is not None:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        return schema


def _list_form(kind: ListOf) -> JsonObject:
    if kind.keys:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(kind.keys)}
    return {"x-kubernetes-list-type": "set" if kind.unique else "atomic"}


def _parameter(name: str) -> JsonObject:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def _operation(kind: Kind, action: str, parameters: tuple[str, ...], reference: JsonObject) -> JsonObject:
    body = {"content": {"application/json": {"schema": reference}}}
    operation: JsonObject = {
        "responses": {"200": {"description": "OK", **body}},
        "parameters": [_parameter(name) for name in parameters],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if action in ("post", "put"):
        operation["requestBody"] = {**body, "required": True}
    if action == "patch":
        form = {"schema": {"type": "object"}}
        operation["requestBody"] = {"content": dict.fromkeys(_PATCH_TYPES, form), "required": True}
        operation["parameters"].append(_parameter("force"))
    return operation


def _gvk(kind: Kind) -> JsonObject:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind, reference: JsonObject) -> JsonObject:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{scope}/{kind.plural}"
    create = _operation(kind, "post", _WRITE_PARAMETERS, reference)
    if kind.verbs == ("create",):
        return {collection: {"post": create}}
    return {
        collection: {
            "get": _operation(kind, "list", _READ_PARAMETERS, reference),
            "post": create,
            "delete": _operation(kind, "deletecollection", _READ_PARAMETERS, reference),
        },
        collection + "/{name}": {
            "get": _operation(kind, "get", (), reference),
            "put": _operation(kind, "put", _WRITE_PARAMETERS, reference),
            "patch": _operation(kind, "patch", _WRITE_PARAMETERS, reference),
            "delete": _operation(kind, "delete", ("dryRun", "gracePeriodSeconds", "propagationPolicy"), reference),
        },
    }


class OpenApi:
    """Documents by group and version, built when asked for and kept until the kinds change."""

    def __init__(self, kinds: KindRegistry, types: TypeCatalog) -> None:
        self._kinds = kinds
        self._types = types
        self._revision = -1
        self._documents: dict[tuple[str, str], JsonObject] = {}

    def root(self) -> JsonObject:
        """The index of /openapi/v3."""
        paths: JsonObject = {}
        for group, versions in self._kinds.group_versions().items():
            for version in versions:
                key = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha256(f"{key} {self._kinds.revision}".encode()).hexdigest()[:32].upper()
                paths[key] = {"serverRelativeURL": f"/openapi/v3/{key}?hash={digest}"}
        return {"paths": paths}

    def document(self, group: str, version: str) -> JsonObject | None:
        """OpenAPI v3 of one version, None when it is not served."""
        if self._revision != self._kinds.revision:
            self._documents.clear()
            self._revision = self._kinds.revision
        found = self._documents.get((group, version))
        if found is None:
            kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
            if not kinds:
                return None
            found = self._documents[group, version] = self._build(kinds)
        return found

    def _build(self, kinds: list[Kind]) -> JsonObject:
        components = _Components()
        paths: JsonObject = {}
        for kind in kinds:
            struct = self._types.type_of(kind)
            name = schema_name(struct.name) if struct.name else _custom_name(kind)
            if struct.name:
                components.reference(struct)
            else:
                components.schemas[name] = components.object_schema(struct)
            components.schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
            paths |= _paths(kind, {"$ref": f"#/components/schemas/{name}"})
        return {
            "openapi": "3.0.0",
            "info": dict(_INFO),
            "paths": paths,
            "components": {"schemas": components.schemas},
        }


def _custom_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def swagger() -> JsonObject:
    """A thin OpenAPI v2 document: clients of today read v3."""
    return {"swagger": "2.0", "info": dict(_INFO), "paths": {}, "definitions": {}}


def swagger_protobuf() -> bytes:
    """The same in protobuf."""
    return wire.encode(_INFO["title"], _INFO["version"])
