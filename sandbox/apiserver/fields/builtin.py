"""Types of the built-in kinds, read from the models of the kubernetes client package.

The models are imported on first use (about a second), never at start.
"""

import importlib
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from sandbox.apiserver.fields import list_keys
from sandbox.apiserver.fields.types import ANYTHING, Anything, FieldType, Leaf, ListOf, MapOf, Scalar, Struct
from sandbox.apiserver.kinds import Kind

_SCALARS = {
    "str": Scalar.STRING,
    "int": Scalar.INTEGER,
    "float": Scalar.NUMBER,
    "bool": Scalar.BOOLEAN,
    "datetime": Scalar.TIME,
    "bytes": Scalar.BYTES,
}


@cache
def _models() -> Any:
    return importlib.import_module("kubernetes.client.models")


def _model(name: str) -> Any:
    return getattr(_models(), name, None)


def type_of(kind: Kind) -> Struct | None:
    """The type of a built-in kind, or None when no model describes it."""
    name = model_name(kind)
    return struct(name) if _model(name) is not None else None


def model_name(kind: Kind) -> str:
    """`V1Pod`; kinds that share a name carry their model's in the registry."""
    return kind.model or f"V{kind.version[1:]}{kind.kind}"


@cache
def struct(name: str) -> "ModelStruct":
    """The struct of a model by its class name."""
    return ModelStruct(name)


class ModelStruct(Struct):
    """A struct that reads its members from a generated model when they are first asked for."""

    def __init__(self, name: str) -> None:
        super().__init__({}, name=name, atomic=name in list_keys.ATOMIC_STRUCTS)

    @cached_property
    def _members(self) -> tuple[Mapping[str, FieldType], frozenset[str]]:
        model = _model(self.name)
        fields: dict[str, FieldType] = {}
        required = set()
        infos = {info.serialization_alias or name: info for name, info in model.model_fields.items()}
        for attribute, text in model.openapi_types.items():
            key = model.attribute_map[attribute]
            info = infos[key]
            fields[key] = _member(self.name, key, text, info.description or "")
            if info.is_required():
                required.add(key)
        if self.name == "V1Secret":
            fields.setdefault("stringData", MapOf(Leaf(Scalar.STRING)))
        return fields, frozenset(required)

    @property
    def fields(self) -> Mapping[str, FieldType]:
        """Members by JSON name."""
        return self._members[0]

    @property
    def required(self) -> frozenset[str]:
        """Members that must be there."""
        return self._members[1]


_GENERIC = re.compile(r"(List|Dict)\[(?:str, )?(.*)\]")


def _member(model: str, key: str, text: str, description: str) -> FieldType:
    if match := _GENERIC.fullmatch(text):
        if match[1] == "List":
            return ListOf(
                _element(match[2]),
                keys=list_keys.MAP_LISTS.get((model, key), ()),
                unique=(model, key) in list_keys.SET_LISTS,
                defaults=list_keys.KEY_DEFAULTS.get((model, key), {}),
                description=description,
            )
        quantities = match[2] == "str" and key in list_keys.QUANTITY_MAPS
        element = Leaf(Scalar.QUANTITY) if quantities else _element(match[2])
        return MapOf(element, atomic=(model, key) in list_keys.ATOMIC_MAPS, description=description)
    if (model, key) in list_keys.QUANTITY_MEMBERS:
        return Leaf(Scalar.QUANTITY, description)
    if (model, key) in list_keys.INT_OR_STRING_MEMBERS:
        return Leaf(Scalar.INT_OR_STRING, description)
    if text in _SCALARS:
        return Leaf(_SCALARS[text], description)
    return _element(text) if _model(text) is not None else Anything(description)


def _element(text: str) -> FieldType:
    if match := _GENERIC.fullmatch(text):
        inner = _element(match[2])
        return ListOf(inner) if match[1] == "List" else MapOf(inner)
    if text in _SCALARS:
        return Leaf(_SCALARS[text])
    return struct(text) if _model(text) is not None else ANYTHING


def describe(struct_name: str) -> str:
    """The documentation text of a model, without what the generator says about its Python class."""
    return str(_model(struct_name).__doc__ or "").partition("Attributes:")[0].strip()
