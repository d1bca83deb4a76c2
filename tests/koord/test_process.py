"""Components as real processes: signals, exit codes, health, logs."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request

import pytest

from koord.logs import JsonFormatter, configure_logging
from koord.process import Process

PRELUDE = """
import asyncio, sys, time
from koord.process import Process
forever = lambda: asyncio.Event().wait()
"""


class Component:
    """A child process whose stderr is read as JSON lines."""

    def __init__(self, body):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines = []

    def next_line(self):
        line = self.process.stderr.readline()
        assert line, f"ended early: {self.lines}"
        self.lines.append(json.loads(line) if line.startswith("{") else {"message": line})
        return self.lines[-1]

    def until(self, text):
        while text not in self.next_line()["message"]:
            pass
        return self.lines[-1]

    def port(self):
        return self.until("health and metrics")["port"]

    def end(self, number=None, timeout=15):
        """Signal it, wait for it; returns its exit code."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=timeout)
        self.out = out.split()
        self.lines += [json.loads(line) if line.startswith("{") else {"message": line} for line in err.splitlines()]
        return self.process.returncode

    @property
    def messages(self):
        return [line["message"] for line in self.lines]


@pytest.fixture
def component():
    started = []

    def start(body):
        started.append(Component(body))
        return started[-1]

    yield start
    for child in started:
        if child.process.poll() is None:
            child.process.kill()
        child.process.wait()
        child.process.stderr.close()
        child.process.stdout.close()


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def get_when(port, path, code):
    deadline = time.monotonic() + 10
    while (answer := get(port, path))[0] != code:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_loops_then_runs_shutdown_in_reverse_and_ends_with_0(component, number):
    child = component(
        """
        p = Process("demo", 0, health_address="127.0.0.1")
        async def loop():
            try: await forever()
            finally: print("loop")
        async def first(): print("first")
        async def second(): print("second")
        p.on_shutdown(first)
        p.on_shutdown(second)
        p.supervise("loop", loop)
        sys.exit(p.run())
        """
    )
    get_when(child.port(), "/readyz", 200)
    assert child.end(number) == 0
    assert child.out == ["loop", "second", "first"]
    assert f"demo stops on {number.name}" in child.messages


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("raise RuntimeError('boom')", "loop: RuntimeError: boom"),
        ("return", "loop: ended"),
        ("asyncio.current_task().cancel(); await forever()", "loop: was cancelled"),
    ],
)
def test_a_loop_that_ends_ends_the_process_with_1_and_the_reason(component, end, reason):
    child = component(
        f"""
        p = Process("demo", -1)
        async def loop():
            await asyncio.sleep(0)
            {end}
        async def bye(): print("bye")
        p.supervise("good", forever)
        p.supervise("loop", loop)
        p.on_shutdown(bye)
        code = p.run()
        print(p.failure.replace(" ", "_"))
        sys.exit(code)
        """
    )
    assert child.end() == 1
    assert child.out == ["bye", reason.replace(" ", "_")]
    assert f"demo ends: {reason}" in child.messages
    assert len([message for message in child.messages if "ends:" in message]) == 1


def test_a_failed_start_up_ends_with_1_before_any_loop(component):
    child = component(
        """
        p = Process("demo", -1)
        async def setup(): raise OSError("no cluster")
        async def loop(): print("never")
        p.on_startup(setup)
        p.supervise("loop", loop)
        sys.exit(p.run())
        """
    )
    assert child.end() == 1
    assert child.out == []
    assert "demo ends: start-up failed: OSError: no cluster" in child.messages


def test_a_signal_ends_a_start_up_that_hangs(component):
    child = component(
        """
        p = Process("demo", 0, health_address="127.0.0.1")
        p.on_startup(forever)
        sys.exit(p.run())
        """
    )
    port = child.port()
    code, body = get(port, "/readyz")
    assert code == 503 and json.loads(body)["checks"] == {"process": "starting"}
    assert get(port, "/healthz")[0] == 200
    assert child.end(signal.SIGTERM) == 0


