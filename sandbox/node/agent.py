"""The real node's agent: runs the pods that are bound to it and ends those that are deleted."""

import asyncio
import logging
import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path

from koord.api.objects import ResourceList
from koord.api.quantity import InvalidQuantity
from koord.kube.changes import Change
from koord.kube.store import Store
from sandbox.node import addresses, container_logs, kubelet_rules, model
from sandbox.node.context import NodeContext, PodContext
from sandbox.node.environment import Surroundings
from sandbox.node.status_writer import StatusWriter
from sandbox.node.worker import PodWorker

log = logging.getLogger("koord.sandbox.node")

INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV")
"""What containers get of the sandbox's own environment, as if an image had set it."""


@dataclass
class _Entry:
    """A pod of the node that the API server still has, or whose processes still live."""

    pod: model.Pod
    worker: PodWorker
    alive: bool = True
    gone: bool = False


class NodeAgent:
    """One worker for each pod of the node, found by watching; everything in the event loop of the main thread."""

    def __init__(
        self,
        name: str,
        context: NodeContext,
        writer: StatusWriter,
        log_root: Path,
        allocatable: ResourceList,
        inherited: Mapping[str, str],
    ) -> None:
        self.name = name
        self._context = context
        self._writer = writer
        self._log_root = log_root
        self._allocatable = allocatable
        self._base = {key: inherited[key] for key in INHERITED_VARIABLES if key in inherited}
        self._addresses = addresses.PodAddresses(os.getpid())
        self._entries: dict[str, _Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def follow(self, pods: Store[model.Pod]) -> None:
        """Run the pods that the store holds or will hold for this node."""
        pods.subscribe(self._heed)

    def is_running(self, uid: str, container: str) -> bool:
        """Whether a container of a pod has a living process."""
        entry = self._entries.get(uid)
        return entry is not None and entry.worker.is_running(container)

    async def stop(self, grace_s: float) -> None:
        """End all pods within `grace_s` seconds and take no new ones; nothing of them is left after."""
        self._closing = True
        for entry in self._entries.values():
            entry.worker.stop(grace_s)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _heed(self, change: Change[model.Pod]) -> None:
        pod = change.object
        if pod.spec.node_name != self.name:
            return
        entry = self._entries.get(pod.metadata.uid)
        if change.new is None:
            self._heed_vanished(entry)
        elif entry is not None and entry.alive:
            entry.pod = pod
            if pod.metadata.deletion_timestamp is not None:
                entry.worker.stop(pod.metadata.deletion_grace_period_seconds or 0)
        elif pod.metadata.deletion_timestamp is not None:
            self._spawn(self._writer.remove(pod), f"removal of {pod.key}")
        elif entry is None and not pod.is_terminal and not self._closing:
            self._begin(pod)

    def _heed_vanished(self, entry: _Entry | None) -> None:
        if entry is None:
            return
        entry.gone = True
        if entry.alive:
            entry.worker.stop(0)
        else:
            self._forget(entry)

    def _begin(self, pod: model.Pod) -> None:
        try:
            context = self._place(pod)
        except (InvalidQuantity, RuntimeError) as error:
            self._context.emit(pod, "Warning", "FailedCreatePodSandBox", str(error))
            log.error("a pod cannot be run", extra={"pod": pod.key, "error": str(error)})
            return
        if ignored := [item.name for item in pod.spec.containers if item.volume_mounts]:
            message = f"Sandbox nodes mount no volumes; containers run without them: {', '.join(ignored)}"
            self._context.emit(pod, "Warning", "VolumesIgnored", message)
        entry = _Entry(pod, PodWorker(pod, context, self._writer.write))
        self._entries[pod.metadata.uid] = entry
        self._spawn(self._run(entry, context), f"pod {pod.key}")

    def _place(self, pod: model.Pod) -> PodContext:
        meta = pod.metadata
        cgroup = kubelet_rules.pod_cgroup(pod)
        pod_ip = addresses.HOST_ADDRESS if pod.spec.host_network else self._addresses.take()
        around = Surroundings(self.name, addresses.HOST_ADDRESS, pod_ip, self._allocatable, self._base)
        folder = container_logs.pod_directory(self._log_root, meta.namespace, meta.name, meta.uid)
        return PodContext(self._context, cgroup, around, folder)

    async def _run(self, entry: _Entry, context: PodContext) -> None:
        try:
            await entry.worker.run()
        except Exception:
            log.exception("a pod's worker failed", extra={"pod": entry.pod.key})
        entry.alive = False
        if not entry.pod.spec.host_network:
            self._addresses.give_back(context.surroundings.pod_ip)
        if entry.gone:
            self._forget(entry)
        elif entry.pod.metadata.deletion_timestamp is not None:
            await self._writer.remove(entry.pod)

    def _forget(self, entry: _Entry) -> None:
        entry.worker.discard_logs()
        del self._entries[entry.pod.metadata.uid]

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
