"""One container of a pod: a run of its process from start to end, with its probes."""

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from koord.api.errors import InvalidInput
from koord.api.quantity import InvalidQuantity
from sandbox.node import container_logs, environment, identity, kubelet_rules, model, probes, processes
from sandbox.node.context import PodContext
from sandbox.node.pod_status import ContainerRecord, Running, Terminated, Waiting

log = logging.getLogger("koord.sandbox.node")

DEFAULT_GRACE_S = 30.0
START_FAILED = 128
KILLED = 128 + signal.SIGKILL

Report = Callable[[ContainerRecord], None]
"""Told the container's new record whenever it changes."""


class Unrunnable(Exception):  # noqa: N818 - what is the case
    """The container can never start as it is written; the message says what is wrong."""


class ContainerRunner:
    """Runs one container, one process at a time. `record` is what is known of it."""

    def __init__(
        self, pod: model.Pod, container: model.Container, record: ContainerRecord, context: PodContext, report: Report
    ) -> None:
        self.record = record
        self._pod = pod
        self._container = container
        self._context = context
        self._report = report
        self._process: processes.ContainerProcess | None = None
        self._runs = 0
        self.started = asyncio.Event()

    @property
    def name(self) -> str:
        """The container's name."""
        return self._container.name

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None

    def change(self, record: ContainerRecord) -> None:
        """Take and report a new record."""
        self.record = record
        self._report(record)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the container's first process, if it lives."""
        if self._process is not None:
            self._process.signal(number)

    async def kill(self) -> None:
        """End everything that lives in the container now."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            await self._context.node.confinement.end_container(self._context.cgroup, self.record.container_id)

    async def run_once(self) -> Terminated:
        """From start to end: when it returns, nothing of the container lives. Raises Unrunnable, OSError."""
        container_id = secrets.token_hex(32)
        confinement = self._context.node.confinement
        try:
            ended = await self._live(container_id)
        finally:
            self._process = None
            await confinement.end_container(self._context.cgroup, container_id)
        self.change(replace(self.record, state=ended, started=False, probed_ready=False))
        return ended

    async def _live(self, container_id: str) -> Terminated:
        command, variables = self._describe(container_id)
        procs = self._context.node.confinement.add_container(
            self._context.cgroup, container_id, kubelet_rules.container_settings(self._container)
        )
        self.change(replace(self.record, container_id=container_id, restart_count=self._runs))
        started_at = time.time()
        try:
            process = await self._start(self._launch(command, variables, procs))
        except processes.StartError as error:
            self._context.node.emit(self._pod, "Warning", "Failed", f"Error: {error}")
            return Terminated(START_FAILED, "StartError", started_at, time.time(), container_id, str(error))
        self._announce_running(started_at)
        watching = asyncio.create_task(self._probe(variables, procs), name=f"probes of {self._container.name}")
        try:
            code = await process.exit_code
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        return Terminated(code, self._reason(code, container_id), started_at, time.time(), container_id)

    async def _start(self, launch: processes.Launch) -> processes.ContainerProcess:
        """Start the process and wait until the command runs. Raises StartError, OSError."""
        process, pipe = processes.launch(launch)
        self._process = process
        self._runs += 1
        self._context.node.journal.process(process.pid)
        try:
            await processes.await_start(pipe)
        except processes.StartError:
            process.signal(signal.SIGKILL)
            await process.exit_code
            raise
        return process

    def _describe(self, container_id: str) -> tuple[list[str], dict[str, str]]:
        node = self._context.node
        try:
            variables = environment.container_environment(self._pod, self._container, self._context.surroundings)
            command = environment.command_line(self._pod, self._container, variables)
        except (InvalidInput, InvalidQuantity) as error:
            raise Unrunnable(str(error)) from error
        marks = {identity.RUN_VARIABLE: node.run_id, identity.CONTAINER_VARIABLE: container_id}
        return command, {**variables, **marks}

    def _launch(self, command: list[str], variables: dict[str, str], procs: list[str]) -> processes.Launch:
        output = container_logs.open_run(self._context.log_directory, self._container.name, self.record.restart_count)
        score = kubelet_rules.oom_score_adj(self._pod, self._container, self._context.node.memory_capacity_bytes)
        working_dir = self._container.working_dir or "/"
        return processes.Launch(command, variables, working_dir, output, procs, score)

    def _announce_running(self, started_at: float) -> None:
        container = self._container
        started, ready = container.startup_probe is None, container.readiness_probe is None
        self.change(replace(self.record, state=Running(started_at), started=started, probed_ready=ready))
        if started:
            self.started.set()
        self._context.node.emit(self._pod, "Normal", "Started", f"Started container {container.name}")

    def _reason(self, code: int, container_id: str) -> str:
        if code == 0:
            return "Completed"
        oom_kills = self._context.node.confinement.oom_kills(self._context.cgroup, container_id)
        return "OOMKilled" if oom_kills and code == KILLED else "Error"

    async def _probe(self, variables: dict[str, str], procs: list[str]) -> None:
        """Startup first; then readiness and liveness side by side, until the caller cancels."""
        container, pod_ip = self._container, self._context.surroundings.pod_ip

        async def run_command(command: tuple[str, ...]) -> int:
            return await self._run_beside(command, variables, procs)

        if container.startup_probe is not None:
            await probes.keep_asking(
                container.startup_probe,
                container,
                pod_ip,
                run_command,
                self._heed_startup,
                until_first_success=True,
            )
        async with asyncio.TaskGroup() as group:
            for probe, heed in (
                (container.readiness_probe, self._heed_readiness),
                (container.liveness_probe, self._heed_liveness),
            ):
                if probe is not None:
                    group.create_task(probes.keep_asking(probe, container, pod_ip, run_command, heed))

    async def _run_beside(self, command: tuple[str, ...], variables: dict[str, str], procs: list[str]) -> int:
        """Run a probe's command in the container; its output is of no interest."""
        launch = replace(self._launch(list(command), variables, procs), output=processes.DISCARD)
        try:
            process, pipe = processes.launch(launch)
        except processes.StartError as error:
            raise ValueError(str(error)) from error
        try:
            await processes.await_start(pipe)
            return await asyncio.shield(process.exit_code)
        except processes.StartError as error:
            raise ValueError(str(error)) from error
        finally:
            process.signal(signal.SIGKILL)

    def _heed_startup(self, success: bool, message: str) -> None:
        if success:
            self.change(replace(self.record, started=True))
            self.started.set()
        else:
            self._fail("Startup", message)

    def _heed_readiness(self, success: bool, message: str) -> None:
        self.change(replace(self.record, probed_ready=success))
        if not success:
            self._warn("Readiness", message)

    def _heed_liveness(self, success: bool, message: str) -> None:
        if not success:
            self._fail("Liveness", message)

    def _fail(self, kind: str, message: str) -> None:
        self._warn(kind, message)
        text = f"Container {self.name} failed {kind.lower()} probe, will be restarted"
        self._context.node.emit(self._pod, "Normal", "Killing", text)
        if (process := self._process) is not None:
            grace_s = self._pod.spec.termination_grace_period_seconds
            process.signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(
                DEFAULT_GRACE_S if grace_s is None else grace_s, process.signal, signal.SIGKILL
            )

    def _warn(self, kind: str, message: str) -> None:
        self._context.node.emit(self._pod, "Warning", "Unhealthy", f"{kind} probe failed: {message}")


def back_off(record: ContainerRecord, ended: Terminated, delay_s: float, pod_key: str) -> ContainerRecord:
    """The record of a container that is down for `delay_s` before its next run."""
    if delay_s <= 0:
        return replace(record, last=ended)
    message = f"back-off {delay_s:.0f}s restarting failed container={record.name} pod={pod_key}"
    return replace(record, state=Waiting("CrashLoopBackOff", message), last=ended)
