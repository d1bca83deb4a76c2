"""One pod on the real node, from the first init container to the last status.

Nothing is cancelled half way: to stop a pod is to tell its processes to end and to wait for them, so every run
of a container goes through the same end.
"""

import asyncio
import logging
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from koord.api.objects import JsonObject
from sandbox.node import model, pod_status, restarts
from sandbox.node.container import DEFAULT_GRACE_S, ContainerRunner, Unrunnable, back_off
from sandbox.node.context import PodContext
from sandbox.node.pod_status import ContainerRecord, PodRecord, Terminated, Waiting

log = logging.getLogger("koord.sandbox.node")

Publish = Callable[[model.Pod, JsonObject], Awaitable[None]]
"""Writes a status; returns when it is written or need not be any more."""


class PodWorker:
    """Runs one pod. `run` returns when the pod is over and nothing of it lives."""

    def __init__(self, pod: model.Pod, context: PodContext, publish: Publish) -> None:
        self._pod = pod
        self._context = context
        self._publish = publish
        around, records = context.surroundings, pod_status.initial_records(pod.spec)
        self._record = PodRecord(pod, records, around.host_ip, around.pod_ip, time.time(), has_sandbox=False)
        self._runners = {
            item.name: ContainerRunner(pod, item, records[item.name], context, self._take)
            for item in (*pod.spec.init_containers, *pod.spec.containers)
        }
        self._dirty = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hastened = asyncio.Event()
        self._kill_at = float("inf")

    @property
    def grace_s(self) -> float:
        """How long the pod's processes may take to end when nobody says otherwise."""
        seconds = self._pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE_S if seconds is None else seconds

    def is_running(self, container: str) -> bool:
        """Whether the named container has a living process."""
        return container in self._runners and self._runners[container].is_running

    def stop(self, grace_s: float) -> None:
        """End the pod within `grace_s` seconds; a later call can only shorten that."""
        kill_at = time.monotonic() + grace_s
        if kill_at < self._kill_at:
            self._kill_at = kill_at
            self._hastened.set()
        self._stopping.set()

    async def run(self) -> None:
        """Run the pod to its end and write its last status."""
        publisher = asyncio.create_task(self._publish_changes(), name=f"status of {self._pod.key}")
        try:
            await self._run_in_place()
        finally:
            await self._context.node.confinement.remove_pod(self._context.cgroup)
            self._change(replace(self._record, ended=True))
            await publisher

    def discard_logs(self) -> None:
        """Remove the pod's logs, once the pod is gone from the API server."""
        shutil.rmtree(self._context.log_directory, ignore_errors=True)

    async def _run_in_place(self) -> None:
        try:
            self._context.node.confinement.add_pod(self._context.cgroup)
        except OSError as error:
            self._fail("FailedCreatePodSandBox", f"the pod's cgroup cannot be made: {error}")
            return
        self._change(replace(self._record, has_sandbox=True))
        life = asyncio.create_task(self._live(), name=f"life of {self._pod.key}")
        stop = asyncio.create_task(self._stopping.wait())
        try:
            deadline_s = self._pod.spec.active_deadline_seconds
            await asyncio.wait((life, stop), timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
            if not life.done() and not stop.done():
                self._fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
                self.stop(self.grace_s)
            if not life.done():
                await self._end(life)
            await life
        finally:
            stop.cancel()

    async def _live(self) -> None:
        """Init containers one after the other, then the containers side by side, then the sidecars' end."""
        sidecars: list[asyncio.Task[Terminated | None]] = []
        if await self._initialize(sidecars):
            mains = (self._runners[item.name] for item in self._pod.spec.containers)
            await asyncio.gather(*(self._supervise(runner, self._policy) for runner in mains))
        if sidecars:
            self.stop(self.grace_s)
            await asyncio.gather(*sidecars)

    async def _initialize(self, sidecars: list[asyncio.Task[Terminated | None]]) -> bool:
        """Run the init containers; whether the containers may start."""
        policy = "Never" if self._policy == "Never" else "OnFailure"
        for item in self._pod.spec.init_containers:
            runner = self._runners[item.name]
            if item.is_sidecar:
                sidecar = asyncio.create_task(self._supervise(runner, "Always"), name=f"sidecar {item.name}")
                sidecars.append(sidecar)
                await self._until_started_or_stopping(runner)
            else:
                ended = await self._supervise(runner, policy)
                if ended is None or ended.exit_code != 0:
                    return False
            if self._stopping.is_set():
                return False
        return True

    async def _until_started_or_stopping(self, runner: ContainerRunner) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (runner.started, self._stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _supervise(self, runner: ContainerRunner, policy: str) -> Terminated | None:
        """Run a container again and again as the policy wants; how the last run ended, None if it never ran."""
        crashes, ended = 0, None
        while not self._stopping.is_set():
            try:
                ended = await runner.run_once()
                ran_s = ended.finished_at - ended.started_at
                restart = restarts.decide(policy, ended.exit_code, ran_s, crashes)
                down = back_off(runner.record, ended, restart.delay_s or 0, self._pod.key)
            except Unrunnable as error:
                self._wait_in(runner, "CreateContainerConfigError", str(error))
                await self._stopping.wait()
                return None
            except OSError as error:
                restart = restarts.decide("Always", 1, 0, crashes)
                self._wait_in(runner, "CreateContainerError", str(error))
                down = runner.record
            if not restart.again or self._stopping.is_set():
                return ended
            crashes = restart.crashes
            await self._stay_down(runner, down, restart.delay_s or 0)
        return ended

    async def _stay_down(self, runner: ContainerRunner, record: ContainerRecord, delay_s: float) -> None:
        runner.change(record)
        if delay_s > 0:
            message = f"Back-off restarting failed container {runner.name} in pod {self._pod.key}"
            self._context.node.emit(self._pod, "Warning", "BackOff", message)
            try:
                async with asyncio.timeout(delay_s):
                    await self._stopping.wait()
            except TimeoutError:
                return

    def _wait_in(self, runner: ContainerRunner, reason: str, message: str) -> None:
        runner.change(replace(runner.record, state=Waiting(reason, message)))
        self._context.node.emit(self._pod, "Warning", "Failed", f"Error: {message}")

    async def _end(self, life: asyncio.Task[None]) -> None:
        """SIGTERM to every running container, SIGKILL to all that is left when the grace period is over."""
        running = [runner for runner in self._runners.values() if runner.is_running]
        for runner in running:
            self._context.node.emit(self._pod, "Normal", "Killing", f"Stopping container {runner.name}")
            runner.signal(signal.SIGTERM)
        while not life.done() and (left_s := self._kill_at - time.monotonic()) > 0:
            self._hastened.clear()
            hastened = asyncio.create_task(self._hastened.wait())
            await asyncio.wait((life, hastened), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            hastened.cancel()
        if not life.done():
            await asyncio.gather(*(runner.kill() for runner in running))

    @property
    def _policy(self) -> str:
        return self._pod.spec.restart_policy or "Always"

    def _fail(self, reason: str, message: str) -> None:
        """The node itself ends the pod."""
        self._change(replace(self._record, reason=reason, message=message))
        self._context.node.emit(self._pod, "Warning", reason, message)

    def _take(self, record: ContainerRecord) -> None:
        self._change(replace(self._record, containers={**self._record.containers, record.name: record}))

    def _change(self, record: PodRecord) -> None:
        self._record = record
        self._dirty.set()

    async def _publish_changes(self) -> None:
        """Write the status whenever it has changed, always the newest; ends with the status of the ended pod."""
        written: JsonObject = {}
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            now, record = time.time(), self._record
            document = pod_status.status_document(record, now)
            self._record = replace(self._record, transitions=pod_status.advance(record, now))
            if document != written:
                await self._publish(self._pod, document)
                written = document
            if record.ended:
                return
