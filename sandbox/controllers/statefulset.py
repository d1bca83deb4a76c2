"""The StatefulSet controller: ordered pods with fixed names. Volume claim templates are not handled."""

import time
from collections.abc import Callable

from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.resources import Key
from sandbox.admission.request import JsonObject
from sandbox.controllers.informers import STATEFUL_SETS, Informers, key_of
from sandbox.controllers.pod_writer import ChildWriter
from sandbox.controllers.stateful_plan import INDEX_LABEL, NAME_LABEL, REVISION_HASH, StatefulPlan, plan_stateful
from sandbox.controllers.status_writer import write_status
from sandbox.controllers.templates import pod_from_template, template_hash
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import controller_of


class StatefulSetController:
    """Keeps the numbered pods of each StatefulSet."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._writer = ChildWriter(client, informers.pods, events)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("statefulset", self._reconcile)

    async def run(self) -> None:
        """Work for ever; the informers must run beside."""
        await self._informers.wait_synced()
        self._informers.stateful_sets.store.subscribe(lambda change: self._queue.add(key_of(change.object)))
        self._informers.pods.store.subscribe(self._on_pod)
        await self._queue.run()

    def _on_pod(self, change: Change[JsonObject]) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == STATEFUL_SETS.kind:
            self._queue.add(Key(change.object["metadata"]["namespace"], owner["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        stateful_set = self._informers.stateful_sets.get(key)
        if stateful_set is None:
            return None
        template = (stateful_set.get("spec") or {}).get("template") or {}
        revision = template_hash(template)
        plan = self._plan(stateful_set, revision)
        await self._writer.delete(stateful_set, STATEFUL_SETS, plan.delete)
        bodies = [_pod(stateful_set, template, revision, ordinal) for ordinal in plan.create]
        await self._writer.create(stateful_set, STATEFUL_SETS, bodies)
        after = self._plan(stateful_set, revision)
        current = self._informers.stateful_sets.get(key) or stateful_set
        await write_status(self._client, STATEFUL_SETS, current, after.status)
        if plan.create or plan.delete:
            self._queue.add(key)
        return after.again_s

    def _plan(self, stateful_set: JsonObject, revision: str) -> StatefulPlan:
        pods = self._informers.pods.owned_by(stateful_set["metadata"]["uid"])
        return plan_stateful(stateful_set, pods, revision, self._clock())


def _pod(stateful_set: JsonObject, template: JsonObject, revision: str, ordinal: int) -> JsonObject:
    pod = pod_from_template(stateful_set, STATEFUL_SETS, template)
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata = pod["metadata"]
    metadata.pop("generateName")
    metadata["name"] = name
    metadata["labels"] |= {REVISION_HASH: revision, NAME_LABEL: name, INDEX_LABEL: str(ordinal)}
    pod["spec"]["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        pod["spec"]["subdomain"] = stateful_set["spec"]["serviceName"]
    return pod
