"""Field errors in the API server's forms, and the 422 Status made of them.

A validator returns a list of FieldError; nothing is raised until `refuse_invalid` turns a
non-empty list into one StatusError with a cause for each field.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sandbox.apiserver.status import Cause
from sandbox.apiserver.status import invalid as invalid_status


class FieldErrorKind(StrEnum):
    """The cause reasons of metav1.StatusCause."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    NOT_FOUND = "FieldValueNotFound"


_LABELS = {
    FieldErrorKind.REQUIRED: "Required value",
    FieldErrorKind.INVALID: "Invalid value",
    FieldErrorKind.TYPE_INVALID: "Invalid value",
    FieldErrorKind.NOT_SUPPORTED: "Unsupported value",
    FieldErrorKind.DUPLICATE: "Duplicate value",
    FieldErrorKind.FORBIDDEN: "Forbidden",
    FieldErrorKind.TOO_LONG: "Too long",
    FieldErrorKind.TOO_MANY: "Too many",
    FieldErrorKind.NOT_FOUND: "Not found",
}
_WITHOUT_VALUE = {FieldErrorKind.REQUIRED, FieldErrorKind.FORBIDDEN, FieldErrorKind.TOO_LONG}


@dataclass(frozen=True)
class FieldError:
    """One thing wrong at one field; `path` is like spec.containers[0].name."""

    kind: FieldErrorKind
    path: str
    value: object = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The text without the path, as it stands in a Status cause."""
        text = _LABELS[self.kind]
        if self.kind not in _WITHOUT_VALUE:
            text += f": {json.dumps(self.value, ensure_ascii=False, default=str, separators=(',', ':'))}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """A field that must be given is missing or empty."""
    return FieldError(FieldErrorKind.REQUIRED, path, None, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    """A value that breaks a rule stated in `detail`."""
    return FieldError(FieldErrorKind.INVALID, path, value, detail)


def unsupported(path: str, value: object, allowed: Iterable[object]) -> FieldError:
    """A value outside a closed list."""
    listed = ", ".join(f'"{item}"' for item in allowed)
    return FieldError(FieldErrorKind.NOT_SUPPORTED, path, value, f"supported values: {listed}")


def duplicate(path: str, value: object) -> FieldError:
    """A value that must be unique among its siblings."""
    return FieldError(FieldErrorKind.DUPLICATE, path, value)


def forbidden(path: str, detail: str) -> FieldError:
    """A field that may not be set or changed here."""
    return FieldError(FieldErrorKind.FORBIDDEN, path, None, detail)


def too_long(path: str, max_bytes: int) -> FieldError:
    """A text above its size limit in bytes."""
    return FieldError(FieldErrorKind.TOO_LONG, path, None, f"may not be more than {max_bytes} bytes")


def too_many(path: str, actual: int, most: int) -> FieldError:
    """A list or map above its size limit."""
    noun = "item" if most == 1 else "items"
    return FieldError(FieldErrorKind.TOO_MANY, path, actual, f"must have at most {most} {noun}")


def not_found(path: str, value: object) -> FieldError:
    """A reference to something that is not there."""
    return FieldError(FieldErrorKind.NOT_FOUND, path, value)


def refuse_invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> None:
    """Raise the 422 answer, a cause for each field, when there are errors; do nothing otherwise."""
    if errors:
        distinct = dict.fromkeys(Cause(error.kind.value, error.body, error.path) for error in errors)
        raise invalid_status(group, kind, name, list(distinct))
