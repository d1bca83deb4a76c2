"""The ReplicaSet controller."""

import asyncio
import time
from collections.abc import Callable

from koord.api.selectors import InvalidSelector
from koord.api.timestamps import format_rfc3339
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.resources import REPLICA_SETS, Key
from sandbox.admission.request import JsonObject
from sandbox.controllers.claims import claim
from sandbox.controllers.informers import Informers, key_of
from sandbox.controllers.pod_writer import ChildWriter
from sandbox.controllers.replica_count import plan_replicas, replica_status
from sandbox.controllers.status_writer import write_status
from sandbox.controllers.templates import labels_of, pod_from_template, selector_of
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import controller_of, set_condition


class ReplicaSetController:
    """Keeps as many pods as each ReplicaSet wants."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._writer = ChildWriter(client, informers.pods, events)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("replicaset", self._reconcile, workers=8)

    async def run(self) -> None:
        """Work for ever; the informers must run beside."""
        await self._informers.wait_synced()
        self._informers.replica_sets.store.subscribe(lambda change: self._queue.add(key_of(change.object)))
        self._informers.pods.store.subscribe(self._on_pod)
        await self._queue.run()

    def _on_pod(self, change: Change[JsonObject]) -> None:
        for pod in (change.old, change.new):
            owner = controller_of(pod) if pod is not None else None
            if pod is not None and owner is not None and owner["kind"] == REPLICA_SETS.kind:
                self._queue.add(Key(pod["metadata"]["namespace"], owner["name"]))
        if change.new is not None and controller_of(change.new) is None and _is_new_orphan(change.old, change.new):
            self._offer(change.new)

    def _offer(self, orphan: JsonObject) -> None:
        """Let ReplicaSets that select an orphan look at it."""
        for replica_set in self._informers.replica_sets.store.values():
            if replica_set["metadata"]["namespace"] != orphan["metadata"]["namespace"]:
                continue
            try:
                if selector_of(replica_set).matches(labels_of(orphan)):
                    self._queue.add(key_of(replica_set))
            except InvalidSelector:
                continue

    async def _reconcile(self, key: Key) -> float | None:
        replica_set = self._informers.replica_sets.get(key)
        if replica_set is None:
            return None
        failure = await self._move(replica_set)
        replica_set = self._informers.replica_sets.get(key)
        if replica_set is None:
            return None
        now_s = self._clock()
        status, again_s = replica_status(replica_set, self._pods(replica_set), now_s)
        if failure is not None:
            stamp = format_rfc3339(now_s)
            entry = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failure.message}
            old = (replica_set.get("status") or {}).get("conditions") or []
            status = set_condition({**status, "conditions": old}, entry, stamp)
        await write_status(self._client, REPLICA_SETS, replica_set, status)
        if failure is not None:
            raise failure
        return again_s

    async def _move(self, replica_set: JsonObject) -> ApiError | None:
        """Make or remove pods; returns the failure that the status should tell of."""
        found = claim(
            replica_set,
            selector_of(replica_set),
            self._informers.pods.owned_by(replica_set["metadata"]["uid"]),
            self._informers.pods.orphans_in(replica_set["metadata"]["namespace"]),
        )
        try:
            await asyncio.gather(*(self._writer.adopt(replica_set, REPLICA_SETS, pod) for pod in found.adopt))
            await asyncio.gather(*(self._writer.release(replica_set, pod) for pod in found.release))
            plan = plan_replicas(replica_set, self._pods(replica_set), self._clock())
            template = (replica_set.get("spec") or {}).get("template") or {}
            bodies = [pod_from_template(replica_set, REPLICA_SETS, template) for _ in range(plan.create)]
            await self._writer.create(replica_set, REPLICA_SETS, bodies)
            await self._writer.delete(replica_set, REPLICA_SETS, plan.delete)
        except ApiError as error:
            return error
        return None

    def _pods(self, replica_set: JsonObject) -> list[JsonObject]:
        return self._informers.pods.owned_by(replica_set["metadata"]["uid"])


def _is_new_orphan(old: JsonObject | None, new: JsonObject) -> bool:
    """Whether something changed that decides who may adopt the pod: selectors are costly to ask."""
    return old is None or controller_of(old) is not None or labels_of(old) != labels_of(new)
