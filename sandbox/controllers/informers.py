"""The watched collections that all workload controllers share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS, Key, Resource, raw
from koord.kube.store import Store
from sandbox.admission.request import JsonObject
from sandbox.lifecycle.pods import controller_of

PODS: Final = raw("", "v1", "pods", "Pod", True)
NODES: Final = raw("", "v1", "nodes", "Node", False)
STATEFUL_SETS: Final = raw("apps", "v1", "statefulsets", "StatefulSet", True)

_OWNER: Final = "owner"
_SEEN_TIMEOUT_S: Final = 5.0


class Informer:
    """A store of raw objects, indexed by their controller, in which one can wait for what is to come."""

    def __init__(self, client: Client, resource: Resource[JsonObject]) -> None:
        self.resource = resource
        self.store = Store(client, resource)
        self.store.add_index(_OWNER, _owner_key)
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._recordings: list[set[str]] = []
        self.store.subscribe(self._wake)

    def get(self, key: Key) -> JsonObject | None:
        """The object of a key, as last seen."""
        return self.store.get(key.name, key.namespace)

    def owned_by(self, uid: str) -> list[JsonObject]:
        """Objects whose controller has this uid, oldest first."""
        return sorted(self.store.by_index(_OWNER, uid), key=_age_key)

    def orphans_in(self, namespace: str) -> list[JsonObject]:
        """Objects of a namespace without a controller, in no order."""
        return self.store.by_index(_OWNER, ("", namespace))

    @contextmanager
    def recording(self) -> Iterator[set[str]]:
        """Collect the uids of all objects that show up (or change, or go) while the context is open."""
        seen: set[str] = set()
        self._recordings.append(seen)
        try:
            yield seen
        finally:
            self._recordings = [other for other in self._recordings if other is not seen]

    async def until(self, condition: Callable[[], bool], timeout_s: float = _SEEN_TIMEOUT_S) -> bool:
        """Wait until the condition holds for what the store shows; False when it does not in time."""
        if condition():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(entry)
        return True

    def _wake(self, change: Change[JsonObject]) -> None:
        for seen in self._recordings:
            seen.add(change.object["metadata"]["uid"])
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(None)


class Informers:
    """Pods, nodes and workloads, each watched once."""

    def __init__(self, client: Client) -> None:
        self.pods = Informer(client, PODS)
        self.nodes = Informer(client, NODES)
        self.replica_sets = Informer(client, REPLICA_SETS)
        self.deployments = Informer(client, DEPLOYMENTS)
        self.jobs = Informer(client, JOBS)
        self.daemon_sets = Informer(client, DAEMON_SETS)
        self.stateful_sets = Informer(client, STATEFUL_SETS)

    @property
    def all(self) -> tuple[Informer, ...]:
        """Every informer."""
        return (
            self.pods,
            self.nodes,
            self.replica_sets,
            self.deployments,
            self.jobs,
            self.daemon_sets,
            self.stateful_sets,
        )

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in self.all:
                group.create_task(informer.store.run(), name=f"watch {informer.resource}")

    async def wait_synced(self) -> None:
        """Return once every collection has been listed."""
        await asyncio.gather(*(informer.store.wait_synced() for informer in self.all))


def key_of(obj: JsonObject) -> Key:
    """Namespace and name of an object."""
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _owner_key(obj: JsonObject) -> str | tuple[str, str]:
    owner = controller_of(obj)
    return owner["uid"] if owner else ("", obj["metadata"].get("namespace", ""))


def _age_key(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp") or "", obj["metadata"]["name"]
