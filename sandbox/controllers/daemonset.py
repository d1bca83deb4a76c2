"""The DaemonSet controller.

It keeps no ControllerRevision objects: a hash of the template on each pod tells versions apart.
"""

import time
from collections.abc import Callable

from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.resources import DAEMON_SETS, Key
from sandbox.admission.request import JsonObject
from sandbox.controllers.daemon_plan import REVISION_HASH, DaemonPlan, pin_to_node, plan_daemons
from sandbox.controllers.informers import Informers, key_of
from sandbox.controllers.pod_writer import ChildWriter
from sandbox.controllers.status_writer import write_status
from sandbox.controllers.templates import pod_from_template, template_hash
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import controller_of


class DaemonSetController:
    """Keeps one pod of each DaemonSet on every node that it wants."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._writer = ChildWriter(client, informers.pods, events)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("daemonset", self._reconcile)

    async def run(self) -> None:
        """Work for ever; the informers must run beside."""
        await self._informers.wait_synced()
        self._informers.daemon_sets.store.subscribe(lambda change: self._queue.add(key_of(change.object)))
        self._informers.pods.store.subscribe(self._on_pod)
        self._informers.nodes.store.subscribe(self._on_node)
        await self._queue.run()

    def _on_pod(self, change: Change[JsonObject]) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == DAEMON_SETS.kind:
            self._queue.add(Key(change.object["metadata"]["namespace"], owner["name"]))

    def _on_node(self, change: Change[JsonObject]) -> None:
        """Heartbeats change nothing here; labels and taints do."""
        if change.old is not None and change.new is not None and _placement(change.old) == _placement(change.new):
            return
        for daemon_set in self._informers.daemon_sets.store.values():
            self._queue.add(key_of(daemon_set))

    async def _reconcile(self, key: Key) -> float | None:
        daemon_set = self._informers.daemon_sets.get(key)
        if daemon_set is None:
            return None
        template = (daemon_set.get("spec") or {}).get("template") or {}
        revision = template_hash(template)
        plan = self._plan(daemon_set, revision)
        await self._writer.delete(daemon_set, DAEMON_SETS, plan.delete)
        bodies = [_pod(daemon_set, template, revision, node) for node in plan.create]
        await self._writer.create(daemon_set, DAEMON_SETS, bodies)
        after = self._plan(daemon_set, revision)
        await write_status(
            self._client, DAEMON_SETS, self._informers.daemon_sets.get(key) or daemon_set, after.status
        )
        return after.again_s

    def _plan(self, daemon_set: JsonObject, revision: str) -> DaemonPlan:
        pods = self._informers.pods.owned_by(daemon_set["metadata"]["uid"])
        return plan_daemons(daemon_set, self._informers.nodes.store.values(), pods, revision, self._clock())


def _placement(node: JsonObject) -> tuple[object, object]:
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")


def _pod(daemon_set: JsonObject, template: JsonObject, revision: str, node: str) -> JsonObject:
    pod = pod_from_template(daemon_set, DAEMON_SETS, template)
    pod["metadata"]["labels"][REVISION_HASH] = revision
    pod["spec"] = pin_to_node(pod["spec"], node)
    return pod
