"""One run of a sandbox on this machine: its directory, lock, journal and guardian, from opening to closing.

Opening and closing block (files, waiting for processes to be gone): call them outside the event loop.
"""

import logging
import os
import re
import secrets
import tempfile
import time
from pathlib import Path, PurePosixPath

from sandbox.node import leftovers
from sandbox.node.guardian import Guardian
from sandbox.node.leftovers import Cleaned, Journal, RunIsAlive, RunLock

log = logging.getLogger("koord.sandbox.node")

_PARENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
WAIT_FOR_LOCK_S = 10.0
_LOCK_PAUSE_S = 0.05


def parse_cgroup_parent(text: str) -> PurePosixPath:
    """The cgroup parent below every controller's mount. Raises ValueError for what is no plain relative path."""
    relative = text.strip("/")
    if not _PARENT.fullmatch(relative):
        allowed = "names of letters, digits, '.', '_' and '-', separated by '/'"
        raise ValueError(f'cgroup parent "{text}": allowed: {allowed}')
    return PurePosixPath(relative)


def default_cgroup_parent() -> str:
    """A name that no other living process of this machine uses."""
    return f"koord-sandbox-{os.getpid()}"


def default_state_dir() -> Path:
    """Where all sandboxes of this user keep their runs, so that each finds what the others left."""
    return Path(tempfile.gettempdir()) / f"koord-sandbox-{os.geteuid()}"


class Run:
    """An open run. `id` is the mark of its processes; `directory` holds its logs."""

    def __init__(self, directory: Path, lock: RunLock, run_id: str) -> None:
        self.directory = directory
        self.id = run_id
        self.journal = Journal(directory, run_id)
        self._lock = lock
        self._guardian = Guardian(directory)

    @classmethod
    def open(cls, state_dir: Path, name: str) -> "Run":
        """Clean what killed runs left, then begin a run.

        Raises RunIsAlive when a living sandbox has the name, OSError when the state directory cannot be used.
        """
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if state_dir.stat().st_uid != os.geteuid():
            raise PermissionError(f"state directory {state_dir} belongs to another user")
        for cleaned in leftovers.clean_dead_runs(state_dir):
            _tell(cleaned)
        directory = state_dir / name.replace("/", "_")
        lock = _lock_in_time(directory)
        if (directory / leftovers.JOURNAL).exists():  # killed, and its guardian gone, while we waited
            lock.release()
            raise RunIsAlive(f"the run in {directory} could not be cleaned: start again")
        return cls(directory, lock, secrets.token_hex(16))

    def close(self) -> None:
        """End what is left of the run, remove its cgroups and its directory."""
        self.journal.close()
        cleaned = leftovers.clean_run(self.directory)
        if cleaned.stuck:
            log.error("cgroups could not be removed", extra={"cgroups": cleaned.stuck})
        self._lock.release()
        self._guardian.dismiss()


def _lock_in_time(directory: Path) -> RunLock:
    """Lock a run's directory, giving the guardian of a killed run of that name time to finish."""
    deadline = time.monotonic() + WAIT_FOR_LOCK_S
    while True:
        directory.mkdir(mode=0o700, exist_ok=True)
        try:
            return RunLock(directory)
        except (RunIsAlive, FileNotFoundError):
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOCK_PAUSE_S)


def _tell(cleaned: Cleaned) -> None:
    facts = {"run": cleaned.run, "processes": cleaned.processes, "cgroups": cleaned.cgroups, "stuck": cleaned.stuck}
    log.warning("cleaned what a killed sandbox had left", extra=facts)
