"""A collection of the API server, held in memory and kept true by watching it.

The store lists once, then watches from there. It lists again only when the server's
history no longer reaches back (410), when the server's state went back in time (a
restored backup), or when a watch fails again and again; what changed meanwhile is then
announced as exact additions, updates and deletions. Every other failure resumes the
watch where it was.

Objects handed out are shared: never change one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from koord.kube import changes, metrics
from koord.kube.backoff import Backoff
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.clock import local_time_s
from koord.kube.codec import (
    Bookmark,
    Removal,
    StreamError,
    Undecodable,
    Unreadable,
    Upsert,
    WatchEvent,
    codec_for,
)
from koord.kube.errors import ApiError, Forbidden, Gone, Invalid, NotFound, Unavailable
from koord.kube.index import Index
from koord.kube.lines import LineSplitter, LineTooLong
from koord.kube.listing import LIST_TIMEOUT_S, list_all, report_bad
from koord.kube.requests import build_list
from koord.kube.resources import Key, Resource

logger = logging.getLogger("koord.kube.store")

_JITTER: Final = random.Random()
"""Its own: the shared generator belongs to whoever seeded it."""

T = TypeVar("T")
Subscriber = Callable[[Change[T]], None]

WATCH_TIMEOUT_S: Final = 270.0
"""How long the server is asked to keep one watch open; spread by a tenth both ways."""

STEADY_WATCH_S: Final = 10.0
"""A watch that lived this long has worked, even if nothing happened in it."""

BROKEN_WATCHES: Final = 3
"""After so many watches in a row that opened and broke at once, list again."""

OUT_OF_SIGHT_S: Final = 5.0
"""Without a word from the server for so long, it may have been restored meanwhile."""

CHANGES_AT_ONCE: Final = 500
"""Changes of a listing that are announced before other tasks get their turn."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """How a store is doing, for health checks. Times are seconds since the epoch, 0 for never."""

    synced: bool
    objects: int
    last_sync: float
    """When the last complete listing was taken in."""
    last_contact: float
    """When the server was last heard of: a listing, an event, a bookmark, an orderly end."""
    lists: int
    restarts: int
    """Failures after which list or watch were begun again."""
    undecodable: int
    last_error: str
    """"" while all is well."""
    refused: bool
    """The server does not serve the resource (its CRD is not installed), or not to us."""


class Store(Generic[T]):
    """Watches one resource; `run` does the work, everything else reads. One event loop only."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        watch_timeout_s: float = WATCH_TIMEOUT_S,
        page_size: int = 500,
        first_list_from_cache: bool = False,
    ) -> None:
        """`first_list_from_cache` lets the server answer the first listing from its memory.

        That may be some seconds old (the watch catches up), but costs it nearly nothing:
        for stores that thousands of nodes open with a field selector.
        """
        self._client = client
        self.resource = resource
        self._codec = codec_for(resource)
        self._namespace = namespace
        self._request = build_list(resource, namespace, label_selector, field_selector)
        self._watch_timeout_s = watch_timeout_s
        self._page_size = page_size
        self._from_cache = first_list_from_cache
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._subscribers: list[Subscriber[T]] = []
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._version = ""
        self._doubtful = False
        """The server was lost: its history may be another one now."""
        self._rewound = False
        """Its history is another one: equal versions may stand for different states."""
        self._broken_watches = 0
        self._backoff = Backoff()
        self._running = False
        self._last_sync = self._last_contact = self._heard_s = 0.0
        self._lists = self._restarts = self._undecodable = 0
        self._last_error = ""
        self._refused = False
        name = str(resource)
        self._objects_gauge = metrics.STORE_OBJECTS.labels(name)
        self._changes_counter = metrics.STORE_EVENTS.labels(name)
        self._contact_gauge = metrics.STORE_CONTACT.labels(name)

    # Reading

    async def wait_synced(self) -> None:
        """Return once the first listing has been taken in."""
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Return once the first listing has been taken in or refused (see Statistics): for kinds that a cluster may
        not have. The store goes on trying either way."""
        await self._answered.wait()

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object's last known state, None when there is none."""
        return self._objects.get(Key(namespace, name))

    def values(self) -> list[T]:
        """All objects, in no order."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def statistics(self) -> Statistics:
        """The state of this store, as of now."""
        return Statistics(
            synced=self._synced.is_set(),
            objects=len(self._objects),
            last_sync=self._last_sync,
            last_contact=self._last_contact,
            lists=self._lists,
            restarts=self._restarts,
            undecodable=self._undecodable,
            last_error=self._last_error,
            refused=self._refused,
        )

    def add_index(self, name: str, key_fn: Callable[[T], Hashable | None]) -> None:
        """Group objects by `key_fn(object)`, a pure function; None leaves an object out."""
        if name in self._indexes:
            raise ValueError(f"{self.resource}: index {name!r} exists already")
        index = Index(key_fn)
        for key, value in self._objects.items():
            index.insert(key, value)
        self._indexes[name] = index

    def by_index(self, name: str, key: Hashable) -> list[T]:
        """The objects for which the index's function gave `key`."""
        return self._indexes[name].lookup(key)

    def subscribe(self, callback: Subscriber[T]) -> Callable[[], None]:
        """Call `callback` at every change, after the store has taken it in.

        Objects that are known already are announced to it at once as added, so that
        what a subscriber hears always adds up to the store. An exception in it is
        logged and counted, and hurts nobody else. Returns a function that ends it.
        """
        for value in self.values():
            self._call(callback, Change("added", None, value))
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    # Following the server

    async def run(self) -> None:
        """List and watch for ever; returns only by cancellation."""
        if self._running:
            raise RuntimeError(f"store of {self.resource} runs already")
        self._running = True
        try:
            while True:
                delay = await self._follow()
                await asyncio.sleep(delay)
        finally:
            self._running = False

    async def _follow(self) -> float:
        """List if need be and watch once; returns the seconds to wait before the next time."""
        try:
            if self._broken_watches >= BROKEN_WATCHES:
                self._version = ""
            if not self._version:
                await self._list()
            return await self._watch()
        except (Gone, Invalid) as error:
            self._version = ""
            return self._note_failure(error)
        except ApiError as error:
            if "ResourceVersionTooLarge" in error.causes:
                self._version = ""
                self._rewound = True
            return self._note_failure(error)

    async def _list(self) -> None:
        request = self._request
        if self._from_cache and not self._lists:
            request = request.with_query(resourceVersion="0")
        page = await list_all(self._client.send, self._codec, request, limit=self._page_size)
        self._lists += 1
        metrics.STORE_LISTS.labels(str(self.resource)).inc()
        self._undecodable += len(page.bad)
        found = changes.changes_of_listing(
            self.resource, self._objects, page.items, page.bad, by_content=self._rewound
        )
        for start in range(0, len(found), CHANGES_AT_ONCE):
            self._apply(found[start : start + CHANGES_AT_ONCE])
            await asyncio.sleep(0)
        self._version = page.resource_version
        self._doubtful = self._rewound = False
        self._broken_watches = 0
        self._last_sync = time.time()
        self._note_contact()
        self._synced.set()
        self._answered.set()

    async def _check_history(self) -> None:
        """After the server was out of sight: did it come back with an older state?

        A watch from a version that lies in its future just stays silent. One object
        without selectors is the cheapest consistent read there is. It is made with the
        watch already open: a restore that comes later breaks the watch.
        """
        probe = build_list(self.resource, self._namespace).with_query(limit="1")
        try:
            page = self._codec.decode_page(await self._client.send(probe, timeout_s=LIST_TIMEOUT_S))
        except Forbidden as error:
            raise Gone(error.status, "HistoryUnknown", error.message, request=str(probe)) from error
        except Undecodable as error:
            raise Unavailable(200, "NotAList", str(error), request=str(probe)) from error
        if is_older(page.resource_version, self._version):
            self._rewound = True
            went_back = f"the server is at version {page.resource_version} after {self._version}"
            raise Gone(200, "VersionWentBack", went_back, request=str(probe))
        self._doubtful = False

    async def _watch(self) -> float:
        timeout_s = max(1, round(self._watch_timeout_s * _JITTER.uniform(0.9, 1.1)))
        request = self._request.with_query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(timeout_s),
        )
        opened_at = local_time_s()
        # The server ends the watch by itself in time, or it has gone silent.
        deadline_s = timeout_s + max(2.0, timeout_s * 0.05)
        async with self._client.stream(request, timeout_s=deadline_s) as chunks:
            if self._doubtful or opened_at - self._heard_s > OUT_OF_SIGHT_S:
                await self._check_history()
            self._broken_watches += 1
            lines = LineSplitter()
            try:
                async for chunk in chunks:
                    for line in lines.feed(chunk):
                        self._consume(self._codec.decode_event(line))
                    await asyncio.sleep(0)
            except (Undecodable, LineTooLong) as error:
                raise Unavailable(200, "NotAWatch", str(error), request=str(request)) from error
        if lines.finish():
            raise Unavailable(0, "CutOff", "the watch ended inside an event", request=str(request))
        self._broken_watches = 0
        if local_time_s() - opened_at < min(STEADY_WATCH_S, timeout_s * 0.5):
            # Orderly, but far too early: do not hurry back, and look whether all is well.
            self._doubtful = True
            return self._backoff.next_delay()
        self._note_contact(progress=True)
        return 0.0

    def _consume(self, event: WatchEvent[T]) -> None:
        match event:
            case Upsert(new):
                self._advance(self.resource.identify(new).resource_version)
                self._apply(changes.changes_of_upsert(self.resource, self._objects, new))
            case Removal(key, version):
                self._advance(version)
                self._apply(changes.changes_of_removal(self._objects, key))
            case Bookmark(version):
                self._advance(version)
            case Unreadable(bad, version):
                self._undecodable += 1
                report_bad(bad, self._codec)
                self._advance(version)
                self._apply(changes.changes_of_bad(self.resource, self._objects, bad))
            case StreamError(error):
                raise error

    def _advance(self, version: str) -> None:
        if is_older(version, self._version):
            self._rewound = True
            raise Gone(0, "VersionWentBack", f"version {version} after {self._version}")
        self._version = version or self._version
        self._note_contact(progress=True)

    def _apply(self, found: Iterable[Change[T]]) -> None:
        for change in found:
            key = self.resource.identify(change.object).key
            if change.new is None:
                del self._objects[key]
            else:
                self._objects[key] = change.new
            if change.kind != "updated":
                self._objects_gauge.inc(1 if change.kind == "added" else -1)
            self._changes_counter.inc()
            for index in self._indexes.values():
                index.replace(key, change.old, change.new)
            for subscriber in tuple(self._subscribers):
                self._call(subscriber, change)

    def _call(self, subscriber: Subscriber[T], change: Change[T]) -> None:
        try:
            subscriber(change)
        except Exception:
            metrics.SUBSCRIBER_FAILURES.labels(str(self.resource)).inc()
            key = self.resource.identify(change.object).key
            logger.exception("%s %s: a subscriber failed at %s", self.resource.kind, key, change.kind)

    def _note_contact(self, *, progress: bool = False) -> None:
        self._last_contact = time.time()
        self._refused = False
        self._heard_s = local_time_s()
        self._contact_gauge.set(self._last_contact)
        if progress:
            self._last_error = ""
            self._broken_watches = 0
            self._backoff.reset()

    def _note_failure(self, error: ApiError) -> float:
        self._restarts += 1
        self._doubtful = True
        self._last_error = str(error)
        self._refused = isinstance(error, Forbidden | NotFound)
        if self._refused:
            self._answered.set()
        delay = self._backoff.next_delay(error.retry_after_s)
        metrics.STORE_FAILURES.labels(str(self.resource), type(error).__name__).inc()
        level = logging.INFO if isinstance(error, Gone) else logging.WARNING
        logger.log(level, "%s: %s; again in %.1f s", self.resource, error, delay)
        return delay


def is_older(version: str, than: str) -> bool:
    """Whether a resourceVersion precedes another; False when they cannot be compared."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)
