"""Keeps the status of PodDisruptionBudgets true."""

import time
from collections.abc import Callable
from typing import Final

from koord.api.timestamps import format_rfc3339
from koord.kube.client import Client
from koord.kube.resources import PDBS, Key
from sandbox.admission.request import JsonObject
from sandbox.apiserver.storage import Event, GroupResource, Storage
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.budget import DISRUPTION_GRACE_S, ScaleUnknown, live_budget
from sandbox.lifecycle.budget_status import failed_status, status_of

_BUDGETS: Final = GroupResource("policy", "poddisruptionbudgets")
_CAUSES: Final = (
    GroupResource("", "pods"),
    GroupResource("", "replicationcontrollers"),
    GroupResource("apps", "replicasets"),
    GroupResource("apps", "deployments"),
    GroupResource("apps", "statefulsets"),
)
_COALESCE_S: Final = 0.05


class DisruptionLoop:
    """Recomputes a namespace's budgets after its pods or their owners changed."""

    def __init__(self, client: Client, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._storage = storage
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("disruption", self._reconcile, delay_s=_COALESCE_S)
        self._listening = False

    async def run(self) -> None:
        """Work for ever."""
        if not self._listening:
            self._listening = True
            self._storage.listen(_BUDGETS, self._on_budget)
            for resource in _CAUSES:
                self._storage.listen(resource, self._on_cause)
        for pdb in self._storage.read_all(*_BUDGETS):
            self._queue.add(_key(pdb))
        await self._queue.run()

    def _on_budget(self, event: Event) -> None:
        self._queue.add(_key(event.entry.object))

    def _on_cause(self, event: Event) -> None:
        namespace = event.entry.object["metadata"].get("namespace", "")
        for pdb in self._storage.read_all(*_BUDGETS, namespace):
            self._queue.add(_key(pdb))

    async def _reconcile(self, key: Key) -> float | None:
        pdb = self._storage.read(*_BUDGETS, key.namespace, key.name)
        if pdb is None:
            return None
        now = self._clock()
        stamp = format_rfc3339(now)
        try:
            budget = live_budget(pdb, self._storage, now)
            status = status_of(pdb, budget, stamp)
            again_s = float(DISRUPTION_GRACE_S) if budget.disrupted else None
        except (ScaleUnknown, ValueError) as error:
            status, again_s = failed_status(pdb, str(error), stamp), None
        if status != pdb.get("status"):
            body = {**pdb, "status": status}
            await self._client.update(PDBS, key.name, body, namespace=key.namespace, subresource="status")
        return again_s


def _key(obj: JsonObject) -> Key:
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
