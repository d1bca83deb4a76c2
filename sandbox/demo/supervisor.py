"""Starts processes, waits until they are ready, starts them again when they die, ends them in order.

The part of Kubernetes that keeps components running, for the few that the demo runs. Each child has a log
file of its own; what it says last is part of every error about it. A child dies with this process (SIGTERM
through the parent-death signal), however this process ends.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 5.0
STEADY_S = 10.0
MAX_QUICK_DEATHS = 6
POLL_S = 0.05
TAIL_LINES = 15

_LIBC = ctypes.CDLL(None, use_errno=True)


class ChildFailed(Exception):  # noqa: N818 - what happened
    """A child could not start, or keeps dying. `log_tail` holds the last lines that it wrote."""

    def __init__(self, name: str, reason: str, log_tail: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run. `ready` is asked until it says True; `essential`: its death is the end, it is not restarted."""

    name: str
    command: Sequence[str]
    ready: Callable[[], Awaitable[bool]]
    essential: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    start_deadline_s: float = 30.0
    stop_deadline_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Started:
    """A child is up (again): `reason` says why it had to be started again, empty the first time."""

    name: str
    pid: int
    at_s: float
    reason: str = ""


class _Child:
    def __init__(self, spec: ChildSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.process: asyncio.subprocess.Process | None = None
        self.keeper: asyncio.Task[None] | None = None
        self.quick_deaths = 0


class Supervisor:
    """Runs children, which are ended in reverse order of their start.

    `on_started` is told every start and restart. `failure` ends with ChildFailed when the whole cannot go on.
    """

    def __init__(self, log_dir: Path, on_started: Callable[[Started], None]) -> None:
        self._log_dir = log_dir
        self._on_started = on_started
        self._children: list[_Child] = []
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, spec: ChildSpec) -> int:
        """Start a child, wait until it is ready, keep it running. Returns its pid. Raises ChildFailed."""
        child = _Child(spec, self._log_dir / f"{spec.name}.log")
        self._children.append(child)
        await self._launch(child)
        await self._wait_ready(child)
        assert child.process is not None
        self._on_started(Started(spec.name, child.process.pid, time.monotonic()))
        child.keeper = asyncio.create_task(self._keep(child), name=f"keep {spec.name}")
        return child.process.pid

    def log_path(self, name: str) -> Path:
        """Where a child's output goes."""
        return self._log_dir / f"{name}.log"

    async def stop(self) -> None:
        """End all children, the last started first; one that does not end in time is killed."""
        if not self.failure.done():
            self.failure.cancel()
        for child in reversed(self._children):
            if child.keeper is not None:
                child.keeper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await child.keeper
            await _end(child)
        self._children.clear()

    async def _launch(self, child: _Child) -> None:
        with child.log.open("ab") as log:
            child.process = await asyncio.create_subprocess_exec(
                *child.spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **child.spec.environment},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    async def _wait_ready(self, child: _Child) -> None:
        process, spec = child.process, child.spec
        assert process is not None
        deadline = time.monotonic() + spec.start_deadline_s
        while not await spec.ready():
            if process.returncode is not None:
                raise ChildFailed(spec.name, f"did not start: it {ending(process.returncode)}", tail(child.log))
            if time.monotonic() > deadline:
                raise ChildFailed(spec.name, f"was not ready after {spec.start_deadline_s:g} s", tail(child.log))
            await asyncio.sleep(POLL_S)

    async def _keep(self, child: _Child) -> None:
        """Start the child again whenever it ends; give up when it dies at once again and again."""
        spec = child.spec
        while True:
            assert child.process is not None
            began_s = time.monotonic()
            code = await child.process.wait()
            if spec.essential:
                self._fail(ChildFailed(spec.name, ending(code), tail(child.log)))
                return
            steady = time.monotonic() - began_s > STEADY_S
            child.quick_deaths = 0 if steady else child.quick_deaths + 1
            if child.quick_deaths > MAX_QUICK_DEATHS:
                self._fail(ChildFailed(spec.name, f"keeps ending: it {ending(code)}", tail(child.log)))
                return
            pause_s = FIRST_BACK_OFF_S * 2 ** max(0, child.quick_deaths - 1)
            await asyncio.sleep(min(pause_s, LONGEST_BACK_OFF_S))
            await self._launch(child)
            self._on_started(Started(spec.name, child.process.pid, time.monotonic(), ending(code)))

    def _fail(self, failure: ChildFailed) -> None:
        if not self.failure.done():
            self.failure.set_exception(failure)


async def _end(child: _Child) -> None:
    process = child.process
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(child.spec.stop_deadline_s):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


async def answers_ready(port: int) -> bool:
    """Whether `GET /readyz` on a loopback port answers 200 just now."""
    writer = None
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            status = await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return b" 200 " in status
