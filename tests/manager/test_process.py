"""`python -m manager` as an operator runs it: readiness, metrics, one leader, an orderly end."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.manager.fleet import DEADLINE_S, Fleet, eventually


class ManagerProcess:
    """A running manager and what it logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.records: list[dict[str, Any]] = []
        self.port = 0
        self.reading = asyncio.create_task(self._read_log())

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            record = json.loads(line)
            self.records.append(record)
            self.port = record.get("port", self.port)

    def said(self, text: str) -> list[dict[str, Any]]:
        return [record for record in self.records if text in record["message"]]

    async def fetch(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as response,
        ):
            return response.status, await response.text()

    async def stop(self) -> int:
        """End it as the kubelet does; returns the exit code once all of its log is read."""
        self.process.terminate()
        async with asyncio.timeout(30):
            await self.reading
            return await self.process.wait()


@asynccontextmanager
async def manager(kubeconfig: Path, fleet: Fleet) -> AsyncIterator[ManagerProcess]:
    command = [sys.executable, "-m", "manager", "--kubeconfig", str(kubeconfig), "--health-port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, "--config-name", fleet.config_name, stderr=asyncio.subprocess.PIPE
    )
    started = ManagerProcess(process)
    try:

        async def ready() -> bool:
            return started.port > 0 and (await started.fetch("/readyz"))[0] == 200

        await eventually(ready, "the manager is ready", DEADLINE_S * 2)
        yield started
    finally:
        if process.returncode is None:
            await started.stop()


async def test_one_leads_the_other_takes_over_and_both_end_in_order(kubeconfig: Path, fleet: Fleet) -> None:
    await fleet.configure(colocation_config={"enable": True})
    node = await fleet.add_node()
    async with manager(kubeconfig, fleet) as first:
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
        async with manager(kubeconfig, fleet) as second:
            await fleet.report(node, system="5")
            await fleet.wait_batch_cpu(node, "14200")

            async def logged() -> bool:
                written = first.said("batch resources of")
                return bool(written) and written[-1]["decision"]["terms"]["cpu"]["systemUsage"] == "5"

            await eventually(logged, "the write is logged with its terms")
            status, text = await first.fetch("/metrics")
            assert status == 200
            assert f'koord_manager_node_batch_cpu_cores{{node="{node}"}} 14.2' in text
            assert not second.said("batch resources of")
            assert await first.stop() == 0
            await fleet.report(node, system="10")
            await fleet.wait_batch_cpu(node, "9200")
            assert await second.stop() == 0
            assert second.said("batch resources of")
