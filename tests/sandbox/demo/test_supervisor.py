"""The supervisor with real processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.demo.components import free_port
from sandbox.demo.supervisor import ChildFailed, ChildSpec, Supervisor, answers_ready, ending, tail

SERVER = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("listening", flush=True)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def python(code, *arguments):
    return (sys.executable, "-S", "-c", code, *map(str, arguments))


async def always():
    return True


async def never():
    return False


@pytest.fixture
async def started():
    return []


@pytest.fixture
async def supervisor(tmp_path, started):
    supervisor = Supervisor(tmp_path, started.append)
    yield supervisor
    await supervisor.stop()


async def until(condition, timeout_s=20):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - processes set no events
            await asyncio.sleep(0.02)


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_a_child_is_ready_when_its_readyz_answers(supervisor, started):
    port = free_port()
    spec = ChildSpec("web", python(SERVER, port), lambda: answers_ready(port))
    pid = await supervisor.start(spec)
    assert alive(pid)
    assert [(event.name, event.pid, event.reason) for event in started] == [("web", pid, "")]
    assert tail(supervisor.log_path("web")) == "listening"


async def test_a_killed_child_is_started_again_and_the_reason_is_told(supervisor, started):
    pid = await supervisor.start(ChildSpec("sleeper", ("sleep", "60"), always))
    os.kill(pid, signal.SIGKILL)
    await until(lambda: len(started) == 2)
    assert started[1].reason == "was killed by SIGKILL"
    assert started[1].pid != pid
    assert alive(started[1].pid)


async def test_a_child_that_cannot_start_fails_with_the_end_of_its_log(supervisor):
    spec = ChildSpec("broken", python("raise SystemExit('no such thing')"), never)
    with pytest.raises(ChildFailed, match="broken did not start: it ended with exit code 1") as failure:
        await supervisor.start(spec)
    assert "no such thing" in failure.value.log_tail


async def test_a_child_that_is_never_ready_fails_after_its_deadline(supervisor):
    spec = ChildSpec("slow", ("sleep", "60"), never, start_deadline_s=0.3)
    with pytest.raises(ChildFailed, match=r"slow was not ready after 0\.3 s"):
        await supervisor.start(spec)


async def test_a_child_that_keeps_dying_ends_the_whole(supervisor, started):
    await supervisor.start(ChildSpec("flapper", ("false",), always))
    with pytest.raises(ChildFailed, match="flapper keeps ending"):
        await asyncio.wait_for(supervisor.failure, 60)
    assert len(started) > 3


async def test_the_death_of_an_essential_child_ends_the_whole(supervisor):
    pid = await supervisor.start(ChildSpec("heart", ("sleep", "60"), always, essential=True))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildFailed, match="heart was killed by SIGKILL"):
        await asyncio.wait_for(supervisor.failure, 20)


async def test_stopping_ends_children_in_reverse_order_and_kills_the_deaf(tmp_path, started):
    supervisor = Supervisor(tmp_path, started.append)
    order = tmp_path / "order"
    polite = (
        "import signal, sys, time\n"
        "def end(*_):\n    open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nopen(sys.argv[1] + sys.argv[2], 'w').close()\ntime.sleep(60)"
    )
    deaf = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1], 'w').close()\ntime.sleep(60)"
    )
    pids = []
    for name in "ab":

        async def ready(name=name):
            return (tmp_path / f"order{name}").exists()

        pids.append(await supervisor.start(ChildSpec(name, python(polite, order, name), ready)))

    async def deaf_ready():
        return (tmp_path / "deaf-is-up").exists()

    spec = ChildSpec("deaf", python(deaf, tmp_path / "deaf-is-up"), deaf_ready, stop_deadline_s=0.5)
    pids.append(await supervisor.start(spec))
    await supervisor.stop()
    assert not any(map(alive, pids))
    assert order.read_text() == "ba"


def test_children_end_with_their_supervisor_even_when_it_is_killed(tmp_path):
    code = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from sandbox.demo.supervisor import ChildSpec, Supervisor\n"
        "async def always(): return True\n"
        "async def main():\n"
        "    s = Supervisor(Path(sys.argv[1]), lambda e: print(e.pid, flush=True))\n"
        "    await s.start(ChildSpec('sleeper', ('sleep', '60'), always))\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with parent.stdout:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_nobody_listening_is_not_ready():
    assert not await answers_ready(free_port())


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with exit code 0"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99")],
)
def test_endings_are_told_in_words(code, words):
    assert ending(code) == words
