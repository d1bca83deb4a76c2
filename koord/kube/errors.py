"""What the API server (or the way to it) can answer instead of the object.

Each class is named by what the caller does next. HTTP status codes and transport
failures are translated here and nowhere else. Text that did not come as a
`Status` object is clipped, so that no body of unknown content reaches a log.
"""

# ruff: noqa: N818 - each class is named by what happened, as the API names its reasons

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MESSAGE_LIMIT: Final = 2_000
"""Characters of a server's message that are kept."""

UNPARSED_LIMIT: Final = 200
"""Characters kept of an error body that is no Kubernetes Status (a proxy's page, say)."""


class ApiError(Exception):
    """A request that failed. `status` 0 means that no HTTP answer arrived."""

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after_s: float | None = None,
        causes: tuple[str, ...] = (),
        request: str = "",
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        """Seconds the server asked to wait; None when it did not say."""
        self.causes = causes
        """Reasons of details.causes: `DisruptionBudget` for an eviction that a budget refused."""
        self.request = request
        """The method and path that failed, for messages."""

    def __str__(self) -> str:
        where = f"{self.request}: " if self.request else ""
        code = str(self.status) if self.status else "no answer"
        return f"{where}{code} {self.reason}: {self.message}"


class NotFound(ApiError):
    """The object, or the whole resource, does not exist."""


class AlreadyExists(ApiError):
    """Something else created the object first."""


class Conflict(ApiError):
    """The object changed, or a precondition failed: read it again."""


class Gone(ApiError):
    """The resourceVersion or continue token is too old: list again."""


class Invalid(ApiError):
    """The request is wrong as it stands; sending it again cannot help."""


class Unauthorized(ApiError):
    """The credentials were not accepted, even after they were read again."""


class Forbidden(ApiError):
    """RBAC, a quota or an admission plugin refuses."""


class TooManyRequests(ApiError):
    """Not now: overload, or (for an eviction) a disruption budget that is used up."""


class Unavailable(ApiError):
    """No usable answer: connection failed, timed out, or the server reported 5xx."""


class _StatusCause(msgspec.Struct):
    reason: str = ""


class _StatusDetails(msgspec.Struct):
    retry_after_seconds: float = msgspec.field(name="retryAfterSeconds", default=0)
    causes: list[_StatusCause] | None = None


class Status(msgspec.Struct):
    """The parts of a metav1.Status that callers act on."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _StatusDetails | None = None


_STATUS_DECODER = msgspec.json.Decoder(Status)

_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def error_class(status: int, reason: str) -> type[ApiError]:
    """The class for an HTTP status code and a Status reason."""
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status >= 500 or status == 0:
        return Unavailable
    return _BY_STATUS.get(status, ApiError)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header; None when absent or in the (unused) date form."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def error_from_status(status: Status, *, request: str = "") -> ApiError:
    """The exception that a Status object stands for."""
    details = status.details or _StatusDetails()
    return error_class(status.code, status.reason)(
        status.code,
        status.reason or "Unknown",
        status.message[:MESSAGE_LIMIT],
        retry_after_s=details.retry_after_seconds or None,
        causes=tuple(cause.reason for cause in details.causes or ()),
        request=request,
    )


def decode_status(body: bytes | msgspec.Raw) -> Status | None:
    """The Status in `body`, or None when it is something else."""
    try:
        status = _STATUS_DECODER.decode(body)
    except msgspec.DecodeError:
        return None
    return status if status.kind == "Status" else None


def error_from_response(status: int, body: bytes, *, retry_after: str | None = None, request: str = "") -> ApiError:
    """The exception for an HTTP answer that is no success."""
    parsed = decode_status(body)
    if parsed is None:
        text = body[:UNPARSED_LIMIT].decode("utf-8", "replace").strip()
        parsed = Status(reason="NoStatus", message=text or "empty body")
    parsed.code = status
    error = error_from_status(parsed, request=request)
    header = parse_retry_after(retry_after)
    if header is not None:
        error.retry_after_s = header
    return error
