"""What a listing or an event changes in what is known. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from koord.kube.codec import BadObject
from koord.kube.resources import Key, Resource

T = TypeVar("T")


@dataclass(frozen=True)
class Change(Generic[T]):
    """One step of the collection's history.

    added: `old` is None. updated: both are set, and are the same object by uid.
    deleted: `new` is None and `old` is the state that was last announced.
    """

    kind: Literal["added", "updated", "deleted"]
    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The newest state there is: the last known one after a deletion."""
        current = self.new if self.new is not None else self.old
        assert current is not None
        return current


def changes_of_upsert(
    resource: Resource[T], known: Mapping[Key, T], new: T, *, by_content: bool = False
) -> Iterator[Change[T]]:
    """The changes that make `new` known: none when this state of it is known already.

    `by_content`: equal resourceVersions prove nothing, compare the objects.
    """
    key, uid, resource_version = resource.identify(new)
    old = known.get(key)
    if old is None:
        yield Change("added", None, new)
        return
    _, old_uid, old_version = resource.identify(old)
    if uid != old_uid:
        # The name was used again, and the events between were missed.
        yield Change("deleted", old, None)
        yield Change("added", None, new)
    elif resource_version != old_version or not resource_version or (by_content and old != new):
        yield Change("updated", old, new)


def changes_of_bad(resource: Resource[T], known: Mapping[Key, T], bad: BadObject) -> Iterator[Change[T]]:
    """A bad object leaves its last good state, unless that was another object's."""
    old = known.get(bad.key)
    if old is not None and resource.identify(old).uid != bad.uid:
        yield Change("deleted", old, None)


def changes_of_removal(known: Mapping[Key, T], key: Key) -> Iterator[Change[T]]:
    """The deletion of what is known under `key`, if anything is."""
    old = known.get(key)
    if old is not None:
        yield Change("deleted", old, None)


def changes_of_listing(
    resource: Resource[T],
    known: Mapping[Key, T],
    items: Collection[T],
    bad: Collection[BadObject],
    *,
    by_content: bool = False,
) -> list[Change[T]]:
    """The changes that turn `known` into the listed collection, deletions first."""
    listed = {resource.identify(item).key: item for item in items}
    present = listed.keys() | {entry.key for entry in bad}
    changes: list[Change[T]] = [Change("deleted", old, None) for key, old in known.items() if key not in present]
    for entry in bad:
        changes.extend(changes_of_bad(resource, known, entry))
    for item in listed.values():
        changes.extend(changes_of_upsert(resource, known, item, by_content=by_content))
    return changes
