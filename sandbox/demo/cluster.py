"""The process that runs the demo's cluster: `python -m sandbox.demo.cluster --dir DIR`.

It starts the sandbox and Koord's components, says so and every restart as JSON lines on stdout, and ends
everything, then removes DIR, on SIGTERM, SIGINT, SIGHUP or when its stdin ends: whoever started it may be
killed and nothing is left behind. The line "keep" on stdin detaches it: from then on only a signal ends it.

Events: {"event": "started", "component", "pid", "at_s", "reason"}, {"event": "ready", "cgroup_parent"},
{"event": "failed", "component", "reason", "log_tail"}. Moments are CLOCK_MONOTONIC seconds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from sandbox.demo.components import SANDBOX, Workplace, announcement, component_specs, sandbox_spec
from sandbox.demo.supervisor import ChildFailed, Started, Supervisor


def emit(event: str, **facts: object) -> None:
    """Say something to whoever started this process; nobody may be listening any more."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def _emit_started(started: Started) -> None:
    emit("started", component=started.name, pid=started.pid, at_s=started.at_s, reason=started.reason)


async def run(place: Workplace, *, confined: bool, cpus: int) -> int:
    """Run the cluster until told to end; 0, or 1 when a process could not start or keep running."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    listener = asyncio.create_task(_listen(stopping))
    place.prepare()
    supervisor = Supervisor(place.logs, _emit_started)
    waiter = asyncio.create_task(stopping.wait())
    starter = asyncio.create_task(_start(supervisor, place, confined=confined, cpus=cpus))
    try:
        await asyncio.wait((starter, waiter), return_when=asyncio.FIRST_COMPLETED)
        if starter.done():
            emit("ready", cgroup_parent=starter.result())
            await asyncio.wait((supervisor.failure, waiter), return_when=asyncio.FIRST_COMPLETED)
            if supervisor.failure.done():
                supervisor.failure.result()
    except ChildFailed as failure:
        emit("failed", component=failure.name, reason=failure.reason, log_tail=failure.log_tail)
        return 1
    finally:
        for task in (starter, waiter, listener):
            task.cancel()
        await asyncio.wait((starter, waiter))
        await supervisor.stop()
        shutil.rmtree(place.root, ignore_errors=True)
    return 0


async def _start(supervisor: Supervisor, place: Workplace, *, confined: bool, cpus: int) -> str:
    """Start everything; the sandbox first, the components together. Returns the cgroup parent."""
    wanted = f"koord-demo-{os.getpid()}"
    await supervisor.start(sandbox_spec(place, wanted, cpus, confined=confined))
    announced = announcement(supervisor.log_path(SANDBOX)) or {}
    parent = str(announced.get("cgroup_parent") or wanted).strip("/")
    try:
        async with asyncio.TaskGroup() as group:
            for spec in component_specs(place, parent, confined=confined):
                group.create_task(supervisor.start(spec))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return parent


async def _listen(stopping: asyncio.Event) -> None:
    """Stop when stdin ends, unless told to keep running before."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        if line.strip() == b"keep":
            return
    stopping.set()


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="directory of this cluster; removed at the end")
    parser.add_argument("--unconfined", action="store_true", help="a simulated node instead of this machine")
    parser.add_argument("--cpus", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    return asyncio.run(run(Workplace(options.dir), confined=not options.unconfined, cpus=options.cpus))


if __name__ == "__main__":
    sys.exit(main())
