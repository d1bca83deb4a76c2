"""The binder's loop: watches pods and nodes, decides one pod after the other, binds.

A decision counts at once (it is assumed in the ledger), while the binding itself is written beside the next
decisions; a binding that fails gives its place back. Pods that fit nowhere are looked at again when a node
changes or something is freed.
"""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from koord.api.objects import JsonObject, Node
from koord.api.quantity import InvalidQuantity
from koord.api.timestamps import format_rfc3339
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder, EventType, reference
from koord.kube.requests import STRATEGIC_PATCH
from koord.kube.store import Store
from sandbox.binder import placement
from sandbox.binder.ledger import Demand, Ledger, NodeFacts, demand_of, facts_of
from sandbox.binder.placement import Placement
from sandbox.node import model

log = logging.getLogger("koord.sandbox.binder")

SCHEDULER_NAME = "default-scheduler"
CONCURRENT_WRITES = 16
RETRY_AFTER_S = 1.0
LONGEST_STRETCH_S = 0.01
"""Decisions in a row before the other parts of the process get their turn."""
GATHER_S = 0.005
"""Changes that come this close together are looked at once."""


class Binder:
    """Places the pending pods of the pod store on the nodes of the node store."""

    def __init__(self, client: Client, pods: Store[model.Pod], nodes: Store[Node], events: EventRecorder) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._events = events
        self._ledger = Ledger()
        self._facts: dict[str, NodeFacts] = {}
        self._pending: dict[str, tuple[int, model.Pod]] = {}
        self._refused: dict[str, str] = {}
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        self._writes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Bind for ever."""
        forget = (self._nodes.subscribe(self._heed_node), self._pods.subscribe(self._heed_pod))
        try:
            await self._pods.wait_synced()
            await self._nodes.wait_synced()
            while True:
                await self._wake.wait()
                await asyncio.sleep(GATHER_S)
                self._wake.clear()
                await self._place_pending()
        finally:
            for unsubscribe in forget:
                unsubscribe()
            for write in self._writes:
                write.cancel()

    def _heed_node(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._facts.pop(name, None)
            self._wake.set()
            return
        try:
            facts = facts_of(change.new)
        except InvalidQuantity as error:
            log.warning("a node is left out", extra={"node": name, "error": str(error)})
            self._facts.pop(name, None)
            return
        if facts != self._facts.get(name):  # heartbeats change nothing here
            self._facts[name] = facts
            self._wake.set()

    def _heed_pod(self, change: Change[model.Pod]) -> None:
        pod = change.object
        uid = pod.metadata.uid
        if change.new is None or pod.is_terminal:
            self._drop(uid)
        elif pod.spec.node_name:
            self._pending.pop(uid, None)
            self._refused.pop(uid, None)
            self._count(pod)
        elif self._ledger.place_of(uid) is None:
            self._queue(pod)

    def _drop(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._refused.pop(uid, None)
        if self._ledger.release(uid):
            self._wake.set()

    def _count(self, pod: model.Pod) -> None:
        try:
            demand = demand_of(pod.spec)
        except InvalidQuantity as error:
            log.warning("a bound pod is not counted", extra={"pod": pod.key, "error": str(error)})
            return
        if self._ledger.assign(pod.metadata.uid, pod.spec.node_name, demand):
            self._wake.set()

    def _queue(self, pod: model.Pod) -> None:
        uid = pod.metadata.uid
        ours = pod.spec.scheduler_name in ("", SCHEDULER_NAME) and not pod.spec.scheduling_gates
        if not ours or pod.metadata.deletion_timestamp is not None:
            self._pending.pop(uid, None)
            return
        before = self._pending.get(uid)
        self._pending[uid] = (before[0] if before else next(self._order), pod)
        if before is None or before[1].spec != pod.spec:
            self._wake.set()

    async def _place_pending(self) -> None:
        """One decision for every pending pod: higher priority first, then first come."""
        waiting = sorted(self._pending.values(), key=lambda item: (-(item[1].spec.priority or 0), item[0]))
        rested_at = time.monotonic()
        for _, pod in waiting:
            if pod.metadata.uid not in self._pending:
                continue
            try:
                demand = demand_of(pod.spec)
            except InvalidQuantity as error:
                self._refuse(pod, f"the pod's resources cannot be read: {error}")
                continue
            decision = placement.decide(pod.spec, demand, self._ledger.candidates(self._facts.values()))
            if decision.node is None:
                self._refuse(pod, decision.message)
            else:
                self._assume(pod, demand, decision)
            if time.monotonic() - rested_at > LONGEST_STRETCH_S:
                await asyncio.sleep(0)
                rested_at = time.monotonic()

    def _assume(self, pod: model.Pod, demand: Demand, decision: Placement) -> None:
        assert decision.node is not None
        uid = pod.metadata.uid
        self._pending.pop(uid, None)
        self._refused.pop(uid, None)
        self._ledger.assign(uid, decision.node, demand)
        log.info("pod placed", extra={"pod": pod.key, "node": decision.node, "score": decision.score})
        self._write(lambda: self._bind(pod, decision.node or ""))

    async def _bind(self, pod: model.Pod, node: str) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{quote(meta.namespace, safe='')}/pods/{quote(meta.name, safe='')}/binding"
        try:
            await self._client.request("POST", path, body=json.dumps(body).encode())
        except ApiError as error:
            level = logging.INFO if isinstance(error, NotFound | Conflict) else logging.WARNING
            log.log(level, "pod was not bound", extra={"pod": pod.key, "error": str(error)})
            # gone, or bound by somebody else: the watch will say; otherwise it is tried again
            asyncio.get_running_loop().call_later(RETRY_AFTER_S, self._give_back, pod)
        else:
            message = f"Successfully assigned {pod.key} to {node}"
            self._emit(pod, "Normal", "Scheduled", message)

    def _give_back(self, pod: model.Pod) -> None:
        """Undo the assumption; decide again if the pod is still there and unbound."""
        current = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        if current is None or current.metadata.uid != pod.metadata.uid:
            self._drop(pod.metadata.uid)
        elif not current.spec.node_name:
            self._ledger.release(pod.metadata.uid)
            self._queue(current)
            self._wake.set()

    def _refuse(self, pod: model.Pod, message: str) -> None:
        """Say once why a pod fits nowhere; say it again when the reason changes."""
        uid = pod.metadata.uid
        if self._refused.get(uid) == message:
            return
        self._refused[uid] = message
        log.info("pod fits nowhere", extra={"pod": pod.key, "reason": message})
        self._emit(pod, "Warning", "FailedScheduling", message)
        self._write(lambda: self._mark_unschedulable(pod, message))

    async def _mark_unschedulable(self, pod: model.Pod, message: str) -> None:
        meta = pod.metadata
        if self._refused.get(meta.uid) != message:
            return  # placed, gone or refused for another reason since
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [_unschedulable(message, time.time())]}}
        try:
            await self._client.patch(
                model.PODS,
                meta.name,
                body,
                namespace=meta.namespace,
                subresource="status",
                content_type=STRATEGIC_PATCH,
            )
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            log.warning("a pod's condition was not written", extra={"pod": pod.key, "error": str(error)})
            self._refused.pop(meta.uid, None)

    def _emit(self, pod: model.Pod, kind: EventType, reason: str, message: str) -> None:
        self._events.emit(reference(model.PODS, pod), kind, reason, message)

    def _write(self, work: Callable[[], Awaitable[None]]) -> None:
        async def in_turn() -> None:
            async with self._slots:
                await work()

        task = asyncio.create_task(in_turn())
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)


def _unschedulable(message: str, now: float) -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": format_rfc3339(now),
    }
