"""The API servers that the contract is held against."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from koord.kube.connection import connect
from sandbox import kubeconfig as credentials
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.server import ADMIN, ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.controllers.workloads import WorkloadControllers
from sandbox.lifecycle.eviction import evict
from sandbox.lifecycle.loops import LifecycleLoops
from tests.kubernetes.control_plane import ControlPlane, find_assets

TARGETS = ("sandbox", "kubernetes", "kubeconfig")
START_S = 30.0


def why_not(name: str) -> str:
    """Why a target cannot be reached here; "" when it can."""
    if name == "kubernetes":
        assets, why = find_assets()
        return "" if assets else f"no real API server: {why}"
    if name == "kubeconfig" and not os.environ.get("KOORD_TEST_KUBECONFIG"):
        return "KOORD_TEST_KUBECONFIG names no cluster"
    return ""


@contextmanager
def running(name: str, folder: Path) -> Iterator[Path]:
    """The kubeconfig of a target that is up."""
    if name == "sandbox":
        with _sandbox(folder) as path:
            yield path
    elif name == "kubernetes":
        assets, why = find_assets()
        assert assets is not None, why
        with ControlPlane(assets, programs=("etcd", "kube-apiserver", "kube-controller-manager")) as plane:
            yield plane.kubeconfig
    else:
        yield Path(os.environ["KOORD_TEST_KUBECONFIG"])


@contextmanager
def _sandbox(folder: Path) -> Iterator[Path]:
    """The sandbox's control plane without nodes and binder, in a thread of its own as clients do not share its loop.

    The same parts as of the real target: API server and controllers.
    """
    path = folder / "kubeconfig"
    ready, failures = threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        storage, kinds = Storage(), builtin_kinds()
        chain = AdmissionChain(storage)
        made = credentials.make_credentials("127.0.0.1")
        server = ApiServer(storage, kinds, chain, tokens={made.token: ADMIN}, evict=evict)
        port = await server.start(ssl_context=credentials.server_context(made))
        text = credentials.render_kubeconfig(made, f"https://127.0.0.1:{port}")
        credentials.write_kubeconfig(path, text)
        async with await connect(str(path)) as client:
            controllers = WorkloadControllers(client)
            works = (LifecycleLoops(client, storage, kinds).run(), controllers.run())
            tasks = [asyncio.create_task(work) for work in works]
            await controllers.wait_ready()
            ready.set()
            await stop.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()
        await chain.close()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failures.append(error)
            ready.set()
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="sandbox")
    thread.start()
    try:
        assert ready.wait(START_S), "the sandbox did not start"
        if failures:
            raise failures[0]
        yield path
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(START_S)
    if failures:
        raise failures[0]
