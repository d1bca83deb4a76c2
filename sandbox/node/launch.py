"""The last step before a container's command: enter its cgroups, then become the command.

Run as a script by an isolated interpreter, `python -I -S launch.py OPTIONS COMMAND...`; standard library only,
since it runs once for every container. OPTIONS is a JSON object:

procs: files to write the own pid to. cwd: working directory. oom_score_adj: number. parent: pid of the
sandbox; its end kills the command (PR_SET_PDEATHSIG). error_fd: a pipe that gets a sentence when the command
cannot be started, and is closed by a successful exec.
"""

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
START_FAILED = 128


class _LaunchError(Exception):
    """Says why the command cannot start."""


def _enter(procs: list[str]) -> None:
    pid = str(os.getpid()).encode()
    for file in procs:
        try:
            descriptor = os.open(file, os.O_WRONLY)
            os.write(descriptor, pid)
            os.close(descriptor)
        except OSError as error:
            raise _LaunchError(f"cannot enter cgroup {file}: {error.strerror}") from error


def _die_with(parent: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise _LaunchError(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        raise _LaunchError("the sandbox is gone")


def _set_oom_score(score: int) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(score))
    except OSError:
        pass  # lowering it needs CAP_SYS_RESOURCE, which many a root lacks


def _become(command: list[str], cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise _LaunchError(f'chdir to workingDir "{cwd}": {error.strerror}') from error
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # Python's own settings must not outlive exec
    try:
        os.execvp(command[0], command)
    except FileNotFoundError as error:
        raise _LaunchError(f'exec: "{command[0]}": executable file not found in $PATH') from error
    except (OSError, ValueError) as error:
        raise _LaunchError(f'exec: "{command[0]}": {error}') from error


def main(argv: list[str]) -> int:
    """Become the command. Returns only when that failed."""
    options = json.loads(argv[1])
    error_fd = int(options["error_fd"])
    os.set_inheritable(error_fd, False)
    try:
        _die_with(int(options["parent"]))
        _enter(options["procs"])
        _set_oom_score(int(options["oom_score_adj"]))
        _become(argv[2:], options["cwd"])
    except _LaunchError as error:
        os.write(error_fd, str(error).encode())
    return START_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
