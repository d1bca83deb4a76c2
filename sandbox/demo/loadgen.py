"""The open-loop load generator of the demo.

It sends every request at its scheduled moment whether or not earlier ones were answered, and counts the
latency from that *scheduled* moment: a request that had to wait for a free connection, or for the
generator itself, has that wait in its latency, so nothing is omitted. Requests that are unanswered when
the drain time is over count with the time that they have waited, and as errors.

It asks for SCHED_FIFO in the root cgroup, so that it is never late itself; where that is refused, for
nice -20, then for nothing. What it got and how late it was is in its result: one JSON object on stdout.
"""

import argparse
import gc
import json
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox.demo.arrivals import NS_PER_S, Step, parse_step, poisson_arrivals

REQUEST = b"GET / HTTP/1.1\r\nHost: web\r\n\r\n"
OK = b"HTTP/1.1 200"
CONNECTIONS = 64
FIFO_PRIORITY = 10


@dataclass(slots=True)
class LoadResult:
    """What happened to each request, in order of schedule; times in microseconds.

    `scheduled_us` counts from `started_ns` (CLOCK_MONOTONIC). `late_us` is how long after its schedule
    the generator came to a request: its own lateness, a measure of how promptly this machine wakes it.
    """

    started_ns: int
    scheduling: str
    scheduled_us: list[int] = field(default_factory=list)
    latency_us: list[int] = field(default_factory=list)
    late_us: list[int] = field(default_factory=list)
    errors: int = 0
    cpu_s: float = 0.0


def raise_own_priority(root_procs: Sequence[Path]) -> str:
    """Move to the root cgroups named by their `cgroup.procs` files and become urgent; says what was got."""
    for procs in root_procs:
        try:
            procs.write_text(str(os.getpid()))
        except OSError:
            continue
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except OSError:
        pass
    else:
        return "fifo"
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return "normal"
    return "nice -20"


class Load:
    """One run of a schedule against a server; not reusable."""

    def __init__(self, address: tuple[str, int], arrivals_ns: Sequence[int], connections: int) -> None:
        self._arrivals = arrivals_ns
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._address = address
        self._free: list[int] = []
        self._in_flight: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._latency_ns = [-1] * len(arrivals_ns)
        self._late_ns = [0] * len(arrivals_ns)
        self._start_ns = 0
        self._errors = 0
        for _ in range(connections):
            self._open()

    def _open(self) -> None:
        connection = socket.create_connection(self._address, timeout=5)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._sockets[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)
        self._free.append(connection.fileno())

    def run(self, start_ns: int, drain_s: float) -> None:
        """Send every request at `start_ns` plus its arrival, then wait at most `drain_s` for the rest."""
        self._start_ns = start_ns
        poll_descriptor = [self._poll.fileno()]
        clock = time.monotonic_ns
        upcoming, count = 0, len(self._arrivals)
        end_ns = start_ns + (self._arrivals[-1] if self._arrivals else 0) + int(drain_s * NS_PER_S)
        while upcoming < count or self._in_flight or self._waiting:
            now_ns = clock()
            while upcoming < count and start_ns + self._arrivals[upcoming] <= now_ns:
                self._waiting.append(upcoming)
                self._late_ns[upcoming] = now_ns - start_ns - self._arrivals[upcoming]
                upcoming += 1
            while self._waiting and self._free:
                self._send(self._free.pop(), self._waiting.popleft())
            if now_ns >= end_ns:
                break
            next_ns = start_ns + self._arrivals[upcoming] if upcoming < count else end_ns
            # epoll rounds to milliseconds; select on the epoll descriptor waits to the microsecond.
            if select.select(poll_descriptor, [], [], max(0, next_ns - clock()) / NS_PER_S)[0]:
                for descriptor, _ in self._poll.poll(0):
                    self._receive(descriptor)
        self._abandon()

    def _send(self, descriptor: int, request: int) -> None:
        self._in_flight[descriptor] = request
        try:
            self._sockets[descriptor].send(REQUEST)
        except OSError:
            self._finish(descriptor, ok=False)

    def _receive(self, descriptor: int) -> None:
        if descriptor not in self._in_flight:
            self._replace(descriptor)
            return
        try:
            data = self._sockets[descriptor].recv(4096)
        except OSError:
            data = b""
        self._finish(descriptor, ok=data.startswith(OK))

    def _finish(self, descriptor: int, *, ok: bool) -> None:
        request = self._in_flight.pop(descriptor)
        self._latency_ns[request] = time.monotonic_ns() - self._start_ns - self._arrivals[request]
        if ok:
            self._free.append(descriptor)
            return
        self._errors += 1
        self._replace(descriptor)

    def _replace(self, descriptor: int) -> None:
        """Drop a broken connection and open another; with none left, requests wait and are abandoned."""
        if descriptor in self._free:
            self._free.remove(descriptor)
        self._poll.unregister(descriptor)
        self._sockets.pop(descriptor).close()
        try:
            self._open()
        except OSError:
            self._errors += 1

    def _abandon(self) -> None:
        now_ns = time.monotonic_ns()
        for request in [*self._in_flight.values(), *self._waiting]:
            self._latency_ns[request] = now_ns - self._start_ns - self._arrivals[request]
            self._errors += 1
        for connection in self._sockets.values():
            connection.close()
        self._poll.close()

    def result(self, scheduling: str, cpu_s: float = 0.0) -> LoadResult:
        """What was measured, `cpu_s` being what the run itself cost; call after `run`."""
        return LoadResult(
            started_ns=self._start_ns,
            scheduling=scheduling,
            scheduled_us=[arrival // 1000 for arrival in self._arrivals],
            latency_us=[latency // 1000 for latency in self._latency_ns],
            late_us=[late // 1000 for late in self._late_ns],
            errors=self._errors,
            cpu_s=cpu_s,
        )


def generate(
    address: tuple[str, int],
    steps: Sequence[Step],
    seed: int,
    *,
    start_ns: int = 0,
    connections: int = CONNECTIONS,
    drain_s: float = 10.0,
    root_procs: Sequence[Path] = (),
) -> LoadResult:
    """Run a load from this process, which becomes as urgent as it is allowed to (for good)."""
    load = Load(address, poisson_arrivals(steps, seed), connections)
    scheduling = raise_own_priority(root_procs)
    gc.collect()
    gc.freeze()
    gc.disable()
    prepared_s = time.process_time()
    load.run(start_ns or time.monotonic_ns() + 20_000_000, drain_s)
    return load.result(scheduling, time.process_time() - prepared_s)


def main() -> None:
    """Parse the command line, run the load, print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step", type=parse_step, action="append", required=True, metavar="RATE:SECONDS")
    parser.add_argument("--start-ns", type=int, default=0, help="CLOCK_MONOTONIC of the start; 0: at once")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--drain-s", type=float, default=10.0)
    parser.add_argument("--root-procs", type=Path, action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    result = generate(
        (options.host, options.port),
        options.step,
        options.seed,
        start_ns=options.start_ns,
        connections=options.connections,
        drain_s=options.drain_s,
        root_procs=options.root_procs,
    )
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    main()
