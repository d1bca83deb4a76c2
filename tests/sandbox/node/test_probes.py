"""Probes: counting answers, and asking by HTTP and TCP."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

from sandbox.node import probes
from sandbox.node.model import Container, Probe
from sandbox.node.probes import Answer, ProbeCount


def count(probe: Probe, *answers: bool) -> bool | None:
    found = ProbeCount()
    for answer in answers:
        found = found.add(answer, probe)
    return found.verdict


def test_thresholds_count_answers_in_a_row() -> None:
    probe = Probe(success_threshold=2, failure_threshold=3)
    assert count(probe, True) is None
    assert count(probe, True, False, True) is None
    assert count(probe, True, True) is True
    assert count(probe, True, True, False, False) is True
    assert count(probe, True, True, False, False, False) is False
    assert count(Probe(success_threshold=0, failure_threshold=0), False) is False


def test_a_port_is_a_number_or_the_name_of_a_container_port() -> None:
    container = msgspec.convert({"ports": [{"name": "http", "containerPort": 8080}]}, Container)
    assert probes.resolve_port("http", container) == 8080
    assert probes.resolve_port(9, container) == 9
    assert probes.resolve_port("9", container) == 9
    assert probes.resolve_port("grpc", container) is None


async def ask(probe: dict[str, Any], exit_code: int = 0) -> Answer:
    async def run_command(command: tuple[str, ...]) -> int:
        return exit_code

    return await probes.ask(msgspec.convert(probe, Probe), Container(), "127.0.0.1", run_command)


@pytest.mark.parametrize(("status", "success"), [(200, True), (302, True), (404, False), (503, False)])
async def test_an_http_probe_wants_a_status_from_200_to_399(status: int, success: bool) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/healthz", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    headers = [{"name": "X-Probe", "value": "1"}]
    try:
        found = await ask({"httpGet": {"path": "/healthz", "port": port, "httpHeaders": headers}})
    finally:
        await runner.cleanup()
    assert found == Answer(success, f"HTTP status {status}")
    assert seen[0].headers["X-Probe"] == "1"
    assert len(seen) == 1


async def test_a_tcp_probe_wants_a_listener() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert (await ask({"tcpSocket": {"port": port}})).success
    found = await ask({"tcpSocket": {"port": port}})
    assert not found.success
    assert "Connect" in found.message


async def test_a_probe_that_gets_no_answer_fails_in_time() -> None:
    left = asyncio.Event()

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await ask({"httpGet": {"port": port}, "timeoutSeconds": 1}) == Answer(False, "no answer within 1 s")
        await left.wait()


async def test_an_exec_probe_wants_exit_code_zero() -> None:
    assert (await ask({"exec": {"command": ["x"]}})).success
    assert await ask({"exec": {"command": ["x"]}}, 3) == Answer(False, "command exited with 3")


async def test_a_port_name_that_no_container_port_has_fails_the_probe() -> None:
    assert await ask({"tcpSocket": {"port": "http"}}) == Answer(False, 'no container port is named "http"')
