"""A whole collection, page by page, consistent as of one resourceVersion."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from koord.kube.codec import BadObject, Codec, Undecodable
from koord.kube.errors import Gone, Unavailable
from koord.kube.metrics import UNDECODABLE
from koord.kube.requests import Request

logger = logging.getLogger("koord.kube.listing")

T = TypeVar("T")

LIST_TIMEOUT_S: Final = 60.0
"""For one page, which may hold everything when paging had to be given up."""


class Send(Protocol):
    """Sends a request and returns the body of the answer."""

    async def __call__(self, request: Request, *, timeout_s: float) -> bytes: ...


@dataclass(slots=True)
class Page(Generic[T]):
    """The objects of a collection and the resourceVersion at which they were all there."""

    items: list[T] = field(default_factory=list)
    resource_version: str = ""
    bad: list[BadObject] = field(default_factory=list)
    """Objects that exist too, but that do not fit their struct."""


async def list_all(
    send: Send, codec: Codec[T], request: Request, *, limit: int, timeout_s: float = LIST_TIMEOUT_S
) -> Page[T]:
    """Collect every page of `request`. Bad objects are reported, and returned apart.

    A continue token that has become too old restarts the list in a single piece,
    since paging would run into the same age again.
    """
    listed: Page[T] = Page()
    token = ""
    while True:
        query = {"limit": str(limit) if limit else "", "continue": token}
        try:
            body = await send(request.with_query(**query), timeout_s=timeout_s)
        except Gone:
            if not token:
                raise
            listed, token, limit = Page(), "", 0
            continue
        try:
            page = codec.decode_page(body)
        except Undecodable as error:
            raise Unavailable(200, "NotAList", str(error), request=str(request)) from error
        listed.items += page.items
        listed.bad += page.bad
        token = page.continue_token
        if not token:
            listed.resource_version = page.resource_version
            break
    for bad in listed.bad:
        report_bad(bad, codec)
    return listed


def report_bad(bad: BadObject, codec: Codec[T]) -> None:
    """Say which object cannot be read, and count it."""
    UNDECODABLE.labels(str(codec.resource)).inc()
    logger.warning("object cannot be read: %s", bad, extra={"kind": bad.kind, "object": str(bad.key), "uid": bad.uid})
