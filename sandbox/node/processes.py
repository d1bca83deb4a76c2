"""Starts the process of a container and knows when and how it ended, without polling."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_START_DEADLINE_S = 30.0

DISCARD = Path("/dev/null")


class StartError(Exception):
    """The command could not be started; the message is what the container's status says."""


@dataclass(frozen=True)
class Launch:
    """What to start. `procs`: the cgroup.procs files to enter first. `output`: file that takes stdout, stderr."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_dir: str
    output: Path
    procs: Sequence[str] = ()
    oom_score_adj: int = 0


class ContainerProcess:
    """A started process, leader of its own session. `exit_code` resolves when it has ended."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(popen.pid)
        self.exit_code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The process id; meaningful until `exit_code` is there."""
        return self._popen.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone; nothing happens when it has ended."""
        if not self.exit_code.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._popen.wait()
        if not self.exit_code.done():
            self.exit_code.set_result(128 - code if code < 0 else code)


def launch(request: Launch) -> tuple[ContainerProcess, int]:
    """Fork the launcher; returns the process and the pipe for `await_start`. Raises StartError, OSError.

    Must be called in the main thread: the kernel's parent-death signal watches the thread that forked.
    """
    read_end, write_end = os.pipe()
    try:
        options = {
            "procs": list(request.procs),
            "cwd": request.working_dir,
            "oom_score_adj": request.oom_score_adj,
            "parent": os.getpid(),
            "error_fd": write_end,
        }
        with request.output.open("ab") as output:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, json.dumps(options), *request.command],
                env=dict(request.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
                pass_fds=(write_end,),
            )
    except ValueError as error:  # a NUL in the command or a variable
        os.close(read_end)
        raise StartError(str(error)) from error
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return ContainerProcess(popen), read_end


async def await_start(read_end: int) -> None:
    """Wait until the command runs. Raises StartError with the launcher's sentence when it does not."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        async with asyncio.timeout(_START_DEADLINE_S):
            complaint = await reader.read()
    except TimeoutError as error:
        raise StartError(f"the command did not start within {_START_DEADLINE_S:.0f} s") from error
    finally:
        transport.close()
    if complaint:
        raise StartError(complaint.decode("utf-8", "replace"))
