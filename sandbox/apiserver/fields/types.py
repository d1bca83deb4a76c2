"""Types of fields as the API server sees them: enough to read, validate, document and merge documents. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Scalar(StrEnum):
    """What a leaf may hold."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    BYTES = "bytes"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"


class FieldType:
    """Anything a field can be. Instances are shared and never change."""

    description: str = ""


@dataclass(frozen=True)
class Leaf(FieldType):
    """A scalar."""

    scalar: Scalar
    description: str = ""


@dataclass(frozen=True)
class Anything(FieldType):
    """A free-form value. Its maps merge by key, its lists are atomic."""

    description: str = ""


@dataclass(frozen=True)
class MapOf(FieldType):
    """String keys to values of one type. `atomic`: one owner for the whole map."""

    element: FieldType
    atomic: bool = False
    description: str = ""


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list. `keys` makes it a map by those members, `unique` a set; neither: atomic.

    `defaults` fills absent keys (a port's protocol).
    """

    element: FieldType
    keys: tuple[str, ...] = ()
    unique: bool = False
    defaults: Mapping[str, object] = field(default_factory=dict, hash=False)
    description: str = ""

    @property
    def atomic(self) -> bool:
        """Whether the list has one owner."""
        return not self.keys and not self.unique


class Struct(FieldType):
    """A struct. `extra` is the type of members it does not name: None refuses them.

    `name` is the model's name for built-in structs, "" for inline ones. Subclasses may fill `fields` lazily, since
    types refer to themselves.
    """

    def __init__(
        self,
        fields: Mapping[str, FieldType],
        *,
        name: str = "",
        extra: FieldType | None = None,
        atomic: bool = False,
        required: frozenset[str] = frozenset(),
        description: str = "",
    ) -> None:
        self._fields = fields
        self.name = name
        self.extra = extra
        self.atomic = atomic
        self._required = required
        self.description = description

    @property
    def fields(self) -> Mapping[str, FieldType]:
        """Members by JSON name."""
        return self._fields

    @property
    def required(self) -> frozenset[str]:
        """Members that must be there (for documentation; validation is admission's)."""
        return self._required


ANYTHING = Anything()


def child(parent: FieldType, key: str) -> FieldType:
    """The type of a member of a struct, map or free-form value; free-form when it is not known."""
    if isinstance(parent, Struct):
        return parent.fields.get(key) or parent.extra or ANYTHING
    if isinstance(parent, MapOf):
        return parent.element
    return ANYTHING


def is_atomic(kind: FieldType, value: object) -> bool:
    """Whether a value of this type has one owner as a whole."""
    if isinstance(value, dict):
        return isinstance(kind, Struct | MapOf) and kind.atomic
    if isinstance(value, list):
        return not isinstance(kind, ListOf) or kind.atomic
    return True
