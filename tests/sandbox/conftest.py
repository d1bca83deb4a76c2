"""A small cluster for tests: the real API server over TLS with real admission, and a kubelet of few words."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api.timestamps import format_rfc3339
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.errors import AlreadyExists, ApiError
from koord.kube.resources import Resource, raw
from koord.kube.store import Store
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.calls import ADMIN
from sandbox.apiserver.kinds import KindRegistry
from sandbox.apiserver.server import ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.controllers.daemon_plan import target_of
from sandbox.kubeconfig import make_credentials, render_kubeconfig, server_context
from sandbox.lifecycle.eviction import evict

JsonObject = dict[str, Any]
PODS = raw("", "v1", "pods", "Pod", True)
NAMESPACES = raw("", "v1", "namespaces", "Namespace", False)
DEADLINE_S = 20.0


@dataclass
class SmallCluster:
    """An API server with one client. `background` is for loops that must end with the test."""

    storage: Storage
    kinds: KindRegistry
    admission: AdmissionChain
    client: Client
    kubeconfig: Path
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def background(self, work: Awaitable[None]) -> None:
        """Run something until the test ends; a failure in it fails the test's waits."""
        self.tasks.append(asyncio.ensure_future(work))

    async def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Wait for a condition over the store; returns its true value."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := condition()):
            for task in self.tasks:
                if task.done():
                    task.result()
            assert time.monotonic() < deadline, f"not in time: {what or condition}"
            await asyncio.sleep(0.01)
        return found

    def read(self, resource: Resource[Any], name: str, namespace: str = "default") -> JsonObject | None:
        """An object as stored."""
        return self.storage.read(resource.group, resource.plural, namespace if resource.namespaced else "", name)

    def pods(self, namespace: str = "default") -> list[JsonObject]:
        """Pods as stored."""
        return list(self.storage.read_all("", "pods", namespace))

    def kubelet(self, **options: Any) -> "Kubelet":
        """Start a kubelet for all pods."""
        kubelet = Kubelet(self.client, **options)
        self.background(kubelet.run())
        return kubelet


class Kubelet:
    """Gives pods a node, reports them running and ready, and lets terminating ones go.

    starts: which pods become ready, by predicate; others stay pending. holds: terminating pods stay
    until `release` is set.
    """

    def __init__(
        self, client: Client, *, starts: Callable[[JsonObject], bool] = lambda pod: True, holds: bool = False
    ) -> None:
        self._client = client
        self._starts = starts
        self.release = asyncio.Event()
        if not holds:
            self.release.set()

    async def run(self) -> None:
        store = Store(self._client, PODS)
        async with asyncio.TaskGroup() as group:

            def see(change: Change[JsonObject]) -> None:
                if change.new is not None:
                    group.create_task(self._handle(change.new))

            store.subscribe(see)
            await store.run()

    async def _handle(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        with suppress(ApiError):
            if metadata.get("deletionTimestamp"):
                await self.release.wait()
                await self._client.delete(
                    PODS, metadata["name"], metadata["namespace"], grace_period_s=0, uid=metadata["uid"]
                )
            elif not pod["spec"].get("nodeName"):
                await self._bind(pod)
            elif (pod.get("status") or {}).get("phase") == "Pending" and self._starts(pod):
                await self.report(pod, "Running", ready=True)

    async def _bind(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "target": {"kind": "Node", "name": target_of(pod) or "node-1"},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        await self._client.request("POST", path, body=msgspec.json.encode(binding))

    async def report(self, pod: JsonObject, phase: str, *, ready: bool = False, exit_code: int | None = None) -> None:
        """Write a pod's status."""
        now = format_rfc3339(time.time())
        conditions = [
            entry for entry in (pod.get("status") or {}).get("conditions") or () if entry["type"] != "Ready"
        ]
        conditions.append({"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now})
        status: JsonObject = {"phase": phase, "conditions": conditions}
        if exit_code is not None:
            status["containerStatuses"] = [
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "image": "x",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": {"exitCode": exit_code, "finishedAt": now}},
                }
            ]
        metadata = pod["metadata"]
        await self._client.patch(
            PODS, metadata["name"], {"status": status}, namespace=metadata["namespace"], subresource="status"
        )


async def wait_for_closed_sockets() -> None:
    """Let TLS connections finish closing, so that nothing is left open when the loop ends."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    for _ in range(1_000):
        if len(selector.get_map()) <= 1:  # the loop's own pipe
            return
        await asyncio.sleep(0.005)


@pytest.fixture
async def no_open_sockets() -> AsyncIterator[None]:
    """Torn down after every fixture that asks for it."""
    yield
    await wait_for_closed_sockets()


@pytest.fixture
async def small_cluster(tmp_path: Path) -> AsyncIterator[SmallCluster]:
    """A fresh API server on a free port, with namespace default."""
    storage, kinds = Storage(), builtin_kinds()
    admission = AdmissionChain(storage)
    credentials = make_credentials("127.0.0.1")
    server = ApiServer(storage, kinds, admission, tokens={credentials.token: ADMIN}, evict=evict)
    port = await server.start(ssl_context=server_context(credentials))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(render_kubeconfig(credentials, f"https://127.0.0.1:{port}"))
    client = await connect(str(kubeconfig))
    cluster = SmallCluster(storage, kinds, admission, client, kubeconfig)
    try:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        yield cluster
    finally:
        for task in cluster.tasks:
            task.cancel()
        await asyncio.gather(*cluster.tasks, return_exceptions=True)
        await client.close()
        await admission.close()
        await server.stop()
        await wait_for_closed_sockets()


@pytest.fixture
def make_kubelet() -> Callable[..., Kubelet]:
    """The kubelet of few words, for any client."""
    return Kubelet
