"""Garbage collection: dependents follow their owners (background, foreground, orphan).

Watches every kind in the store and writes through the API server, so that finalizers, preconditions
and admission apply as to any client.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import Resource, raw
from sandbox.admission.request import JsonObject
from sandbox.apiserver.kinds import Kind, KindRegistry
from sandbox.apiserver.storage import DELETED, Event, GroupResource, Storage
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.ownership import (
    Act,
    Delete,
    DropReferences,
    OwnerState,
    ReleaseDependents,
    RemoveFinalizer,
    decide_as_dependent,
    decide_as_owner,
    is_waiting,
)

_IGNORED: Final = (GroupResource("", "events"), GroupResource("events.k8s.io", "events"))


class Identity(NamedTuple):
    """Where an object stands in the store."""

    resource: GroupResource
    namespace: str
    name: str


class GarbageCollector:
    """Deletes what has lost all its owners."""

    def __init__(self, client: Client, storage: Storage, kinds: KindRegistry) -> None:
        self._client = client
        self._storage = storage
        self._kinds = kinds
        self._dependents: dict[str, set[Identity]] = {}  # by the owner's uid
        self._queue: WorkQueue[Identity] = WorkQueue("garbage", self._reconcile)
        self._followed: set[GroupResource] = set()

    async def run(self) -> None:
        """Work for ever."""
        self._follow_kinds()
        self._kinds.listen(self._follow_kinds)
        await self._queue.run()

    def _follow_kinds(self) -> None:
        for kind in self._kinds:
            resource = kind.resource
            if resource in self._followed or resource in _IGNORED or "delete" not in kind.verbs:
                continue
            self._followed.add(resource)
            for entry in self._storage.entries(resource):
                self._see(Identity(resource, *entry.key), entry.object, None)
            self._storage.listen(resource, self._listener(resource))

    def _listener(self, resource: GroupResource) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            identity = Identity(resource, *event.entry.key)
            previous = event.previous.object if event.previous else None
            self._see(identity, None if event.type == DELETED else event.entry.object, previous)

        return listen

    def _see(self, identity: Identity, obj: JsonObject | None, previous: JsonObject | None) -> None:
        """Take in one change and queue what it may concern. `obj` is None for a deletion."""
        before, after = set(_owner_uids(previous)), set(_owner_uids(obj))
        for uid in before - after:
            self._forget(uid, identity)
        for uid in after - before:
            self._dependents.setdefault(uid, set()).add(identity)
        if obj is None:
            gone = (previous or {}).get("metadata", {}).get("uid", "")
            for dependent in self._dependents.get(gone, ()):
                self._queue.add(dependent)
            for uid in before:  # an owner that waits for its dependents may go on
                self._queue_owner(previous, uid)
            return
        if after != before or obj["metadata"].get("deletionTimestamp"):
            self._queue.add(identity)
        if obj["metadata"].get("deletionTimestamp"):
            for dependent in self._dependents.get(obj["metadata"].get("uid", ""), ()):
                self._queue.add(dependent)
        for uid in before - after:
            self._queue_owner(previous, uid)

    def _forget(self, owner_uid: str, dependent: Identity) -> None:
        dependents = self._dependents.get(owner_uid, set())
        dependents.discard(dependent)
        if not dependents:
            self._dependents.pop(owner_uid, None)

    def _queue_owner(self, dependent: JsonObject | None, uid: str) -> None:
        for reference in ((dependent or {}).get("metadata") or {}).get("ownerReferences") or ():
            if reference.get("uid") == uid and dependent is not None:
                found = self._locate(reference, dependent["metadata"].get("namespace", ""))
                if found is not None:
                    self._queue.add(found)

    def _locate(self, reference: JsonObject, namespace: str) -> Identity | None:
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        kind = self._kinds.by_kind(group, version, str(reference.get("kind", "")))
        if kind is None:
            return None
        return Identity(kind.resource, namespace if kind.namespaced else "", reference["name"])

    async def _reconcile(self, identity: Identity) -> float | None:
        obj = self._read(identity)
        if obj is None:
            return None
        dependents = list(self._living_dependents(obj["metadata"].get("uid", "")))
        act = decide_as_owner(obj, [dependent for _, dependent in dependents])
        if isinstance(act, ReleaseDependents):
            await asyncio.gather(*(self._release(where, found, obj) for where, found in dependents))
            return 0.0
        await self._apply(identity, obj, act)
        references = obj["metadata"].get("ownerReferences") or ()
        owners = [(owner, self._state(owner, obj)) for owner in references]
        await self._apply(identity, obj, decide_as_dependent(obj, owners, bool(dependents)))
        return None

    async def _apply(self, identity: Identity, obj: JsonObject, act: Act) -> None:
        uid = obj["metadata"]["uid"]
        if isinstance(act, Delete):
            resource = self._resource(identity)
            if resource is None:
                return
            try:
                await self._client.delete(
                    resource, identity.name, identity.namespace, uid=uid, propagation=act.propagation
                )
            except NotFound:
                return
        elif isinstance(act, DropReferences):
            kept = [owner for owner in obj["metadata"]["ownerReferences"] if owner.get("uid") not in act.uids]
            await self._patch(identity, obj, "ownerReferences", kept)
        elif isinstance(act, RemoveFinalizer):
            kept = [name for name in obj["metadata"]["finalizers"] if name != act.finalizer]
            await self._patch(identity, obj, "finalizers", kept)

    async def _release(self, where: Identity, dependent: JsonObject, owner: JsonObject) -> None:
        uid = owner["metadata"]["uid"]
        kept = [ref for ref in dependent["metadata"].get("ownerReferences") or () if ref.get("uid") != uid]
        await self._patch(where, dependent, "ownerReferences", kept)

    async def _patch(self, identity: Identity, obj: JsonObject, field: str, value: list[object]) -> None:
        """Set a list in metadata, provided that nobody changed the object meanwhile."""
        resource = self._resource(identity)
        if resource is None:
            return
        version = obj["metadata"]["resourceVersion"]
        path = f"/metadata/{field}"
        change = {"op": "replace", "path": path, "value": value} if value else {"op": "remove", "path": path}
        body = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, change]
        await self._client.patch(resource, identity.name, body, namespace=identity.namespace, content_type=JSON_PATCH)

    def _state(self, reference: JsonObject, dependent: JsonObject) -> OwnerState:
        where = self._locate(reference, dependent["metadata"].get("namespace", ""))
        owner = self._read(where) if where is not None else None
        if where is None:
            return OwnerState.SOLID  # a kind that is not served: cannot be known to be absent
        if owner is None or owner["metadata"].get("uid") != reference.get("uid"):
            return OwnerState.ABSENT
        return OwnerState.WAITING if is_waiting(owner) else OwnerState.SOLID

    def _living_dependents(self, uid: str) -> Iterator[tuple[Identity, JsonObject]]:
        for identity in tuple(self._dependents.get(uid, ())):
            found = self._read(identity)
            if found is not None:
                yield identity, found

    def _read(self, identity: Identity) -> JsonObject | None:
        return self._storage.read(*identity.resource, identity.namespace, identity.name)

    def _resource(self, identity: Identity) -> Resource[JsonObject] | None:
        kind = self._kinds.any_version(*identity.resource)
        return resource_of(kind) if kind is not None else None


def resource_of(kind: Kind) -> Resource[JsonObject]:
    """The client's word for a served kind."""
    return raw(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


def _owner_uids(obj: JsonObject | None) -> Iterator[str]:
    for owner in ((obj or {}).get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("uid"):
            yield owner["uid"]
