"""A mount and PID namespace that this machine's node programs live in, so that nothing of them can stay behind.

Ending the namespace's first process ends kubelet, containerd, shims and containers, and with them every mount they
made; the kernel does that too when this process is killed. The folders that these programs use by default lie in a
folder of ours in there, and the kernel settings that kubelet changes are copies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

OWN_FOLDERS = ("run", "var/lib", "var/log")
"""What is ours inside the namespace: `/run` there is FOLDER/run here."""
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
START_DEADLINE_S = 20.0
END_DEADLINE_S = 60.0
_PR_SET_PDEATHSIG = 1
_READY = "ready"
_FIRST_PROCESS = f"""
set -e
folder=$1
mount --make-rshared /
for own in {" ".join(OWN_FOLDERS)}; do mount --bind "$folder/$own" "/$own"; done
for setting in {" ".join(KERNEL_SETTINGS)}; do
    [ ! -e "/proc/sys/$setting" ] || mount --bind "$folder/settings/$setting" "/proc/sys/$setting"
done
touch "$folder/{_READY}"
# As the first process it is the parent of orphans; waiting collects them.
while :; do sleep 3600 & wait; done
"""


class EnclosureImpossible(Exception):  # noqa: N818 - what is the case
    """The machine does not allow such namespaces; the message says what failed."""


class Enclosure:
    """The namespaces and the programs started in them; `close` returns when every process in there has ended.

    Raises EnclosureImpossible.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        for own in OWN_FOLDERS:
            (folder / own).mkdir(parents=True)
        for setting in KERNEL_SETTINGS:
            copy = folder / "settings" / setting
            copy.parent.mkdir(parents=True, exist_ok=True)
            if Path("/proc/sys", setting).exists():
                copy.write_text(Path("/proc/sys", setting).read_text())
        self._first = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        unshare = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*unshare, "bash", "-c", _FIRST_PROCESS, "first", str(self.folder)]
        with open(self.folder / "enclosure.log", "wb") as log:
            first = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, preexec_fn=_die_with_parent
            )
        end = time.monotonic() + START_DEADLINE_S
        while not (self.folder / _READY).exists():
            if first.poll() is not None or time.monotonic() > end:
                first.kill()
                first.wait()
                why = (self.folder / "enclosure.log").read_text().strip()
                raise EnclosureImpossible(f"no namespaces for the node: {why}")
            time.sleep(0.02)
        return first

    def launch(self, name: str, command: Sequence[str | Path], environment: dict[str, str]) -> None:
        """Start a program in there, its output in FOLDER/NAME.log."""
        inside = ["nsenter", f"--target={self._first_pid()}", "--mount", "--pid", "--"]
        mortal = ["setpriv", "--pdeathsig=KILL", "--"]
        with open(self.folder / f"{name}.log", "ab") as log:
            self._programs[name] = subprocess.Popen(
                [*inside, *mortal, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def run(self, command: Sequence[str | Path], environment: dict[str, str], timeout_s: float = 120.0) -> str:
        """Run a command in there to its end; its output. Raises RuntimeError when it fails."""
        inside = ["nsenter", f"--target={self._first_pid()}", "--mount", "--pid", "--"]
        done = subprocess.run(
            [*inside, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
        return done.stdout

    def ended(self) -> list[str]:
        """The programs that ended without being asked to."""
        return [name for name, program in self._programs.items() if program.poll() is not None]

    def kill(self, name: str) -> None:
        """End one program as a crash would; its children stay. Returns when it has ended."""
        program = self._programs.pop(name)
        _kill_child(program.pid)
        program.wait(END_DEADLINE_S)

    def tail_of(self, name: str, lines: int = 20) -> str:
        """The end of a program's log."""
        log = self.folder / f"{name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def close(self) -> None:
        """End every process in there; the mounts go with the last."""
        _kill_child(self._first.pid)  # ends only when all others in there have
        self._first.wait(END_DEADLINE_S)
        for name in list(self._programs):
            self.kill(name)

    def _first_pid(self) -> int:
        return _children(self._first.pid)[0]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _kill_child(pid: int) -> None:
    """Kill what unshare or nsenter runs; they end with it."""
    for child in _children(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
