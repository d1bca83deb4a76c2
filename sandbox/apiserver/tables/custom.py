"""How custom kinds are printed: their additionalPrinterColumns. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sandbox.apiserver import jsonpath
from sandbox.apiserver.kinds import Kind, PrinterColumn
from sandbox.apiserver.tables.columns import NAME, Column, Layout, name_of, since

JsonObject = dict[str, Any]

_CREATION = ".metadata.creationTimestamp"
_DEFAULT = (PrinterColumn("Age", "date", _CREATION),)


def layout_of(kind: Kind) -> Layout:
    """The layout of a custom kind; name and age when it declares none."""
    declared = kind.columns or _DEFAULT
    columns = tuple(
        Column(column.name, _column_type(column), column.format, column.description, column.priority)
        for column in declared
    )
    paths = [(column, jsonpath.compile_path(column.json_path)) for column in declared]

    def cells(document: JsonObject, now: float) -> Sequence[object]:
        return name_of(document), *(_cell(column, path(document), now) for column, path in paths)

    return Layout((NAME, *columns), cells)


def _column_type(column: PrinterColumn) -> str:
    return column.type


def _cell(column: PrinterColumn, found: list[Any], now: float) -> object:
    if not found:
        return None
    if column.type == "date":
        return since(found[0], now)
    if column.type == "string":
        return ",".join(_text(value) for value in found)
    first = found[0]
    wanted: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
    fits = isinstance(first, wanted.get(column.type, (object,)))
    return first if fits and (column.type == "boolean" or not isinstance(first, bool)) else None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
