"""The outcome of judging an object: allowed or not, with every field error; for answer, log and metric. Pure data.

Texts follow Kubernetes' field errors (`path: Invalid value: "x": detail`), which kubectl users know.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from webhook.json_patch import Operation


class Reason(StrEnum):
    """Why the answer is what it is; the values of the metric's `reason` label."""

    VALID = "valid"
    NOT_JUDGED = "not-judged"
    UNCHANGED = "unchanged"
    BEING_DELETED = "being-deleted"
    AMPLIFIED = "amplified"
    NO_OBJECT = "no-object"
    UNDECODABLE = "undecodable"
    RESERVED_ANNOTATION = "reserved-annotation"
    COLOCATION_RULES = "colocation-rules"
    QUOTA = "quota"
    DEVICE_RULES = "device-rules"
    REQUIRED_LABELS = "required-labels"
    INVALID_PROFILE = "invalid-profile"
    INVALID_CONFIG = "invalid-config"
    NODE_CONFLICT = "node-conflict"
    BAD_ANNOTATION = "bad-annotation"
    INTERNAL_ERROR = "internal-error"


class FieldError(msgspec.Struct, frozen=True, gc=False):
    """One thing wrong: the field, the kind of problem, the value where there is one, and what is allowed."""

    field: str
    problem: str
    detail: str
    value: str | None = None

    def __str__(self) -> str:
        shown = f" {msgspec.json.encode(self.value).decode()}:" if self.value is not None else ""
        return f"{self.field}: {self.problem}:{shown} {self.detail}"


def invalid(field: str, value: str, detail: str) -> FieldError:
    """A value that is not allowed."""
    return FieldError(field, "Invalid value", detail, value)


def forbidden(field: str, detail: str) -> FieldError:
    """Something that may not be there."""
    return FieldError(field, "Forbidden", detail)


def required(field: str, detail: str) -> FieldError:
    """Something that is missing."""
    return FieldError(field, "Required value", detail)


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """The whole answer. A refusal has a `code` and a `message`; `operations` change the object (nodes only)."""

    allowed: bool
    reason: Reason
    operations: tuple[Operation, ...] = ()
    code: int = 0
    message: str = ""
    warnings: tuple[str, ...] = ()


ALLOWED = Judgement(True, Reason.VALID)


def refusal(
    reason: Reason, errors: list[FieldError] | str, warnings: tuple[str, ...] = (), code: int = 400
) -> Judgement:
    """A refusal by one step; several errors are joined as Kubernetes joins them, each once."""
    if isinstance(errors, str):
        return Judgement(False, reason, code=code, message=errors, warnings=warnings)
    texts = list(dict.fromkeys(map(str, errors)))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Judgement(False, reason, code=code, message=message, warnings=warnings)