def test_loops_can_be_added_while_running(component):
    child = component(
        """
        p = Process("demo", -1)
        async def late(): raise ValueError("late")
        async def setup(): p.supervise("late one", late)
        async def loop():
            p.supervise("late two", forever)
            await forever()
        p.on_startup(setup)
        p.supervise("loop", loop)
        sys.exit(p.run())
        """
    )
    assert child.end() == 1
    assert "demo ends: late one: ValueError: late" in child.messages


def test_health_readiness_and_metrics_are_served(component):
    child = component(
        """
        p = Process("demo", 0, health_address="127.0.0.1")
        state = {"ready": "not synced", "alive": True}
        p.add_readiness("store", lambda: state["ready"])
        p.add_liveness("beat", lambda: state["alive"])
        p.add_readiness("broken", lambda: 1 / 0 if state["ready"] is False else True)
        async def steps():
            for change in [("ready", True), ("alive", False), ("ready", False)]:
                await asyncio.sleep(0.5)
                state[change[0]] = change[1]
            await forever()
        p.supervise("steps", steps)
        sys.exit(p.run())
        """
    )
    port = child.port()
    body = get(port, "/readyz")[1]
    assert json.loads(body)["checks"]["store"] == "not synced"
    body = get_when(port, "/readyz", 200)[1]
    assert json.loads(body) == {"ok": True, "checks": {"process": "ok", "store": "ok", "broken": "ok"}}
    get_when(port, "/healthz", 503)
    body = get_when(port, "/readyz", 503)[1]
    assert json.loads(body)["checks"] == {
        "process": "ok",
        "store": "not ok",
        "broken": "check failed: ZeroDivisionError",
    }
    text = get(port, "/metrics")[1]
    assert 'koord_build_info{component="demo"' in text
    assert "process_resident_memory_bytes" in text
    assert get(port, "/nothing")[0] == 404
    assert child.end(signal.SIGTERM) == 0


def test_while_draining_it_serves_but_is_not_ready(component):
    child = component(
        """
        p = Process("demo", 0, health_address="127.0.0.1", drain_s=1.0)
        async def loop():
            try: await forever()
            finally: print(time.monotonic())
        p.supervise("loop", loop)
        sys.exit(p.run())
        """
    )
    port = child.port()
    get_when(port, "/readyz", 200)
    sent = time.monotonic()
    child.process.send_signal(signal.SIGTERM)
    body = get_when(port, "/readyz", 503)[1]
    assert json.loads(body)["checks"]["process"] == "stopping"
    assert get(port, "/healthz")[0] == 200
    assert child.end() == 0
    assert float(child.out[0]) - sent >= 1.0


def test_a_loop_that_does_not_stop_is_named_and_left_behind(component):
    child = component(
        """
        p = Process("demo", -1, grace_s=0.6)
        async def stubborn():
            while True:
                try: await asyncio.sleep(0.1)
                except asyncio.CancelledError: pass
        async def bye(): print("bye")
        async def end(): p.stop()
        p.supervise("stubborn", stubborn)
        p.supervise("end", end)
        p.on_shutdown(bye)
        sys.exit(p.run())
        """
    )
    assert child.end(timeout=12) == 1
    assert child.out == ["bye"]
    assert "demo ends: stubborn: did not stop" in child.messages


def test_a_shutdown_function_that_hangs_or_fails_does_not_stop_the_others(component):
    child = component(
        """
        p = Process("demo", -1, grace_s=0.9)
        async def bye(): print("bye")
        async def bad(): raise RuntimeError("bad")
        async def end(): p.stop()
        for function in (bye, bad, forever):
            p.on_shutdown(function)
        p.supervise("end", end)
        sys.exit(p.run())
        """
    )
    assert child.end() == 1
    assert child.out == ["bye"]


