"""The service, the executor and the generator as real processes, measured."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.demo import arrivals, executor, loadgen, service

SERVICE = Path(service.__file__)
EXECUTOR = Path(executor.__file__)


@pytest.fixture
def start(request):
    """Start a child that is ended with the test."""
    children = []

    def begin(*command, **options):
        child = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True, **options)
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def announced_port(child):
    return int(child.stdout.readline().split()[0].removeprefix("port="))


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_load(port, *steps, extra=()):
    command = [sys.executable, "-m", "sandbox.demo.loadgen", "--port", str(port), *extra]
    for step in steps:
        command += ["--step", step]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)


def ask(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(text)
        return connection.recv(4096)


def test_a_request_costs_the_cpu_time_that_was_asked_for(start):
    child = start("-S", SERVICE, "--cpu-ms", "2")
    port = announced_port(child)
    before = cpu_seconds(child.pid)
    result = run_load(port, "100:3")
    used_ms = (cpu_seconds(child.pid) - before) * 1000 / len(result["latency_us"])
    assert result["errors"] == 0
    # The server's own cost is part of it; other load of the machine makes caches colder.
    assert 1.4 < used_ms < 3.5


def test_the_service_answers_health_at_once_and_refuses_other_paths(start):
    port = announced_port(start("-S", SERVICE, "--iterations", "1"))
    assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert ask(port, b"GET /other HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404")


def test_the_service_reads_requests_that_come_in_pieces_and_in_one(start):
    port = announced_port(start("-S", SERVICE, "--iterations", "1"))
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET / HT")
        connection.sendall(b"TP/1.1\r\n\r")
        connection.sendall(b"\n" + b"GET / HTTP/1.1\r\n\r\n" * 2)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 3:
            received += connection.recv(4096)


def test_a_client_that_goes_away_does_not_end_the_service(start):
    port = announced_port(start("-S", SERVICE, "--iterations", "200"))
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_the_generator_sends_every_arrival_and_reports_its_own_lateness(start):
    port = announced_port(start("-S", SERVICE, "--cpu-ms", "0.2"))
    result = run_load(port, "200:2", "600:1", extra=("--seed", "5"))
    expected = arrivals.poisson_arrivals([arrivals.Step(200, 2), arrivals.Step(600, 1)], 5)
    assert result["scheduled_us"] == [arrival // 1000 for arrival in expected]
    assert result["errors"] == 0
    assert all(latency >= late >= 0 for latency, late in zip(result["latency_us"], result["late_us"], strict=True))
    assert result["scheduling"] in {"fifo", "nice -20", "normal"}


def test_a_stalled_server_shows_in_the_latency_of_every_request_that_came_meanwhile(start):
    """Coordinated omission: a closed-loop client would count one slow request, this counts all."""
    child = start("-S", SERVICE, "--cpu-ms", "0.2")
    port = announced_port(child)
    load = start("-m", "sandbox.demo.loadgen", "--port", port, "--step", "200:3", "--connections", 4)
    time.sleep(1.0)
    os.kill(child.pid, 19)
    time.sleep(1.0)
    os.kill(child.pid, 18)
    result = json.loads(load.communicate(timeout=30)[0])
    slow = [latency for latency in result["latency_us"] if latency > 200_000]
    assert len(slow) > 100
    assert max(result["latency_us"]) > 800_000
    assert result["errors"] == 0


def test_requests_never_answered_count_as_errors_with_the_time_they_waited():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        load = loadgen.Load(mute.getsockname(), [0, 1000], 2)
        load.run(time.monotonic_ns(), 0.3)
        result = load.result("normal")
    assert result.errors == 2
    assert all(latency > 250_000 for latency in result.latency_us)


def test_an_executor_counts_its_blocks_and_goes_on_after_a_restart(start, tmp_path):
    counter = tmp_path / "work" / "executor-1"
    assert executor.read_counter(counter) == 0
    for expected in (40, 80):
        child = start("-S", EXECUTOR, "--counter", counter, "--blocks", 40)
        assert child.wait(timeout=30) == 0
        assert executor.read_counter(counter) == expected


def test_an_executor_can_be_read_while_it_works_and_ends_on_sigterm(start, tmp_path):
    counter = tmp_path / "executor-1"
    child = start("-S", EXECUTOR, "--counter", counter)
    deadline = time.monotonic() + 20
    while executor.read_counter(counter) < 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.terminate()
    assert child.wait(timeout=10) == 0
