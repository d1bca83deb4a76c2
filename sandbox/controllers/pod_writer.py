"""Creates and deletes pods (and other children) for controllers, and tells about it in Events.

Each call returns only when the shared cache shows the result, so that the next decision is made on
what has really been done.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder, ObjectReference
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import Resource
from sandbox.admission.request import JsonObject
from sandbox.controllers.informers import Informer, key_of
from sandbox.controllers.templates import owner_reference

_AT_ONCE: Final = 16

Call = Callable[[], Awaitable[object]]


class ChildWriter:
    """Writes the children of workloads: `children` is where they become visible."""

    def __init__(self, client: Client, children: Informer, events: EventRecorder) -> None:
        self._client = client
        self._children = children
        self._events = events

    async def create(self, owner: JsonObject, resource: Resource[JsonObject], bodies: Sequence[JsonObject]) -> int:
        """Create children; returns how many. Raises the first failure after all have been tried.

        The first one goes alone: where it is refused, the others would be, too.
        """
        if not bodies:
            return 0
        with self._children.recording() as seen:
            made = [await self._create(owner, resource, bodies[0])]
            rest = await self._bounded([self._creation(owner, resource, body) for body in bodies[1:]])
            made += [result for result in rest if isinstance(result, dict)]
            uids = {child["metadata"]["uid"] for child in made}
            await self._children.until(lambda: uids <= seen)
        _raise_first(rest)
        return len(made)

    async def delete(self, owner: JsonObject, resource: Resource[JsonObject], children: Sequence[JsonObject]) -> None:
        """Delete children by uid; those that are gone already do not matter."""
        if not children:
            return
        results = await self._bounded([self._deletion(owner, resource, child) for child in children])
        await self._children.until(lambda: all(self._is_leaving(child) for child in children))
        _raise_first(results)

    async def adopt(self, owner: JsonObject, resource: Resource[JsonObject], child: JsonObject) -> None:
        """Become the controller of a child that has none."""
        kept = child["metadata"].get("ownerReferences") or []
        await self._set_owners(child, [*kept, owner_reference(owner, resource)])

    async def release(self, owner: JsonObject, child: JsonObject) -> None:
        """Give up a child that the selector no longer finds."""
        uid = owner["metadata"]["uid"]
        kept = [ref for ref in child["metadata"].get("ownerReferences") or () if ref.get("uid") != uid]
        await self._set_owners(child, kept)

    def tell(
        self,
        owner: JsonObject,
        resource: Resource[JsonObject],
        kind: Literal["Normal", "Warning"],
        reason: str,
        text: str,
    ) -> None:
        """Record an Event about the owner."""
        metadata = owner["metadata"]
        reference = ObjectReference(
            resource.api_version, resource.kind, metadata["name"], metadata.get("namespace", ""), metadata["uid"]
        )
        self._events.emit(reference, kind, reason, text)

    async def _set_owners(self, child: JsonObject, owners: list[JsonObject]) -> None:
        metadata = child["metadata"]
        body = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "add", "path": "/metadata/ownerReferences", "value": owners},
        ]
        patched = await self._client.patch(
            self._children.resource, metadata["name"], body, namespace=metadata["namespace"], content_type=JSON_PATCH
        )
        key, version = key_of(patched), int(patched["metadata"]["resourceVersion"])
        await self._children.until(lambda: _version(self._children.get(key)) >= version)

    def _creation(self, owner: JsonObject, resource: Resource[JsonObject], body: JsonObject) -> Call:
        return lambda: self._create(owner, resource, body)

    def _deletion(self, owner: JsonObject, resource: Resource[JsonObject], child: JsonObject) -> Call:
        return lambda: self._delete(owner, resource, child)

    async def _create(self, owner: JsonObject, resource: Resource[JsonObject], body: JsonObject) -> JsonObject:
        kind = self._children.resource.kind.lower()
        try:
            made = await self._client.create(self._children.resource, body)
        except ApiError as error:
            self.tell(owner, resource, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self.tell(owner, resource, "Normal", "SuccessfulCreate", f"Created {kind}: {made['metadata']['name']}")
        return made

    async def _delete(self, owner: JsonObject, resource: Resource[JsonObject], child: JsonObject) -> None:
        metadata = child["metadata"]
        kind = self._children.resource.kind.lower()
        try:
            await self._client.delete(
                self._children.resource, metadata["name"], metadata["namespace"], uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return
        except ApiError as error:
            self.tell(owner, resource, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        self.tell(owner, resource, "Normal", "SuccessfulDelete", f"Deleted {kind}: {metadata['name']}")

    async def _bounded(self, calls: Sequence[Call]) -> list[object]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def run(call: Call) -> object:
            async with slots:
                return await call()

        return list(await asyncio.gather(*(run(call) for call in calls), return_exceptions=True))

    def _is_leaving(self, child: JsonObject) -> bool:
        found = self._children.get(key_of(child))
        if found is None or found["metadata"]["uid"] != child["metadata"]["uid"]:
            return True
        return bool(found["metadata"].get("deletionTimestamp"))


def _version(obj: JsonObject | None) -> int:
    return int(obj["metadata"]["resourceVersion"]) if obj is not None else 1 << 62


def _raise_first(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, BaseException):
            raise result
