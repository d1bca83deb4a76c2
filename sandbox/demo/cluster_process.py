"""The demo's side of `sandbox.demo.cluster`: starts it, hears its events, ends it or lets it run on."""

import asyncio
import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

from sandbox.demo.components import python_module
from sandbox.demo.supervisor import ending

STOP_DEADLINE_S = 90.0
JsonObject = dict[str, Any]


class ClusterFailed(Exception):  # noqa: N818 - what happened
    """A part of the cluster could not start or keep running; `log_tail` is the end of its log."""

    def __init__(self, reason: str, log_tail: str = "") -> None:
        super().__init__(reason)
        self.log_tail = log_tail


class ClusterProcess:
    """One cluster. `on_started` is told (component, pid, at_s, reason) of every start of a component.

    `failure` ends with ClusterFailed when the cluster cannot go on. Use from one event loop only.
    """

    def __init__(self, directory: Path, on_started: Callable[[str, int, float, str], None]) -> None:
        self.directory = directory
        self.cgroup_parent = ""
        self._on_started = on_started
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._process: subprocess.Popen[str] | None = None
        self._complaints: IO[bytes] | None = None
        self._hearing: threading.Thread | None = None
        self._stopping = False

    @property
    def pid(self) -> int:
        """The process that runs the cluster; ending it ends all."""
        assert self._process is not None
        return self._process.pid

    async def start(self, *, confined: bool) -> None:
        """Start the cluster and wait until it is ready. Raises ClusterFailed."""
        self._spawn(confined=confined)
        await asyncio.wait((self._ready, self.failure), return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done():
            self.failure.result()

    def _spawn(self, *, confined: bool) -> None:
        command = [*python_module("sandbox.demo.cluster"), "--dir", str(self.directory)]
        if not confined:
            command.append("--unconfined")
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process lives
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            start_new_session=True,
        )
        self._hearing = threading.Thread(target=self._hear, name="cluster events", daemon=True)
        self._hearing.start()

    async def failed(self) -> NoReturn:
        """Wait for the failure and raise it; cancelling the wait leaves the cluster as it is."""
        await asyncio.wait((self.failure,))
        self.failure.result()
        raise AssertionError("a failure is an exception")

    async def stop(self) -> None:
        """End everything and wait until it is gone."""
        process = self._process
        self._stopping = True
        if self.failure.done():
            self.failure.exception()  # told already, or not of interest any more
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        if self._hearing is not None:
            await asyncio.to_thread(self._hearing.join)
        assert process.stdout is not None
        process.stdout.close()
        if self._complaints is not None:
            self._complaints.close()

    def keep(self) -> None:
        """Let the cluster run on after this process."""
        process = self._process
        self._stopping = True
        assert process is not None
        assert process.stdin is not None
        process.stdin.write("keep\n")
        process.stdin.flush()

    def _hear(self) -> None:
        """Runs in a thread of its own: reads events until the process ends."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                self._call(self._take, json.loads(line))
        self._call(self._ended, process.wait())

    def _call(self, function: Callable[..., None], argument: object) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)

    def _take(self, event: JsonObject) -> None:
        match event.get("event"):
            case "started":
                self._on_started(event["component"], event["pid"], event["at_s"], event["reason"])
            case "ready":
                self.cgroup_parent = event["cgroup_parent"]
                if not self._ready.done():
                    self._ready.set_result(None)
            case "failed":
                self._fail(ClusterFailed(f"{event['component']} {event['reason']}", event["log_tail"]))

    def _ended(self, code: int) -> None:
        if not self._stopping:
            self._fail(ClusterFailed(f"the process that runs the cluster {ending(code)}", self._last_words()))

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        return "\n".join(self._complaints.read().decode(errors="replace").splitlines()[-15:])

    def _fail(self, failure: ClusterFailed) -> None:
        if not self.failure.done():
            self.failure.set_exception(failure)


def command_to_end(pid: int) -> str:
    """What a person types to end a kept cluster."""
    return f"kill {pid}"
