"""The latency-sensitive pod of the demo: a single-threaded HTTP server whose requests cost real CPU time.

Every `GET /` hashes a fixed 64 KiB block `--iterations` times (about 1 ms of CPU when calibrated), and
answers 200 with a fixed body. The server is written for little noise of its own: one epoll loop, no
garbage collection, no allocation that grows, strict order of arrival. It uses the standard library only
and is started by path, so that its start-up is short and needs no import path.

`GET /healthz` answers at once without work. Anything else gets 404 and the connection is closed.
"""

import argparse
import gc
import hashlib
import select
import signal
import socket
import sys
import time

BLOCK = bytes(range(256)) * 256
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"
REFUSAL = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
END = b"\r\n\r\n"
MAX_HEAD_BYTES = 16_384


def work(iterations: int) -> None:
    """Burn a fixed amount of CPU: `iterations` hashes of one 64 KiB block."""
    sha256 = hashlib.sha256
    for _ in range(iterations):
        sha256(BLOCK).digest()


def calibrate(target_cpu_ms: float, trials: int = 9) -> int:
    """The number of iterations that costs `target_cpu_ms` of CPU time here, at least 1.

    Takes the fastest trial, by thread CPU time: waiting for a busy CPU does not count, and what other
    processes evict from the caches counts little.
    """
    batch = 20
    work(batch)
    fastest_s = float("inf")
    for _ in range(trials):
        began = time.thread_time()
        work(batch)
        fastest_s = min(fastest_s, time.thread_time() - began)
    return max(1, round(target_cpu_ms / 1000 / (fastest_s / batch)))


def answer(request: bytes, iterations: int) -> bytes:
    """Do what one request (its head, without the blank line) asks; an empty answer is never returned."""
    if request.startswith(b"GET / "):
        work(iterations)
        return ANSWER
    if request.startswith(b"GET /healthz "):
        return ANSWER
    return REFUSAL


class Server:
    """Accepts on one listening socket and serves keep-alive connections, one request at a time."""

    def __init__(self, listener: socket.socket, iterations: int) -> None:
        self._listener = listener
        self._iterations = iterations
        self._poll = select.epoll()
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._connections: dict[int, socket.socket] = {}
        self._partial: dict[int, bytes] = {}

    def serve_forever(self) -> None:
        """Serve until the process is ended by a signal."""
        listening = self._listener.fileno()
        while True:
            for descriptor, _ in self._poll.poll(-1, 64):
                if descriptor == listening:
                    self._accept()
                else:
                    self._receive(descriptor)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _receive(self, descriptor: int) -> None:
        connection = self._connections[descriptor]
        try:
            data = connection.recv(MAX_HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(descriptor)
            return
        data = self._partial.pop(descriptor, b"") + data
        while END in data:
            head, data = data.split(END, 1)
            reply = answer(head, self._iterations)
            try:
                connection.send(reply)
            except OSError:
                reply = REFUSAL
            if reply is REFUSAL:
                self._close(descriptor)
                return
        if len(data) > MAX_HEAD_BYTES:
            self._close(descriptor)
        elif data:
            self._partial[descriptor] = data

    def _close(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._connections.pop(descriptor).close()
        self._partial.pop(descriptor, None)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 means any free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(512)
    listener.setblocking(False)
    return listener


def main() -> None:
    """Parse the command line and serve; prints the port once it listens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--iterations", type=int, default=0, help="hashes per request; 0: calibrate to --cpu-ms")
    parser.add_argument("--cpu-ms", type=float, default=1.0, help="CPU time per request when calibrating")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    iterations = options.iterations or calibrate(options.cpu_ms)
    listener = listen(options.host, options.port)
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.stdout.write(f"port={listener.getsockname()[1]} iterations={iterations}\n")
    sys.stdout.flush()
    Server(listener, iterations).serve_forever()


if __name__ == "__main__":
    main()
