"""Namespace deletion: everything in a terminating namespace goes first, then the namespace."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from koord.kube.client import Client
from koord.kube.errors import Conflict, NotFound
from koord.kube.resources import NAMESPACES
from sandbox.admission.request import JsonObject
from sandbox.apiserver.kinds import Kind, KindRegistry
from sandbox.apiserver.storage import DELETED, Event, GroupResource, Storage
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.garbage import resource_of

_NAMESPACES: Final = GroupResource("", "namespaces")
_FINALIZER: Final = "kubernetes"
_RECHECK_S: Final = 5.0
_AT_ONCE: Final = 20


class NamespaceLoop:
    """Empties terminating namespaces and releases them."""

    def __init__(self, client: Client, storage: Storage, kinds: KindRegistry) -> None:
        self._client = client
        self._storage = storage
        self._kinds = kinds
        self._queue: WorkQueue[str] = WorkQueue("namespaces", self._reconcile, workers=2)
        self._followed: set[GroupResource] = set()

    async def run(self) -> None:
        """Work for ever."""
        if not self._followed:
            self._followed.add(_NAMESPACES)
            self._storage.listen(_NAMESPACES, lambda event: self._see(event.entry.object))
            self._kinds.listen(self._follow_kinds)
        self._follow_kinds()
        for namespace in self._storage.read_all(*_NAMESPACES):
            self._see(namespace)
        await self._queue.run()

    def _see(self, namespace: JsonObject) -> None:
        if _is_ending(namespace):
            self._queue.add(namespace["metadata"]["name"])

    def _follow_kinds(self) -> None:
        for kind in self._kinds:
            if kind.namespaced and kind.resource not in self._followed:
                self._followed.add(kind.resource)
                self._storage.listen(kind.resource, self._listener())

    def _listener(self) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            if event.type == DELETED:
                namespace = self._storage.read(*_NAMESPACES, "", event.entry.key[0])
                if namespace is not None:
                    self._see(namespace)

        return listen

    async def _reconcile(self, name: str) -> float | None:
        namespace = self._storage.read(*_NAMESPACES, "", name)
        if namespace is None or not _is_ending(namespace):
            return None
        slots = asyncio.Semaphore(_AT_ONCE)
        contents = list(self._contents(name))
        fresh = [(kind, obj) for kind, obj in contents if not obj["metadata"].get("deletionTimestamp")]
        await asyncio.gather(*(self._delete(kind, obj, slots) for kind, obj in fresh))
        if any(True for _ in self._contents(name)):
            return _RECHECK_S  # a deletion that completes wakes this up sooner
        await self._finalize(name)
        return None

    def _contents(self, name: str) -> Iterator[tuple[Kind, JsonObject]]:
        seen: set[GroupResource] = set()
        for kind in self._kinds:
            if not kind.namespaced or kind.resource in seen or "delete" not in kind.verbs:
                continue
            seen.add(kind.resource)
            for obj in self._storage.read_all(kind.group, kind.plural, name):
                yield kind, obj

    async def _delete(self, kind: Kind, obj: JsonObject, slots: asyncio.Semaphore) -> None:
        metadata = obj["metadata"]
        async with slots:
            try:
                await self._client.delete(
                    resource_of(kind), metadata["name"], metadata["namespace"], propagation="Background"
                )
            except (NotFound, Conflict):
                return

    async def _finalize(self, name: str) -> None:
        namespace = self._storage.read(*_NAMESPACES, "", name)
        if namespace is None:
            return
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        kept = [finalizer for finalizer in finalizers if finalizer != _FINALIZER]
        body = {**namespace, "spec": {**(namespace.get("spec") or {}), "finalizers": kept}}
        try:
            await self._client.update(NAMESPACES, name, body, subresource="finalize")
        except NotFound:
            return


def _is_ending(namespace: JsonObject) -> bool:
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    return bool(namespace["metadata"].get("deletionTimestamp")) and _FINALIZER in finalizers
