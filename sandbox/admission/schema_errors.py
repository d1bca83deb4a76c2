"""Turns jsonschema's findings into the field errors that the API server writes for custom resources. Pure."""

from collections.abc import Iterator
from typing import Any, Final

import jsonschema

from sandbox.admission.fields import (
    FieldError,
    FieldErrorKind,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)

_BOUNDS: Final = {"minimum": ("greater", "exclusiveMinimum"), "maximum": ("less", "exclusiveMaximum")}
_FEWEST: Final = {"minItems": "items", "minProperties": "properties"}
_COMBINED: Final = {
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf)",
    "not": "must not validate the schema (not)",
}


def field_errors(error: jsonschema.ValidationError) -> Iterator[FieldError]:
    """The field errors that one finding stands for."""
    path = path_text(list(error.absolute_path))
    keyword = str(error.validator)
    limit: Any = error.validator_value
    value: Any = error.instance
    if keyword == "required":
        # Each missing name is a finding of its own, quoted at the start of the message.
        missing = next(name for name in limit if error.message.startswith(repr(name)))
        yield required(missing if path == "<root>" else f"{path}.{missing}")
    elif keyword == "enum":
        yield unsupported(path, value, [item for item in limit if item is not None])
    elif keyword == "x-kubernetes-list-type":
        yield duplicate(path, value)
    elif keyword == "type":
        yield _type_error(path, value, limit, error.schema)
    elif keyword == "format":
        yield _format_error(path, value, limit)
    elif keyword == "maxLength":
        yield too_long(path, limit)
    elif keyword in ("maxItems", "maxProperties"):
        yield too_many(path, len(value), limit)
    elif keyword in _FEWEST:
        yield invalid(path, len(value), f"{path} in body should have at least {limit} {_FEWEST[keyword]}")
    elif keyword in _COMBINED:
        yield invalid(path, value, f'"{path}" {_COMBINED[keyword]}')
    else:
        yield invalid(path, value, f"{path} in body {_rule_words(keyword, limit, error.schema)}")


def path_text(path: list[str | int]) -> str:
    """A path such as spec.parts[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "<root>"


def _rule_words(keyword: str, limit: object, schema: Any) -> str:
    if keyword in _BOUNDS:
        way, exclusive = _BOUNDS[keyword]
        return f"should be {way} than{'' if schema.get(exclusive) else ' or equal to'} {limit}"
    words = {
        "minLength": f"should be at least {limit} chars long",
        "pattern": f"should match '{limit}'",
        "multipleOf": f"should be a multiple of {limit}",
        "uniqueItems": "shouldn't contain duplicates",
    }
    return words.get(keyword, f"does not satisfy {keyword}")


def _json_type(value: object) -> str:
    for name, types in (("boolean", bool), ("integer", int), ("number", float), ("string", str)):
        if isinstance(value, types):
            return name
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _type_error(path: str, value: object, limit: str | list[str], schema: Any) -> FieldError:
    types = [limit] if isinstance(limit, str) else [name for name in limit if name != "null"]
    wanted, actual = ",".join(types), _json_type(value)
    kind_of_format = schema.get("format", "")
    # Where a format is declared, the API server speaks Go: of the format, and of Go's type of the value.
    if kind_of_format and not isinstance(value, list) and (not isinstance(value, str) or types == ["string"]):
        wanted, actual = kind_of_format, {"integer": "int64", "number": "float64"}.get(actual, "")
    detail = f'{path} in body must be of type {wanted}: "{actual}"'
    return FieldError(FieldErrorKind.TYPE_INVALID, path, actual, detail)


def _format_error(path: str, value: object, name: str) -> FieldError:
    if isinstance(value, str):
        return invalid(path, value, f'{path} in body must be of type {name}: "{value}"')
    return invalid(path, value, f"Checked value must be of type integer with format {name} in {path}")
