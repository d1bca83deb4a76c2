"""What a run of the sandbox leaves on the machine, written down as it happens, and its removal.

Each run has a directory `<state dir>/<run>` with a lock file, which its sandbox holds locked while it lives, and a
journal, one JSON document a line. When the lock is free and the directory is still there, the run was killed:
`clean_run` ends its processes and removes its cgroups. Only what the journal proves to be the run's is touched:
a directory is known by its inode, a process by living in such a directory or by carrying the run's mark.
Standard library only, since the guardian runs it too.
"""

import fcntl
import json
import logging
import os
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.node import cgroup_dirs, identity

log = logging.getLogger("koord.sandbox.leftovers")

LOCK = "lock"
JOURNAL = "journal.jsonl"
CLEANING_DEADLINE_S = 20.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1


class RunIsAlive(Exception):  # noqa: N818 - what is the case
    """Another process holds the run's lock."""


class RunLock:
    """The lock of a run directory, held until `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        """Takes the lock. Raises RunIsAlive when another process has it."""
        self._descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(self._descriptor, directory / LOCK):
                raise BlockingIOError  # it was cleaned and removed while we waited for it
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise RunIsAlive(f"the run in {directory} is alive or is being cleaned") from error

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


class Journal:
    """Appends what the run makes. A line written before a SIGKILL is there after it."""

    def __init__(self, directory: Path, run_id: str) -> None:
        """Starts the journal of a run whose containers carry the mark `run_id`."""
        self._descriptor = os.open(
            directory / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._write({"run": run_id, "boot": identity.boot_id(), "sandbox": os.getpid()})

    def cgroup(self, directory: Path) -> None:
        """Notes a top directory: call it before making it (intent) and after (its inode is proof)."""
        inode = directory.stat().st_ino if directory.exists() else None
        self._write({"cgroup": str(directory), "inode": inode})

    def process(self, pid: int) -> None:
        """Notes a container's process."""
        self._write({"pid": pid, "start": identity.start_ticks(pid)})

    def close(self) -> None:
        """Close the file; the run is over."""
        os.close(self._descriptor)

    def _write(self, entry: dict[str, object]) -> None:
        os.write(self._descriptor, json.dumps(entry).encode() + b"\n")


@dataclass
class Trace:
    """What a journal says that a run made."""

    run_id: str = ""
    boot: str = ""
    cgroups: dict[Path, int | None] = field(default_factory=dict)
    processes: list[tuple[int, int | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Cleaned:
    """What cleaning a run ended and removed; `stuck` could not be removed in time."""

    run: str
    processes: int = 0
    cgroups: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


def read_trace(journal: Path) -> Trace:
    """The journal's content; a last line cut short by the kill is ignored."""
    trace = Trace()
    for line in journal.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "run" in entry:
            trace.run_id, trace.boot = entry["run"], entry["boot"]
        elif "cgroup" in entry:
            trace.cgroups[Path(entry["cgroup"])] = entry["inode"]
        elif "pid" in entry:
            trace.processes.append((entry["pid"], entry["start"]))
    return trace


def clean_dead_runs(state_dir: Path) -> list[Cleaned]:
    """Clean every run below the state directory whose sandbox is dead; live ones are not touched."""
    cleaned = []
    for directory in sorted(state_dir.iterdir()) if state_dir.is_dir() else []:
        if not (directory / LOCK).is_file():
            continue
        try:
            lock = RunLock(directory)
        except RunIsAlive:
            continue
        try:
            cleaned.append(clean_run(directory))
        finally:
            lock.release()
    return cleaned


def clean_run(directory: Path) -> Cleaned:
    """End the run's processes, remove its cgroups, then its directory. The caller holds the run's lock.

    Whatever is stuck keeps the directory, so that the next start tries again.
    """
    journal = directory / JOURNAL
    trace = read_trace(journal) if journal.is_file() else Trace()
    ended = 0
    removed: list[str] = []
    stuck: list[str] = []
    if trace.boot == identity.boot_id():
        ours = [path for path, inode in trace.cgroups.items() if _is_ours(path, inode)]
        ended = _end_processes(trace, ours)
        for path in reversed(ours):  # nested ones were made, and noted, after what they are in
            (removed if _remove(path) else stuck).append(str(path))
    if not stuck:
        shutil.rmtree(directory)
    return Cleaned(directory.name, ended, tuple(removed), tuple(stuck))


def _is_ours(path: Path, inode: int | None) -> bool:
    """Same inode: the directory we made. Noted only as an intent: ours to remove if nothing lives in it."""
    try:
        found = path.stat().st_ino
    except OSError:
        return False
    return found == inode if inode is not None else not cgroup_dirs.members(path)


def _end_processes(trace: Trace, ours: list[Path]) -> int:
    """SIGKILL until nobody is left; how many different processes there were."""
    seen: set[int] = set()
    deadline, pause = time.monotonic() + CLEANING_DEADLINE_S, FIRST_PAUSE_S
    while time.monotonic() < deadline:
        alive = {pid for pid, start in trace.processes if start and identity.start_ticks(pid) == start}
        alive.update(identity.marked_pids(identity.RUN_VARIABLE, trace.run_id))
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in ours:
            alive |= cgroup_dirs.members(path)
            cgroup_dirs.kill_members(path)
        seen |= alive
        if not alive:
            break
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    return len(seen)


def _remove(path: Path) -> bool:
    deadline, pause = time.monotonic() + CLEANING_DEADLINE_S, FIRST_PAUSE_S
    while True:
        with suppress(OSError):
            if cgroup_dirs.remove_tree(path):
                return True
        if time.monotonic() > deadline:
            log.error("a cgroup cannot be removed", extra={"directory": str(path)})
            return False
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
