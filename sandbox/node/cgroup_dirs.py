"""A cgroup directory and everything below it: who lives there, ending them, removing it. Any version.

Standard library only: the guardian of a sandbox runs it too.
"""

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path


def members(directory: Path) -> set[int]:
    """The pids in a directory and below; empty when it is gone."""
    found: set[int] = set()
    for folder, _, _ in os.walk(directory):
        with suppress(OSError):
            found.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
    return found - {0}


def kill_members(directory: Path) -> int:
    """SIGKILL all members of a directory and below, at once where the kernel can; how many were seen."""
    seen = members(directory)
    if not seen:
        return 0
    try:
        write_existing(directory / "cgroup.kill", "1")
    except OSError:
        for pid in seen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return len(seen)


def remove_tree(directory: Path) -> bool:
    """Remove a cgroup and its children, deepest first; False when the kernel says that one is busy."""
    for folder, _, _ in os.walk(directory, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise
    return True


def write_existing(file: Path, text: str) -> None:
    """One write, never creating: a missing file means that this kernel does not have the knob."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
