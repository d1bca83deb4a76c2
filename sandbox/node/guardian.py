"""Outlives its sandbox by a moment: when the sandbox is gone without a word, ends and removes what it left.

The parent-death signal takes a container's first process with the sandbox, but not that one's children. So each
sandbox starts one guardian, which sleeps in a read from a pipe that only the sandbox holds open. End of file
means that the sandbox is gone; after an orderly stop the run's directory is gone too and nothing is left to do.
Should the guardian be killed as well, the next start cleans.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

from sandbox.node import leftovers

LOCK_DEADLINE_S = 10.0
LOCK_PAUSE_S = 0.01
STOP_DEADLINE_S = 30.0


class Guardian:
    """The sandbox's end: the guardian's process and the pipe that tells it the sandbox lives."""

    def __init__(self, run_directory: Path) -> None:
        """Starts the guardian of a run, in a session of its own. Raises OSError."""
        source_root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sandbox.node.guardian", str(run_directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": str(source_root)},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The guardian's process id."""
        return self._process.pid

    def dismiss(self) -> None:
        """Close the pipe and wait until the guardian has ended; it cleans whatever is still there."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_DEADLINE_S)


def watch(directory: Path) -> None:
    """Wait for the end of the sandbox, then clean its run if it is still there."""
    sys.stdin.buffer.read()
    deadline = time.monotonic() + LOCK_DEADLINE_S
    while directory.is_dir() and time.monotonic() < deadline:
        try:
            lock = leftovers.RunLock(directory)
        except leftovers.RunIsAlive:  # the kernel closes the pipe and the lock one after the other
            time.sleep(LOCK_PAUSE_S)
        except FileNotFoundError:
            return
        else:
            leftovers.clean_run(directory)
            lock.release()
            return


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the sandbox, whose end is what counts
    watch(Path(sys.argv[1]))
