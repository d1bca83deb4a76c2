"""Nodes without a machine: their pods become Running at once and do nothing.

A pod with the annotation sandbox.koord/run-seconds is Succeeded when that time is over; any other runs until it
is deleted. Statuses are written by a few writers, however many pods there are.
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from koord.api.quantity import InvalidQuantity
from koord.kube.changes import Change
from koord.kube.store import Store
from sandbox.node import model, pod_status
from sandbox.node.pod_status import ContainerRecord, PodRecord, Running, Terminated
from sandbox.node.registration import MAX_PODS, VERSION, NodeDescription
from sandbox.node.status_writer import StatusWriter

log = logging.getLogger("koord.sandbox.node")

WRITERS = 8
HOST_ADDRESS = "127.0.0.1"
SIMULATED_STORAGE = "100Gi"


def describe_simulated(name: str, cpu: str, memory: str) -> NodeDescription:
    """The node object of a simulated node; capacity as Kubernetes quantities."""
    capacity = {"cpu": cpu, "memory": memory, "pods": str(MAX_PODS), "ephemeral-storage": SIMULATED_STORAGE}
    info = {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "operatingSystem": "linux",
        "architecture": "amd64",
        "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
    }
    return NodeDescription(name, HOST_ADDRESS, capacity, info)


def run_seconds(pod: model.Pod) -> float | None:
    """How long the pod runs; None for ever. Raises ValueError for what is no number of seconds."""
    text = pod.metadata.annotations.get(model.ANNOTATION_RUN_SECONDS)
    if text is None:
        return None
    seconds = float(text)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f'"{text}" is no number of seconds')
    return seconds


def running_records(spec: model.PodSpec, now: float) -> dict[str, ContainerRecord]:
    """Every container as it is while the pod runs: init containers done, sidecars and containers running."""
    done = Terminated(0, "Completed", now, now, "simulated")
    running = Running(now)
    return {
        name: replace(
            record,
            state=done if record.is_init and not record.is_sidecar else running,
            started=True,
            probed_ready=True,
        )
        for name, record in pod_status.initial_records(spec).items()
    }


def finished_records(records: Iterable[ContainerRecord], now: float) -> dict[str, ContainerRecord]:
    """Every container that ran has ended well."""
    return {
        record.name: replace(record, state=Terminated(0, "Completed", record.state.started_at, now, "simulated"))
        if isinstance(record.state, Running)
        else record
        for record in records
    }


class SimulatedNodes:
    """Plays the kubelets of all simulated nodes. `now`: the clock, epoch seconds."""

    def __init__(self, names: Iterable[str], writer: StatusWriter, now: Callable[[], float]) -> None:
        self._names = frozenset(names)
        self._writer = writer
        self._now = now
        self._records: dict[str, PodRecord] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._removing: set[str] = set()
        self._numbers = itertools.count(1)
        self._queues: list[asyncio.Queue[PodRecord | model.Pod]] = [asyncio.Queue() for _ in range(WRITERS)]

    def follow(self, pods: Store[model.Pod]) -> None:
        """Play the pods that the store holds or will hold for these nodes."""
        pods.subscribe(self._heed)

    async def run(self) -> None:
        """Write statuses for ever."""
        async with asyncio.TaskGroup() as group:
            for queue in self._queues:
                group.create_task(self._write(queue))

    def _heed(self, change: Change[model.Pod]) -> None:
        pod = change.object
        if pod.spec.node_name not in self._names:
            return
        uid = pod.metadata.uid
        if change.new is None:
            self._forget(uid)
        elif pod.metadata.deletion_timestamp is not None:
            if uid not in self._removing:
                self._removing.add(uid)
                self._queue_of(uid).put_nowait(pod)
        elif uid not in self._records and not pod.is_terminal:
            self._begin(pod)

    def _begin(self, pod: model.Pod) -> None:
        now, uid = self._now(), pod.metadata.uid
        try:
            seconds = run_seconds(pod)
        except ValueError as error:
            where = f"metadata.annotations[{model.ANNOTATION_RUN_SECONDS}]"
            log.warning("a simulated pod runs on", extra={"pod": pod.key, "field": where, "error": str(error)})
            seconds = None
        number = next(self._numbers)
        address = f"10.{128 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 256}"
        record = PodRecord(pod, running_records(pod.spec, now), HOST_ADDRESS, address, now)
        self._records[uid] = record
        self._queue_of(uid).put_nowait(record)
        if seconds is not None:
            self._timers[uid] = asyncio.get_running_loop().call_later(seconds, self._finish, uid)

    def _finish(self, uid: str) -> None:
        record = self._records[uid]
        moved = pod_status.advance(record, record.started_at)
        done = finished_records(record.containers.values(), self._now())
        self._records[uid] = replace(record, containers=done, ended=True, transitions=moved)
        self._queue_of(uid).put_nowait(self._records[uid])

    def _forget(self, uid: str) -> None:
        self._records.pop(uid, None)
        self._removing.discard(uid)
        if timer := self._timers.pop(uid, None):
            timer.cancel()

    def _queue_of(self, uid: str) -> asyncio.Queue[PodRecord | model.Pod]:
        """Always the same one for a pod, so that its statuses are written in order."""
        return self._queues[hash(uid) % WRITERS]

    async def _write(self, queue: asyncio.Queue[PodRecord | model.Pod]) -> None:
        while True:
            item = await queue.get()
            if isinstance(item, model.Pod):
                await self._writer.remove(item)
                continue
            try:
                document = pod_status.status_document(item, self._now())
            except InvalidQuantity as error:
                log.error("a simulated pod cannot be run", extra={"pod": item.pod.key, "error": str(error)})
            else:
                await self._writer.write(item.pod, document)
