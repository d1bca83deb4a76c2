"""Watches: the initial state if asked for, then every change, with bookmarks, until the time is up."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver import conversion, query, selection, status
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.negotiation import Form, Shape
from sandbox.apiserver.query import ListOptions
from sandbox.apiserver.selection import Selection
from sandbox.apiserver.storage import ADDED, DELETED, MODIFIED, Entry, Event, Expired, Follower, Storage, encode
from sandbox.apiserver.tables import render

JsonObject = dict[str, Any]

BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BOOKMARK_INTERVAL_S = 60.0
MIN_TIMEOUT_S = 1800.0  # without timeoutSeconds a watch lasts between this and twice this
_SPREAD = random.Random()


@dataclass
class _Writer:
    """Turns events into lines in the form a client asked for."""

    kind: Kind
    form: Form
    include: str
    clock: Callable[[], float]
    columns_sent: bool = False

    def line(self, event: str, entry: Entry) -> bytes:
        if self.form.shape is Shape.OBJECT:
            return _frame(event, conversion.served_json(self.kind, entry))
        document = conversion.served(self.kind, entry.object)
        return _frame(event, encode(self._shaped(document, str(entry.version))))

    def bookmark(self, version: int, *, initial_end: bool) -> bytes:
        meta: JsonObject = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        document = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}
        if self.form.shape is Shape.TABLE:
            return _frame(BOOKMARK, encode(self._table([], str(version)) | {"metadata": meta}))
        if self.form.shape is Shape.METADATA:
            document = render.partial_metadata(document, self.form.version)
        return _frame(BOOKMARK, encode(document))

    def _shaped(self, document: JsonObject, version: str) -> JsonObject:
        if self.form.shape is Shape.METADATA:
            return render.partial_metadata(document, self.form.version)
        return self._table([document], version)

    def _table(self, documents: list[JsonObject], version: str) -> JsonObject:
        columns, self.columns_sent = not self.columns_sent, True
        return render.table(
            self.kind,
            documents,
            {"resourceVersion": version},
            self.clock(),
            version=self.form.version,
            include=self.include,
            columns=columns,
        )


def _frame(event: str, encoded: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + encoded + b"}\n"


def error_line(error: status.StatusError) -> bytes:
    """The line that ends a watch with a Status."""
    return _frame(ERROR, encode(error.document()))


def too_old(version: int, current: int) -> status.StatusError:
    """410 for a start version that the history no longer has."""
    return status.expired(f"too old resource version: {version} ({current})")


@dataclass(frozen=True)
class _Start:
    """How a watch begins: the initial entries (None: none), from which version on, where the bookmark is due."""

    entries: list[Entry] | None
    follower: Follower
    version: int
    announce_end: bool


class Watch:
    """One client's watch. Iterating gives chunks of lines to send; `close` must follow.

    Raises StatusError 400 or 504 when it cannot begin. That the start version is too old is told by the first line,
    as Kubernetes does.
    """

    def __init__(
        self,
        storage: Storage,
        kind: Kind,
        namespace: str,
        options: ListOptions,
        form: Form,
        *,
        include: str = "Metadata",
        clock: Callable[[], float],
        bookmark_interval_s: float = BOOKMARK_INTERVAL_S,
    ) -> None:
        self._bookmark_interval_s = bookmark_interval_s
        self._storage = storage
        self._kind = kind
        self._namespace = namespace
        self._options = options
        self._selection = selection.compile_selection(kind, options.label_selector, options.field_selector)
        self._writer = _Writer(kind, form, include, clock)
        self._start: _Start | None = None
        self._failure: status.StatusError | None = None
        try:
            self._start = self._begin()
        except Expired:
            self._failure = too_old(query.version_number(options.version or "0"), storage.version)

    def _begin(self) -> _Start:
        storage, options = self._storage, self._options
        resource = conversion.storage_of(self._kind)
        version = query.version_number(options.version or "0")
        if options.send_initial_events:
            if version > storage.version:
                raise status.too_large_version(version, storage.version)
            entries = storage.entries(resource, self._namespace)
            return _Start(entries, storage.follow(resource), storage.version, announce_end=options.bookmarks)
        if version:
            return _Start(None, storage.follow(resource, version), version, announce_end=False)
        wants_state = options.send_initial_events is None
        entries_now = storage.entries(resource, self._namespace) if wants_state else None
        return _Start(entries_now, storage.follow(resource), storage.version, announce_end=False)

    def close(self) -> None:
        """Stop following. Idempotent."""
        if self._start is not None:
            self._start.follower.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Lines to send, many at once when many are due; ends after the timeout or an error line."""
        if self._start is None:
            yield error_line(self._failure or too_old(0, self._storage.version))
            return
        start = self._start
        if initial := b"".join(self._initial(start)):
            yield initial
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._options.timeout_s or _SPREAD.uniform(MIN_TIMEOUT_S, 2 * MIN_TIMEOUT_S))
        last_sent = start.version
        while (left := deadline - loop.time()) > 0:
            pause = min(left, self._bookmark_interval_s)
            try:
                async with asyncio.timeout(pause):
                    await start.follower.wait()
            except TimeoutError:
                if self._options.bookmarks:
                    last_sent = self._storage.version
                    yield self._writer.bookmark(last_sent, initial_end=False)
                continue
            try:
                events = start.follower.take()
            except Expired:
                yield error_line(too_old(last_sent, self._storage.version))
                return
            last_sent = events[-1].version
            if lines := b"".join(self._lines(events)):
                yield lines

    def _initial(self, start: _Start) -> Iterator[bytes]:
        for entry in start.entries or ():
            if self._selection.matches(entry.object):
                yield self._writer.line(ADDED, entry)
        if start.announce_end:
            yield self._writer.bookmark(start.version, initial_end=True)

    def _lines(self, events: Iterable[Event]) -> Iterator[bytes]:
        for event in events:
            if self._namespace and event.entry.key[0] != self._namespace:
                continue
            told = seen(event, self._selection)
            if told is not None:
                yield self._writer.line(*told)


def seen(event: Event, selected: Selection) -> tuple[str, Entry] | None:
    """What a change looks like through a selection: objects that enter or leave it are added or deleted."""
    if selected.everything:
        return event.type, event.entry
    before = event.previous is not None and selected.matches(event.previous.object)
    after = event.type != DELETED and selected.matches(event.entry.object)
    if after:
        return (MODIFIED if before else ADDED), event.entry
    if not before or event.previous is None:
        return None
    if event.type == DELETED:
        return DELETED, event.entry
    document = event.previous.object
    metadata = {**document["metadata"], "resourceVersion": str(event.version)}
    return DELETED, Entry({**document, "metadata": metadata}, event.version)
