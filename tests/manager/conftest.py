"""A real API server for the manager's loops: the sandbox's, and real ones where they are."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.resources import NODE_METRICS, NODE_SLOS
from manager.control.announcing import Announcer
from manager.control.controller import Controller, Settings
from manager.control.recording import Recording
from sandbox import bootstrap
from tests.contract import targets
from tests.manager.fleet import CONFIG_NAMESPACE, DEADLINE_S, Fleet, eventually


@pytest.fixture(scope="session", params=[name for name in targets.TARGETS if not targets.why_not(name)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster that serves Koord's kinds."""
    with targets.running(request.param, tmp_path_factory.mktemp(request.param)) as path:
        asyncio.run(_install(path))
        yield path


async def _install(path: Path) -> None:
    async with await connect(str(path)) as client:
        await bootstrap.install(client)

        async def served() -> bool:
            try:
                await client.list(NODE_METRICS)
                await client.list(NODE_SLOS)
            except ApiError:
                return False
            return True

        await eventually(served, "Koord's kinds are served")


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with await connect(str(kubeconfig)) as connected:
        yield connected


@pytest.fixture
async def fleet(client: Client) -> AsyncIterator[Fleet]:
    made = Fleet(client)
    yield made
    await made.remove()


@pytest.fixture
def run_manager(client: Client, fleet: Fleet) -> Callable[[], Any]:
    """A function that runs a manager in this process for the length of a `with` block."""

    @asynccontextmanager
    async def running(
        may_write: Callable[[], bool] = lambda: True, recording: Recording | None = None, **settings: Any
    ) -> AsyncIterator[Controller]:
        recorder = EventRecorder(client, "koord-manager", "test")
        chosen = Settings(CONFIG_NAMESPACE, fleet.config_name, **{"min_interval_s": 0.02, **settings})
        controller = Controller(client, Announcer(recorder), chosen, may_write=may_write, recording=recording)
        loops = [store.run for store in controller.stores]
        if recording is not None:
            loops.append(recording.run)
        tasks = [asyncio.create_task(loop()) for loop in (*loops, recorder.run, controller.lead)]
        try:
            async with asyncio.timeout(DEADLINE_S):
                await controller.wait_synced()
            yield controller
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        failures = [task.exception() for task in tasks if not task.cancelled()]
        assert not failures

    return running
