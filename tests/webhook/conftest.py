"""A real API server with real admission, and the webhook as the process that a user starts."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from koord import crds
from koord.api.names import CONFIG_NAMESPACE, NAMESPACE_KUBE_SYSTEM
from koord.api.objects import JsonObject
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.errors import AlreadyExists
from koord.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    PRIORITY_CLASSES,
)
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.calls import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.kubeconfig import make_credentials, render_kubeconfig, server_context
from webhook.registration import MUTATING_NAME, POD_WEBHOOK

DEADLINE_S = 30.0


@dataclass
class WebhookProcess:
    """A running `python -m webhook`; its log lines are collected as they come."""

    process: asyncio.subprocess.Process
    lines: list[JsonObject] = field(default_factory=list)
    reader: asyncio.Task[None] | None = None

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode()
            self.lines.append(json.loads(text) if text.startswith("{") else {"message": text})

    async def line(self, matches: Callable[[JsonObject], bool], what: str) -> JsonObject:
        """Wait for a log line."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for line in self.lines:
                if matches(line):
                    return line
            assert time.monotonic() < deadline, f"no log line: {what}: {self.lines}"
            assert self.process.returncode is None or not self.reader or not self.reader.done(), self.lines
            await asyncio.sleep(0.02)

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; returns its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.end()

    async def end(self) -> int:
        """Wait until it has ended; returns its exit code."""
        code = await asyncio.wait_for(self.process.wait(), DEADLINE_S)
        if self.reader is not None:
            await self.reader
        return code


@dataclass
class Cluster:
    """The API server, one client, and the webhook processes that were started."""

    storage: Storage
    admission: AdmissionChain
    client: Client
    kubeconfig: Path
    directory: Path
    webhooks: list[WebhookProcess] = field(default_factory=list)

    async def start_webhook(self, *flags: str) -> WebhookProcess:
        """Start one on a free port, registered by URL."""
        port = free_port()
        command = [
            *(sys.executable, "-m", "webhook", "--kubeconfig", str(self.kubeconfig)),
            *("--port", str(port), "--url", f"https://127.0.0.1:{port}"),
            *("--bind-address", "127.0.0.1", "--host", "127.0.0.1", "--health-port", "0", "--drain-s", "0"),
            *("--cert-dir", str(self.directory / "webhook-certs"), *flags),
        ]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        webhook = WebhookProcess(process)
        webhook.reader = asyncio.create_task(webhook.read())
        self.webhooks.append(webhook)
        return webhook

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition."""
        await until(condition, what)

    async def until_registered(self) -> None:
        """Wait until the configuration names our webhook with a bundle."""
        resource = MUTATING_WEBHOOK_CONFIGURATIONS

        def registered() -> bool:
            found = self.storage.read(resource.group, resource.plural, "", MUTATING_NAME) or {}
            entries = {entry["name"]: entry for entry in found.get("webhooks") or ()}
            return bool(entries.get(POD_WEBHOOK, {}).get("clientConfig", {}).get("caBundle"))

        await until(registered, "webhook configuration")


def free_port() -> int:
    """A port that nobody has right now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.02)


async def install(client: Client) -> None:
    """What the tests need of a cluster."""
    for name in ("default", NAMESPACE_KUBE_SYSTEM, CONFIG_NAMESPACE):
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
    for definition in crds.load():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    batch = {"metadata": {"name": "koord-batch"}, "value": 5000, "preemptionPolicy": "Never"}
    await client.create(PRIORITY_CLASSES, batch)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    storage, kinds = Storage(), builtin_kinds()
    chain = AdmissionChain(storage)
    credentials = make_credentials("127.0.0.1")
    server = ApiServer(storage, kinds, chain, tokens={credentials.token: ADMIN})
    port = await server.start(ssl_context=server_context(credentials))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(render_kubeconfig(credentials, f"https://127.0.0.1:{port}"))
    async with await connect(str(kubeconfig)) as client:
        await install(client)
        found = Cluster(storage, chain, client, kubeconfig, tmp_path)
        try:
            yield found
        finally:
            for webhook in found.webhooks:
                await webhook.stop()
            await chain.close()
    await server.stop()
