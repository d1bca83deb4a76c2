"""Who a process is: evidence that a pid still means what it meant when it was written down.

Pids are reused; a process of ours is known by the pair (pid, start time), and by the mark that the sandbox
puts into the environment of every container.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

RUN_VARIABLE = "KOORD_SANDBOX_RUN"
CONTAINER_VARIABLE = "KOORD_SANDBOX_CONTAINER"

_PROC = Path("/proc")
_START_TIME_FIELD = 22 - 3  # of /proc/PID/stat, counted after the command's closing parenthesis


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is no such process or it is dead."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[_START_TIME_FIELD])


def boot_id() -> str:
    """Changes with every boot; what was journalled under another one is gone."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def marked_pids(variable: str, value: str) -> Iterator[int]:
    """Processes whose environment holds `variable=value`, that is, which inherited the mark; never this process."""
    needle, own = f"{variable}={value}".encode(), str(os.getpid())
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError):
                environment = Path(entry.path, "environ").read_bytes().split(b"\0")
                if needle in environment and entry.name != own:
                    yield int(entry.name)


def kill_marked(variable: str, value: str) -> int:
    """SIGKILL every process that carries the mark; how many were seen."""
    seen = 0
    for pid in marked_pids(variable, value):
        seen += 1
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return seen
