"""Reads a protobuf request body into the JSON document that it stands for. Pure but for loading its table."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import yaml

from koord.api.timestamps import format_rfc3339, format_rfc3339_micro

JsonObject = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 100
# Groups whose package name is not their first label.
_PACKAGES = {"": "core", "rbac.authorization.k8s.io": "rbac"}
_META_KINDS = ("DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions")


class Undecodable(ValueError):  # noqa: N818
    """The bytes are no protobuf of a known message; the message says why."""


@dataclass(frozen=True)
class _Field:
    """One member of a message: JSON name, type, and how it stands in JSON."""

    name: str
    type: str
    repeated: bool
    map: bool
    inline: bool
    drop_zero: bool


@cache
def _table() -> dict[str, dict[int, _Field]]:
    text = resources.files("sandbox.apiserver.wire").joinpath("fields.yaml").read_text()
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    return {
        message: {number: _field(spelled) for number, spelled in members.items()}
        for message, members in loaded.items()
    }


def _field(spelled: str) -> _Field:
    name, _, kind = spelled.partition(" ")
    plain = kind.lstrip("<?[]{}")
    marks = kind[: len(kind) - len(plain)]
    return _Field(name, plain, "[]" in marks, "{}" in marks, "<" in marks, "?" in marks)


def decode(body: bytes) -> JsonObject:
    """The document in an envelope, with its apiVersion and kind. Raises Undecodable."""
    if not body.startswith(MAGIC):
        raise Undecodable("the body does not begin with the protobuf magic bytes")
    members = dict(_members(body[len(MAGIC) :]))
    type_meta = dict(_members(_bytes(members.get(1, b""))))
    api_version, kind = (_text(_bytes(type_meta.get(number, b""))) for number in (1, 2))
    message = _message_of(api_version, kind)
    if message not in _table():
        raise Undecodable(f'no protobuf message is known for kind "{kind}" in version "{api_version}"')
    return {"apiVersion": api_version, "kind": kind, **_message(_bytes(members.get(2, b"")), message, 0)}


def _message_of(api_version: str, kind: str) -> str:
    if kind in _META_KINDS:
        return f"apis.meta.v1.{kind}"
    group, slash, version = api_version.rpartition("/")
    package = _PACKAGES.get(group if slash else "", group.partition(".")[0])
    return f"{package}.{version}.{kind}"


def _message(body: bytes, message: str, depth: int) -> JsonObject:
    if depth > _MAX_DEPTH:
        raise Undecodable("messages are nested too deeply")
    fields = _table().get(message, {})
    document: JsonObject = {}
    for number, raw in _members(body):
        field = fields.get(number)
        if field is None:
            continue
        if field.map:
            entry = dict(_members(_bytes(raw)))
            key = _text(_bytes(entry.get(1, b"")))
            document.setdefault(field.name, {})[key] = _value(field.type, entry.get(2, b""), depth)
        elif field.repeated:
            document.setdefault(field.name, []).append(_value(field.type, raw, depth))
        elif field.inline:
            document |= _message(_bytes(raw), field.type, depth + 1)
        else:
            value = _value(field.type, raw, depth)
            if value is not None and not (field.drop_zero and value in ("", 0, False)):
                document[field.name] = value
    return document


def _value(kind: str, raw: int | bytes, depth: int) -> Any:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(raw)
    return _message(_bytes(raw), kind, depth + 1)


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise Undecodable("a number stands where bytes are expected")
    return raw


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"a text is not UTF-8: {error.reason}") from None


def _integer(raw: int | bytes) -> int:
    number = raw if isinstance(raw, int) else _only_varint(raw)
    return number - (1 << 64) if number >= 1 << 63 else number


def _only_varint(raw: bytes) -> int:
    return _varint(raw, 0)[0] if raw else 0


def _quantity(raw: int | bytes) -> str:
    return _text(dict(_members(_bytes(raw))).get(1, b"")) or "0"


def _int_or_string(raw: int | bytes) -> int | str:
    members = dict(_members(_bytes(raw)))
    if members.get(1, 0) == 1:
        return _text(members.get(3, b""))
    return _integer(members.get(2, 0))


def _seconds(raw: int | bytes) -> tuple[int, int] | None:
    members = dict(_members(_bytes(raw)))
    return (_integer(members.get(1, 0)), _integer(members.get(2, 0))) if members else None


def _time(raw: int | bytes) -> str | None:
    moment = _seconds(raw)
    return format_rfc3339(moment[0]) if moment else None


def _micro_time(raw: int | bytes) -> str | None:
    moment = _seconds(raw)
    return format_rfc3339_micro(moment[0] + moment[1] / 1e9) if moment else None


def _raw_json(raw: int | bytes) -> Any:
    body = _bytes(dict(_members(_bytes(raw))).get(1, b""))
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError as error:
        raise Undecodable(f"embedded JSON cannot be read: {error}") from None


def _list_message(raw: int | bytes) -> list[str]:
    return [_text(item) for number, item in _members(_bytes(raw)) if number == 1]


_SPECIAL: dict[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "bool": lambda raw: bool(_integer(raw)),
    "int32": _integer,
    "int64": _integer,
    "uint32": _integer,
    "bytes": lambda raw: base64.b64encode(_bytes(raw)).decode(),
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "time": _time,
    "micro-time": _micro_time,
    "raw-json": _raw_json,
    "list-message": _list_message,
}


def _members(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, raw value) of each member, in wire order."""
    position, end = 0, len(body)
    while position < end:
        tag, position = _varint(body, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(body, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(body, position)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise Undecodable(f"wire type {wire_type} is not known")
        if position + length > end:
            raise Undecodable("the body ends within a member")
        yield number, body[position : position + length]
        position += length


def _varint(body: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise Undecodable("the body ends within a number")
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
