"""Refusals in the API server's own form: metav1.Status documents and the exception that carries them.

Messages and reasons are the ones clients match on (`pods "x" not found`, `Operation cannot be fulfilled on ...`), so
each refusal is built by one function here and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

MODIFIED_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True)
class Cause:
    """One entry of details.causes. `reason` is FieldValueInvalid, FieldValueRequired, FieldManagerConflict, ..."""

    reason: str
    message: str
    field: str = ""

    def document(self) -> JsonObject:
        """The StatusCause document; empty members are left out as the API server does."""
        entries = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: text for key, text in entries.items() if text}

    def sentence(self) -> str:
        """`field: message`, the form used inside the message of an Invalid status."""
        return f"{self.field}: {self.message}" if self.field else self.message


class StatusError(Exception):
    """A request is refused. The server answers with `document()` under the HTTP status `code`.

    `details` is the StatusDetails document or None; `retry_after_s` adds the Retry-After header; `continue_token`
    lets the client of an expired list go on.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: JsonObject | None = None,
        *,
        retry_after_s: int | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        self.continue_token = continue_token

    def document(self) -> JsonObject:
        """The metav1.Status to answer with."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        details = dict(self.details or {})
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        if details or self.details is not None:
            status["details"] = details
        status["code"] = self.code
        return status


def qualified(group: str, plural: str) -> str:
    """`deployments.apps`, or `pods` for the core group."""
    return f"{plural}.{group}" if group else plural


def details_of(group: str, kind: str, name: str, causes: Sequence[Cause] = (), uid: str = "") -> JsonObject:
    """StatusDetails. `kind` is the plural for most reasons and the Kind for Invalid, as in Kubernetes."""
    entries: JsonObject = {"name": name, "group": group, "kind": kind, "uid": uid}
    details = {key: text for key, text in entries.items() if text}
    if causes:
        details["causes"] = [cause.document() for cause in causes]
    return details


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404 for a named object."""
    message = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, details_of(group, plural, name))


def unknown_path() -> StatusError:
    """404 for a path that no kind serves."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """409 on create."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details_of(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = MODIFIED_MESSAGE) -> StatusError:
    """409 on an outdated resourceVersion or a failed precondition."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details_of(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 with one cause for each wrong field. `kind` is the Kind, not the plural."""
    sentences = [cause.sentence() for cause in causes]
    told = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    subject = f"{kind}.{group}" if group else kind
    message = f'{subject} "{name}" is invalid: {told}'
    return StatusError(422, "Invalid", message, details_of(group, kind, name, causes))


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """403, by admission or by a rule of the server."""
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details_of(group, plural, name, causes))


def bad_request(message: str) -> StatusError:
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: no credential, or one that the server does not know."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(message: str, continue_token: str = "") -> StatusError:
    """410: the version asked for is no longer in the history. The token allows an inconsistent continuation."""
    return StatusError(410, "Expired", message, continue_token=continue_token)


def method_not_allowed() -> StatusError:
    """405 for a verb that a resource does not have."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(found: str, accepted: Sequence[str]) -> StatusError:
    """415 for a body or patch format that cannot be read."""
    allowed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {allowed}"
    return StatusError(415, "UnsupportedMediaType", message if not found else f"{message} (found {found})")


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    """406 when none of the Accept header's forms can be produced."""
    allowed = ", ".join(accepted)
    message = f"only the following media types are accepted: {allowed}"
    return StatusError(406, "NotAcceptable", message)


def too_many_requests(message: str, retry_after_s: int, causes: Sequence[Cause] = ()) -> StatusError:
    """429, the answer to an eviction that a budget forbids (retry_after_s may be 0)."""
    details: JsonObject = {"causes": [cause.document() for cause in causes]} if causes else {}
    return StatusError(429, "TooManyRequests", message, details, retry_after_s=retry_after_s)


def too_large_version(asked: int, current: int) -> StatusError:
    """504: the client asks for a version that the server has not reached."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": [cause.document()]}, retry_after_s=1)


def internal_error(message: str) -> StatusError:
    """500: something of ours, or a webhook that failed closed."""
    cause = Cause("", message)
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [cause.document()]})
