"""The OpenAPI `format`s that Kubernetes checks in custom resources; all others are ignored."""

import base64
import binascii
import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable

import jsonschema

_INT_BITS = {"int32": 31, "int64": 63}
_DURATION = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)\s*[a-zµ]+\s*)+)", re.IGNORECASE)
_RFC3339 = re.compile(r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")

FORMATS = jsonschema.FormatChecker(formats=())


def _register(name: str) -> Callable[[Callable[[object], bool]], Callable[[object], bool]]:
    def add(check: Callable[[object], bool]) -> Callable[[object], bool]:
        FORMATS.checks(name, raises=(ValueError, binascii.Error))(check)
        return check

    return add


def _fits(value: object, bits: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    limit: int = 1 << bits
    return -limit <= value < limit


@_register("int32")
def _is_int32(value: object) -> bool:
    return _fits(value, _INT_BITS["int32"])


@_register("int64")
def _is_int64(value: object) -> bool:
    return _fits(value, _INT_BITS["int64"])


@_register("date-time")
def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    if not _RFC3339.match(value):
        return False
    seconds = re.sub(r"\.\d+", "", value.upper()).replace("Z", "+00:00")
    datetime.datetime.fromisoformat(seconds)
    return True


@_register("date")
def _is_date(value: object) -> bool:
    return not isinstance(value, str) or datetime.date.fromisoformat(value) is not None


@_register("duration")
def _is_duration(value: object) -> bool:
    return not isinstance(value, str) or bool(_DURATION.fullmatch(value))


@_register("byte")
def _is_base64(value: object) -> bool:
    return not isinstance(value, str) or base64.b64decode(value, validate=True) is not None


@_register("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or uuid.UUID(value) is not None


@_register("ipv4")
def _is_ipv4(value: object) -> bool:
    return not isinstance(value, str) or ipaddress.IPv4Address(value) is not None


@_register("ipv6")
def _is_ipv6(value: object) -> bool:
    return not isinstance(value, str) or ipaddress.IPv6Address(value) is not None
