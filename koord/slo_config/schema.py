"""A small schema for configuration fragments: what fields exist, their types, how two fragments combine.

A fragment is a JSON object where every field may be missing. Decoding drops nulls and unknown fields (these are
reported), accepts field names in any letter case (as Go's decoder does, so existing files keep working) and
refuses a wrong type or a value that the CRDs would refuse, with the path. Combining never changes its arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from koord.api import quantity
from koord.api.errors import InvalidInput
from koord.slo_config import go_duration

Json: TypeAlias = Any
Fragment: TypeAlias = dict[str, Any]
"""A decoded object: canonical field names, no nulls."""
ScalarKind = Literal["bool", "int", "float", "string", "quantity", "duration", "int-or-string", "any"]

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf. `minimum`/`maximum` bound numbers; `empty_is_absent` makes "" mean "not stated"."""

    kind: ScalarKind
    minimum: int = -INT64_MAX - 1
    maximum: int = INT64_MAX
    empty_is_absent: bool = False
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. Combining goes by index and cuts to the overlay's length; an empty overlay says nothing."""

    item: "Schema"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A free-form map. Combining replaces the value of each stated key. `known`: keys with a schema of their own,
    which combine by it."""

    item: "Schema"
    known: Mapping[str, "Schema"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known fields."""

    fields: Mapping[str, "Schema"]
    _by_lower: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_lower", {name.lower(): name for name in self.fields})

    def canonical_name(self, written: str) -> str | None:
        """The field that a written key means; None for an unknown one."""
        return written if written in self.fields else self._by_lower.get(written.lower())


Schema: TypeAlias = Scalar | ListOf | MapOf | Record


class FragmentReader:
    """Decodes one document and remembers the unknown fields it met, for a warning."""

    def __init__(self, object_ref: str) -> None:
        self._object_ref = object_ref
        self.unknown_fields: list[str] = []

    def read(self, schema: Schema, found: Json, path: str) -> Json:
        """The value in canonical form. Raises InvalidInput at the first wrong type or range."""
        if isinstance(schema, Record):
            return self._read_record(schema, found, path)
        if isinstance(schema, MapOf):
            entries = self._require(found, dict, path, "an object")
            return {
                key: self.read(schema.known.get(key, schema.item), item, f"{path}.{key}")
                for key, item in entries.items()
                if item is not None
            }
        if isinstance(schema, ListOf):
            items = self._require(found, list, path, "a list")
            return [self.read(schema.item, item, f"{path}[{index}]") for index, item in enumerate(items)]
        return self._read_scalar(schema, found, path)

    def _read_record(self, schema: Record, found: Json, path: str) -> Fragment:
        result: Fragment = {}
        for written, value in self._require(found, dict, path, "an object").items():
            name = schema.canonical_name(written)
            if name is None:
                self.unknown_fields.append(f"{path}.{written}" if path else written)
                continue
            if value is None:
                continue
            read = self.read(schema.fields[name], value, f"{path}.{name}" if path else name)
            if not _says_nothing(schema.fields[name], read):
                result[name] = read
        return result

    def _read_scalar(self, schema: Scalar, found: Json, path: str) -> Json:
        match schema.kind:
            case "bool":
                return self._require(found, bool, path, "true or false")
            case "int":
                return self._read_int(schema, found, path)
            case "float":
                return self._read_float(schema, found, path)
            case "string":
                return self._read_text(schema, found, path)
            case "quantity":
                return self._read_quantity(found, path)
            case "duration":
                return self._read_duration(found, path)
            case "int-or-string":
                if isinstance(found, str):
                    return found
                return self._read_int(Scalar("int", -INT32_MAX - 1, INT32_MAX), found, path)
            case "any":
                return found

    def _read_int(self, schema: Scalar, found: Json, path: str) -> int:
        if isinstance(found, bool) or not isinstance(found, int):
            raise self._wrong(path, found, "a whole number")
        if not schema.minimum <= found <= schema.maximum:
            raise self._wrong(path, found, f"a whole number from {schema.minimum} to {schema.maximum}")
        return found

    def _read_float(self, schema: Scalar, found: Json, path: str) -> float:
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._wrong(path, found, "a number")
        if not schema.minimum <= found <= schema.maximum:
            raise self._wrong(path, found, f"a number from {schema.minimum} to {schema.maximum}")
        return float(found)

    def _read_text(self, schema: Scalar, found: Json, path: str) -> str:
        text: str = self._require(found, str, path, "a string")
        if schema.one_of and text and text not in schema.one_of:
            raise self._wrong(path, found, "one of " + ", ".join(schema.one_of))
        return text

    def _read_quantity(self, found: Json, path: str) -> str:
        try:
            return quantity.canonical(found)
        except (quantity.InvalidQuantity, TypeError):
            raise self._wrong(path, found, 'a quantity such as "10G"') from None

    def _read_duration(self, found: Json, path: str) -> str:
        text = self._require(found, str, path, 'a duration such as "5m"')
        try:
            return go_duration.render(go_duration.parse_ns(text))
        except ValueError:
            raise self._wrong(path, found, 'a duration such as "5m"') from None

    def _require(self, found: Json, wanted: type, path: str, allowed: str) -> Any:
        if not isinstance(found, wanted):
            raise self._wrong(path, found, allowed)
        return found

    def _wrong(self, path: str, found: Json, allowed: str) -> InvalidInput:
        return InvalidInput(self._object_ref, path or "(document)", found, allowed)


def _says_nothing(schema: Schema, read: Json) -> bool:
    if isinstance(schema, ListOf | MapOf):
        return not read
    return isinstance(schema, Scalar) and schema.empty_is_absent and read == ""


def combine(schema: Schema, base: Json, overlay: Json) -> Json:
    """The overlay laid over the base; both already decoded by this schema. Fields the overlay omits stay."""
    if isinstance(schema, Record):
        combined = dict(base)
        for name, value in overlay.items():
            combined[name] = combine(schema.fields[name], base[name], value) if name in base else value
        return combined
    if isinstance(schema, MapOf):
        merged = {**base, **overlay}
        for name in schema.known.keys() & base.keys() & overlay.keys():
            merged[name] = combine(schema.known[name], base[name], overlay[name])
        return merged
    if isinstance(schema, ListOf):
        return [
            combine(schema.item, base[index], item) if index < len(base) else item
            for index, item in enumerate(overlay)
        ]
    return overlay
