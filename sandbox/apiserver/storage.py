"""Every stored object, its version and the bounded history that watches and consistent lists read.

All calls are synchronous: one event loop owns the store, so a read followed by a write without an `await` between
is atomic. Stored documents are shared with every reader and must never be changed in place; a writer hands in a
document of its own. Each stored version is encoded to JSON at most once per served API version (`Entry.encoded`).
"""

import asyncio
import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from sandbox.apiserver import status

JsonObject = dict[str, Any]

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"

Key = tuple[str, str]  # (namespace, name); the namespace of a cluster-scoped object is ""


class GroupResource(NamedTuple):
    """Under which group and plural objects are stored, whatever versions serve them."""

    group: str
    plural: str


@dataclass(slots=True)
class Entry:
    """One version of one object. `encodings` caches its JSON by the apiVersion it is served as."""

    object: JsonObject
    version: int
    encodings: dict[str, bytes] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        metadata = self.object["metadata"]
        return metadata.get("namespace", ""), metadata["name"]


@dataclass(slots=True)
class Event:
    """One change. `previous` is None for ADDED; a DELETED event's entry is the last state under the new version."""

    type: str
    entry: Entry
    previous: Entry | None
    version: int


class Expired(Exception):  # noqa: N818 - what has happened to the version asked for
    """The version asked for lies before the history; the caller must list again."""


class _Table:
    """The current objects of one GroupResource and the log of its changes, oldest first."""

    __slots__ = ("entries", "first", "floor", "log", "sorted_keys", "versions", "waiters")

    def __init__(self, floor: int) -> None:
        self.entries: dict[Key, Entry] = {}
        self.sorted_keys: list[Key] | None = None
        self.log: list[Event] = []
        self.versions: list[int] = []  # of self.log, for bisecting
        self.first = 0  # absolute position of self.log[0]
        self.floor = floor  # every change after this version is in the log
        self.waiters: set[asyncio.Event] = set()

    def ordered(self) -> list[Key]:
        if self.sorted_keys is None:
            self.sorted_keys = sorted(self.entries)
        return self.sorted_keys

    def trim(self, window: int) -> None:
        excess = len(self.log) - window
        if excess > 0:
            self.floor = self.versions[excess - 1]
            del self.log[:excess], self.versions[:excess]
            self.first += excess


