"""Readiness, startup and liveness probes: asking once, and counting answers.

Counting is pure (`ProbeCount`); asking is I/O. A probe that cannot be asked has failed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import aiohttp

from sandbox.node import model

RunCommand = Callable[[tuple[str, ...]], Awaitable[int]]
"""Runs a command beside the container's process and returns its exit code."""


@dataclass(frozen=True)
class ProbeCount:
    """Answers of one kind in a row, and what they amount to (None: not decided yet)."""

    successes: int = 0
    failures: int = 0
    verdict: bool | None = None

    def add(self, success: bool, probe: model.Probe) -> "ProbeCount":
        """The count after one more answer; thresholds below 1 count as 1."""
        if success:
            successes = self.successes + 1
            reached = successes >= max(1, probe.success_threshold)
            return replace(self, successes=successes, failures=0, verdict=True if reached else self.verdict)
        failures = self.failures + 1
        reached = failures >= max(1, probe.failure_threshold)
        return replace(self, successes=0, failures=failures, verdict=False if reached else self.verdict)


@dataclass(frozen=True)
class Answer:
    """What one probe found; `message` says what was wrong."""

    success: bool
    message: str = ""


def resolve_port(port: int | str, container: model.Container) -> int | None:
    """The number of a port given by number or by the name of a container port; None for an unknown name."""
    if isinstance(port, int):
        return port
    named = next((item.container_port for item in container.ports if item.name == port), None)
    return named if named is not None else int(port) if port.isdigit() else None


async def ask(probe: model.Probe, container: model.Container, pod_ip: str, run_command: RunCommand) -> Answer:
    """Ask once, giving up after the probe's timeout."""
    timeout_s = max(1, probe.timeout_seconds)
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(probe, container, pod_ip, run_command)
    except TimeoutError:
        return Answer(False, f"no answer within {timeout_s} s")
    except (OSError, aiohttp.ClientError, ValueError) as error:
        return Answer(False, str(error) or type(error).__name__)


async def _ask(probe: model.Probe, container: model.Container, pod_ip: str, run_command: RunCommand) -> Answer:
    if probe.exec is not None:
        code = await run_command(probe.exec.command)
        return Answer(code == 0, f"command exited with {code}")
    action = probe.http_get or probe.tcp_socket
    if action is None:
        return Answer(True)
    port = resolve_port(action.port, container)
    if port is None:
        return Answer(False, f'no container port is named "{action.port}"')
    host = action.host or pod_ip
    if isinstance(action, model.HttpGetAction):
        return await _ask_http(action, host, port)
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return Answer(True)


async def _ask_http(action: model.HttpGetAction, host: str, port: int) -> Answer:
    url = f"{action.scheme.lower()}://{host}:{port}/{action.path.removeprefix('/')}"
    headers = {header.name: header.value for header in action.http_headers}
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)  # kubelet does not verify either
    async with (
        aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
        session.get(url, headers=headers, allow_redirects=False) as response,
    ):
        return Answer(200 <= response.status < 400, f"HTTP status {response.status}")


Heed = Callable[[bool, str], None]
"""Told a probe's verdict whenever it changes, with the message of the last answer."""


async def keep_asking(
    probe: model.Probe,
    container: model.Container,
    pod_ip: str,
    run_command: RunCommand,
    heed: Heed,
    *,
    until_first_success: bool = False,
) -> None:
    """Ask for as long as the container runs (the caller cancels), or until a startup probe has succeeded."""
    count = ProbeCount()
    await asyncio.sleep(probe.initial_delay_seconds)
    while True:
        answer = await ask(probe, container, pod_ip, run_command)
        before, count = count.verdict, count.add(answer.success, probe)
        if count.verdict is not None and count.verdict != before:
            heed(count.verdict, answer.message)
        if until_first_success and count.verdict:
            return
        await asyncio.sleep(max(1, probe.period_seconds))