def test_a_second_signal_ends_at_once(component):
    child = component(
        """
        p = Process("demo", 0, health_address="127.0.0.1", drain_s=60)
        p.supervise("loop", forever)
        sys.exit(p.run())
        """
    )
    get_when(child.port(), "/readyz", 200)
    child.process.send_signal(signal.SIGTERM)
    child.until("stops on SIGTERM")
    assert child.end(signal.SIGTERM, timeout=5) == 128 + signal.SIGTERM


def test_a_thread_that_hangs_does_not_outlive_the_grace_period(component):
    child = component(
        """
        p = Process("demo", -1, grace_s=0.5)
        async def loop(): await asyncio.to_thread(time.sleep, 120)
        async def end(): await asyncio.sleep(0.2); p.stop()
        p.supervise("loop", loop)
        p.supervise("end", end)
        sys.exit(p.run())
        """
    )
    assert child.end(timeout=12) == 1
    assert "demo: shutdown took too long, ending at once" in child.messages


def test_a_taken_health_port_ends_with_1_and_says_so(component):
    first = component(
        """
        p = Process("first", 0, health_address="127.0.0.1")
        p.supervise("loop", forever)
        sys.exit(p.run())
        """
    )
    port = first.port()
    second = component(
        f"""
        p = Process("second", {port}, health_address="127.0.0.1")
        p.supervise("loop", forever)
        sys.exit(p.run())
        """
    )
    assert second.end() == 1
    assert any(f"health server on port {port}" in message for message in second.messages)
    assert first.end(signal.SIGTERM) == 0


def test_every_address_is_served_by_default(component):
    child = component(
        """
        p = Process("demo", 0)
        p.supervise("loop", forever)
        sys.exit(p.run())
        """
    )
    get_when(child.port(), "/readyz", 200)
    assert child.end(signal.SIGTERM) == 0


def test_unhandled_errors_and_warnings_are_logged_as_json(component):
    child = component(
        """
        import warnings
        p = Process("demo", -1)
        async def lost(): raise KeyError("lost")
        async def loop():
            warnings.warn("old ways")
            task = asyncio.ensure_future(lost())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            del task
            import gc; gc.collect()
            p.stop()
            await forever()
        p.supervise("loop", loop)
        sys.exit(p.run())
        """
    )
    assert child.end() == 0
    assert all("ts" in line for line in child.lines)
    assert any("never retrieved" in m for m in child.messages)
    assert any("old ways" in m for m in child.messages)


def test_start_up_is_quick():
    code = "import time; t = time.perf_counter(); import koord.process; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    assert min(times) < 1.0


def record(message="m", *args, **extra):
    made = logging.LogRecord("koord.x", logging.INFO, "f", 1, message, args, None)
    vars(made).update(extra)
    return made


def test_log_lines_hold_the_extra_fields():
    line = json.loads(JsonFormatter("demo").format(record("a %s", "b", node="n1", numbers=[1, 2.5], where=os)))
    assert line["message"] == "a b"
    assert (line["level"], line["logger"], line["component"]) == ("info", "koord.x", "demo")
    assert line["ts"].endswith("Z")
    assert (line["node"], line["numbers"]) == ("n1", [1, 2.5])
    assert line["where"].startswith("<module 'os'")


def test_an_extra_field_cannot_forge_the_standard_ones():
    line = json.loads(JsonFormatter("demo").format(record("real", ts="forged", level="forged")))
    assert "forged" not in (line["ts"], line["level"])


@pytest.mark.parametrize("odd", ["\ud800", {1: {2: 3}}, float("nan"), 10**400, {("a", "b"): 1}, b"\xff"])
def test_whatever_is_logged_becomes_one_valid_line(odd):
    text = JsonFormatter("demo").format(record("line\nbreak", odd=odd))
    assert "\n" not in text
    assert json.loads(text)["message"]


def test_a_log_call_with_wrong_arguments_is_still_logged():
    assert "a %d" in json.loads(JsonFormatter("demo").format(record("a %d", "text")))["message"]


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="log level 'loud': must be one of debug, info"):
        configure_logging("demo", "loud")


def test_a_process_says_its_component():
    assert Process("demo", -1).component == "demo"
