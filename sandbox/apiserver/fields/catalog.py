"""Finds the type of any served kind and keeps what was compiled."""

from sandbox.apiserver.fields import builtin, custom
from sandbox.apiserver.fields.types import ANYTHING, Leaf, Scalar, Struct
from sandbox.apiserver.kinds import Kind

_UNKNOWN = Struct(
    {"apiVersion": Leaf(Scalar.STRING), "kind": Leaf(Scalar.STRING), "metadata": builtin.struct("V1ObjectMeta")},
    extra=ANYTHING,
)


class TypeCatalog:
    """Types by kind. A custom kind is compiled again when its schema has been replaced."""

    def __init__(self) -> None:
        self._custom: dict[Kind, tuple[object, Struct]] = {}

    def type_of(self, kind: Kind) -> Struct:
        """The type of a kind's documents; free-form but for the metadata when nothing describes it."""
        if not kind.custom:
            return builtin.type_of(kind) or _UNKNOWN
        known = self._custom.get(kind)
        if known is not None and known[0] is kind.schema:
            return known[1]
        compiled = custom.type_of_schema(kind.schema)
        self._custom[kind] = (kind.schema, compiled)
        return compiled
