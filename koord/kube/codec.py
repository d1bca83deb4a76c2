"""Bytes of the API server into typed values, one broken object at a time.

The usual case is a single typed pass. Only when that fails is the body taken apart,
so that one object which does not fit its struct costs neither the page nor the watch.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from koord.kube.errors import ApiError, Status, decode_status, error_from_status
from koord.kube.resources import Key, Resource

T = TypeVar("T")


class Undecodable(Exception):  # noqa: N818 - named by what it says, like the API errors
    """Text that is not the JSON it should be."""


@dataclass(frozen=True, slots=True)
class BadObject:
    """An object that exists but does not fit its struct, and what is wrong with it."""

    kind: str
    key: Key
    uid: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}: {self.problem}"


@dataclass(frozen=True)
class DecodedPage(Generic[T]):
    """One page of a list. `continue_token` "" means that it is the last."""

    items: list[T]
    bad: list[BadObject]
    resource_version: str
    continue_token: str


@dataclass(frozen=True)
class Upsert(Generic[T]):
    """ADDED or MODIFIED; which of them, the receiver's own state says."""

    object: T


@dataclass(frozen=True, slots=True)
class Removal:
    """DELETED. The object itself is known already."""

    key: Key
    resource_version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this resourceVersion."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """ADDED or MODIFIED with an object that does not fit its struct."""

    bad: BadObject
    resource_version: str


@dataclass(frozen=True, slots=True)
class StreamError:
    """ERROR: the stream is over."""

    error: ApiError


WatchEvent = Upsert[T] | Removal | Bookmark | Unreadable | StreamError


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _ObjectMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct):
    metadata: _ObjectMeta = msgspec.field(default_factory=_ObjectMeta)


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


_HEAD_DECODER = msgspec.json.Decoder(_Head)
_RAW_PAGE_DECODER = msgspec.json.Decoder(_Page[msgspec.Raw])
_RAW_EVENT_DECODER = msgspec.json.Decoder(_Event[msgspec.Raw])
_HEAD_EVENT_DECODER = msgspec.json.Decoder(_Event[_Head])


@dataclass(frozen=True)
class Codec(Generic[T]):
    """The decoders of one resource."""

    resource: Resource[T]
    _object: msgspec.json.Decoder[T] = field(init=False)
    _page: msgspec.json.Decoder[_Page[T]] = field(init=False)
    _event: msgspec.json.Decoder[_Event[T]] = field(init=False)

    def __post_init__(self) -> None:
        kind: Any = self.resource.type
        object.__setattr__(self, "_object", msgspec.json.Decoder(kind))
        object.__setattr__(self, "_page", msgspec.json.Decoder(_Page[kind]))
        object.__setattr__(self, "_event", msgspec.json.Decoder(_Event[kind]))

    def decode_object(self, body: bytes) -> T:
        """One object. Raises Undecodable naming the object and the field."""
        try:
            return self._object.decode(body)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{self.resource.kind}: {error}") from error

    def decode_page(self, body: bytes) -> DecodedPage[T]:
        """One page of a list. Raises Undecodable when it is no list at all."""
        try:
            page = self._page.decode(body)
        except msgspec.ValidationError:
            return self._decode_page_piecewise(body)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{self.resource.kind} list: {error}") from error
        return DecodedPage(page.items or [], [], page.metadata.resource_version, page.metadata.continue_token)

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch. Raises Undecodable when it is no event at all."""
        try:
            event = self._event.decode(line)
        except msgspec.ValidationError:
            return self._decode_event_piecewise(line)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{self.resource.kind} watch: {error}") from error
        if event.type in ("ADDED", "MODIFIED"):
            return Upsert(event.object)
        return self._decode_event_piecewise(line)

    def _decode_page_piecewise(self, body: bytes) -> DecodedPage[T]:
        try:
            page = _RAW_PAGE_DECODER.decode(body)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{self.resource.kind} list: {error}") from error
        items: list[T] = []
        bad: list[BadObject] = []
        for raw in page.items or ():
            try:
                items.append(self._object.decode(raw))
            except msgspec.DecodeError as error:
                bad.append(self._describe(raw, error))
        return DecodedPage(items, bad, page.metadata.resource_version, page.metadata.continue_token)

    def _decode_event_piecewise(self, line: bytes) -> WatchEvent[T]:
        try:
            event = _RAW_EVENT_DECODER.decode(line)
            if event.type == "ERROR":
                status = decode_status(event.object) or Status(reason="NoStatus", message="unknown error")
                return StreamError(error_from_status(status))
            head = _HEAD_EVENT_DECODER.decode(line).object.metadata
        except msgspec.DecodeError as error:
            raise Undecodable(f"{self.resource.kind} watch: {error}") from error
        match event.type:
            case "BOOKMARK":
                return Bookmark(head.resource_version)
            case "DELETED":
                return Removal(Key(head.namespace, head.name), head.resource_version)
            case "ADDED" | "MODIFIED":
                return self._decode_upsert(event.object, head.resource_version)
        raise Undecodable(f"{self.resource.kind} watch: unknown event type {event.type!r}")

    def _decode_upsert(self, raw: msgspec.Raw, resource_version: str) -> WatchEvent[T]:
        try:
            return Upsert(self._object.decode(raw))
        except msgspec.DecodeError as error:
            return Unreadable(self._describe(raw, error), resource_version)

    def _describe(self, raw: msgspec.Raw, error: msgspec.DecodeError) -> BadObject:
        try:
            head = _HEAD_DECODER.decode(raw).metadata
        except msgspec.DecodeError:
            head = _ObjectMeta(name="(without readable metadata)")
        return BadObject(self.resource.kind, Key(head.namespace, head.name), head.uid, str(error))


@cache
def codec_for(resource: Resource[T]) -> Codec[T]:
    """The decoders of `resource`, built once."""
    return Codec(resource)
