"""Removes pods that nobody else will: of nodes that are gone, and terminating ones without a node."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from koord.api.timestamps import format_rfc3339
from koord.kube.client import Client
from koord.kube.errors import Conflict, NotFound
from koord.kube.resources import PODS, Key
from sandbox.admission.request import JsonObject
from sandbox.apiserver.storage import DELETED, Event, GroupResource, Storage
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import is_finished, is_terminating, set_condition

_PODS: Final = GroupResource("", "pods")
_NODES: Final = GroupResource("", "nodes")
NODE_GONE_GRACE_S: Final = 5.0
"""How long a node must be missing before its pods go: an agent that re-registers keeps them."""


class PodCollector:
    """Fails and deletes pods without a node to run on."""

    def __init__(
        self,
        client: Client,
        storage: Storage,
        clock: Callable[[], float] = time.time,
        *,
        node_gone_grace_s: float = NODE_GONE_GRACE_S,
    ) -> None:
        self._client = client
        self._storage = storage
        self._clock = clock
        self._grace_s = node_gone_grace_s
        self._queue: WorkQueue[Key] = WorkQueue("pod-gc", self._reconcile)
        self._missing_since: dict[str, float] = {}
        self._listening = False

    async def run(self) -> None:
        """Work for ever."""
        if not self._listening:
            self._listening = True
            self._storage.listen(_PODS, self._on_pod)
            self._storage.listen(_NODES, self._on_node)
        for pod in self._storage.read_all(*_PODS):
            self._consider(pod)
        await self._queue.run()

    def _on_pod(self, event: Event) -> None:
        if event.type != DELETED:
            self._consider(event.entry.object)

    def _on_node(self, event: Event) -> None:
        name = event.entry.key[1]
        if event.type != DELETED:
            self._missing_since.pop(name, None)
            return
        self._missing_since[name] = asyncio.get_running_loop().time()
        for pod in self._storage.read_all(*_PODS):
            if _node_of(pod) == name:
                self._consider(pod)

    def _consider(self, pod: JsonObject) -> None:
        node = _node_of(pod)
        if (node and self._storage.read(*_NODES, "", node) is None) or (not node and is_terminating(pod)):
            self._queue.add(_key(pod))

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._storage.read(*_PODS, key.namespace, key.name)
        if pod is None:
            return None
        node = _node_of(pod)
        if node:
            if self._storage.read(*_NODES, "", node) is not None:
                return None
            now = asyncio.get_running_loop().time()
            left_s = self._missing_since.setdefault(node, now) + self._grace_s - now
            if left_s > 0:
                return left_s
        elif not is_terminating(pod):
            return None
        await self._remove(key, pod)
        return None

    async def _remove(self, key: Key, pod: JsonObject) -> None:
        try:
            if not is_finished(pod):
                await self._client.patch(
                    PODS, key.name, {"status": self._failed(pod)}, namespace=key.namespace, subresource="status"
                )
            await self._client.delete(PODS, key.name, key.namespace, grace_period_s=0, uid=pod["metadata"]["uid"])
        except (NotFound, Conflict):
            return

    def _failed(self, pod: JsonObject) -> JsonObject:
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists" if _node_of(pod) else "PodGC: pod was never scheduled",
        }
        status = set_condition(pod.get("status") or {}, entry, format_rfc3339(self._clock()))
        return {"phase": "Failed", "conditions": status["conditions"]}


def _node_of(pod: JsonObject) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _key(pod: JsonObject) -> Key:
    return Key(pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