class Storage:
    """An in-memory store with optimistic concurrency and a watchable history.

    initial_version: the version before the first write. A clock-derived number makes a restarted server refuse
    (410) what clients remember of its predecessor. history: changes kept per kind for watches; an older start
    version is Expired.
    """

    def __init__(self, *, initial_version: int = 1000, history: int = 10_000) -> None:
        self._version = initial_version
        self._floor = initial_version
        self._history = history
        self._tables: dict[GroupResource, _Table] = {}
        self._listeners: dict[GroupResource, list[Callable[[Event], None]]] = {}

    @property
    def version(self) -> int:
        """The version of the newest write, of any kind."""
        return self._version

    # Reading

    def get(self, resource: GroupResource, namespace: str, name: str) -> Entry | None:
        """The current entry, or None."""
        table = self._tables.get(resource)
        return table.entries.get((namespace, name)) if table else None

    def entries(self, resource: GroupResource, namespace: str = "") -> list[Entry]:
        """Current entries in (namespace, name) order; of one namespace, or of all with ""."""
        table = self._tables.get(resource)
        if table is None:
            return []
        if not namespace:
            return [table.entries[key] for key in table.ordered()]
        keys = table.ordered()
        start = bisect.bisect_left(keys, (namespace, ""))
        stop = bisect.bisect_left(keys, (namespace + "\0", ""))
        return [table.entries[key] for key in keys[start:stop]]

    def entries_at(self, resource: GroupResource, version: int, namespace: str = "") -> list[Entry]:
        """Entries as they were at a version, by undoing what came later. Raises Expired when it is too old."""
        table = self._table(resource)
        if version < table.floor:
            raise Expired
        entries = dict(table.entries)
        for event in reversed(table.log[bisect.bisect_right(table.versions, version) :]):
            if event.previous is None:
                entries.pop(event.entry.key, None)
            else:
                entries[event.entry.key] = event.previous
        return [entries[key] for key in sorted(entries) if not namespace or key[0] == namespace]

    def read(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        """The document of one object, or None; for readers that know kinds by name only."""
        entry = self.get(GroupResource(group, plural), namespace, name)
        return entry.object if entry else None

    def read_all(self, group: str, plural: str, namespace: str = "") -> Sequence[JsonObject]:
        """Documents in (namespace, name) order; empty for unknown kinds."""
        return [entry.object for entry in self.entries(GroupResource(group, plural), namespace)]

    def count(self, resource: GroupResource) -> int:
        """How many objects of a kind are stored."""
        table = self._tables.get(resource)
        return len(table.entries) if table else 0

    # Writing

    def create(self, resource: GroupResource, document: JsonObject) -> Entry:
        """Store a new object. Raises StatusError AlreadyExists. The version is written into a copied metadata."""
        table = self._table(resource)
        metadata = document["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in table.entries:
            raise status.already_exists(resource.group, resource.plural, key[1])
        entry = self._entry(document)
        table.entries[key] = entry
        table.sorted_keys = None
        self._record(resource, table, Event(ADDED, entry, None, entry.version))
        return entry

    def update(self, resource: GroupResource, document: JsonObject, *, expected: int | None = None) -> Entry:
        """Replace an object. Raises StatusError NotFound, or Conflict when `expected` is not its current version.

        A document that equals the stored one changes nothing: same entry, no event.
        """
        table = self._table(resource)
        metadata = document["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        current = self._current(resource, table, key, expected)
        if _same(current.object, document):
            return current
        entry = self._entry(document)
        table.entries[key] = entry
        self._record(resource, table, Event(MODIFIED, entry, current, entry.version))
        return entry

    def delete(self, resource: GroupResource, namespace: str, name: str, *, expected: int | None = None) -> Entry:
        """Remove an object and return its last state under the version of the removal. Raises as `update` does."""
        table = self._table(resource)
        current = self._current(resource, table, (namespace, name), expected)
        entry = self._entry(current.object)
        del table.entries[(namespace, name)]
        table.sorted_keys = None
        self._record(resource, table, Event(DELETED, entry, current, entry.version))
        return entry

    def compact(self) -> None:
        """Forget all history: every version before the newest write becomes Expired."""
        self._floor = self._version
        for table in self._tables.values():
            table.trim(0)
            table.floor = self._version
            self._wake(table)

    # Following changes

    def listen(self, resource: GroupResource, listener: Callable[[Event], None]) -> None:
        """Call `listener` synchronously after each change of a kind, within the write itself."""
        self._listeners.setdefault(resource, []).append(listener)

    def follow(self, resource: GroupResource, version: int | None = None) -> "Follower":
        """A cursor behind `version` (None: now). Raises Expired when the history no longer reaches back to it."""
        table = self._table(resource)
        if version is None:
            return Follower(table, table.first + len(table.log))
        if version < table.floor:
            raise Expired
        return Follower(table, table.first + bisect.bisect_right(table.versions, version))

    def drop(self, resources: Iterable[GroupResource]) -> None:
        """Delete every object of some kinds (a CustomResourceDefinition has gone)."""
        for resource in resources:
            for entry in self.entries(resource):
                self.delete(resource, *entry.key)

    def _table(self, resource: GroupResource) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table(self._floor)
        return table

    def _current(self, resource: GroupResource, table: _Table, key: Key, expected: int | None) -> Entry:
        current = table.entries.get(key)
        if current is None:
            raise status.not_found(resource.group, resource.plural, key[1])
        if expected is not None and expected != current.version:
            raise status.conflict(resource.group, resource.plural, key[1])
        return current

    def _entry(self, document: JsonObject) -> Entry:
        self._version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        return Entry({**document, "metadata": metadata}, self._version)

    def _record(self, resource: GroupResource, table: _Table, event: Event) -> None:
        table.log.append(event)
        table.versions.append(event.version)
        if len(table.log) >= 2 * self._history:  # trimmed by halves, so that a write stays cheap
            table.trim(self._history)
        self._wake(table)
        for listener in self._listeners.get(resource, ()):
            listener(event)

    @staticmethod
    def _wake(table: _Table) -> None:
        for waiter in table.waiters:
            waiter.set()


class Follower:
    """A reader of one kind's log. It holds a position, not events, so a slow reader costs no memory."""

    __slots__ = ("_position", "_table", "_waiter")

    def __init__(self, table: _Table, position: int) -> None:
        self._table = table
        self._position = position
        self._waiter = asyncio.Event()
        table.waiters.add(self._waiter)

    def take(self) -> list[Event]:
        """All changes since the last call. Raises Expired when the history has overtaken this reader."""
        table = self._table
        offset = self._position - table.first
        if offset < 0:
            raise Expired
        events = table.log[offset:]
        self._position += len(events)
        return events

    async def wait(self) -> None:
        """Return as soon as `take` has something to say (a change, or Expired)."""
        while self._position == self._table.first + len(self._table.log):
            self._waiter.clear()
            await self._waiter.wait()

    def close(self) -> None:
        """Stop being woken. Idempotent."""
        self._table.waiters.discard(self._waiter)


def _same(stored: JsonObject, document: JsonObject) -> bool:
    """Whether two documents are equal but for their resourceVersion."""
    if stored.keys() != document.keys():
        return False
    for key, value in document.items():
        if key != "metadata" and stored[key] != value:
            return False
    left = {key: value for key, value in stored["metadata"].items() if key != "resourceVersion"}
    right = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
    return left == right


def encode(document: object) -> bytes:
    """JSON bytes of a document."""
    return msgspec.json.encode(document)
