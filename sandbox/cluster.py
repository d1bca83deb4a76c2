"""A whole cluster in one process: API server, admission, controllers, binder, nodes.

Everything but the API server works through it over HTTPS, as real components do; the shared watches of pods and
nodes serve the binder and all nodes. Use as an async context manager, or `start` and `stop`.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from koord.api.objects import Node
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.events import EventRecorder
from koord.kube.resources import NODES
from koord.kube.store import Store
from sandbox import bootstrap, kubeconfig
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.server import ADMIN, ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.binder.loop import Binder
from sandbox.controllers.workloads import WorkloadControllers
from sandbox.lifecycle.eviction import evict
from sandbox.lifecycle.loops import LifecycleLoops
from sandbox.node import model
from sandbox.node.container_logs import LogsByNode
from sandbox.node.real import RealNode, RealNodeOptions
from sandbox.node.registration import NodeDescription, NodeKeeper
from sandbox.node.run import parse_cgroup_parent
from sandbox.node.simulated import SimulatedNodes, describe_simulated
from sandbox.node.status_writer import StatusWriter
from sandbox.options import SandboxOptions

log = logging.getLogger("koord.sandbox")

USER_AGENT = "koord-sandbox"


class SandboxCluster:
    """One cluster. `failure` resolves with the reason when a part of it ended by itself."""

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options
        self.server = ""
        """The address of the API server, once started."""
        self.storage = Storage(initial_version=int(time.time()))
        self.kinds = builtin_kinds()
        self.admission = AdmissionChain(self.storage)
        self.real_node: RealNode | None = None
        self._client: Client | None = None
        self._stack = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._failure: asyncio.Future[str] | None = None

    @property
    def client(self) -> Client:
        """The administrator's client, which all parts share. Only while started."""
        if self._client is None:
            raise RuntimeError("the cluster is not started")
        return self._client

    @property
    def cgroup_parent(self) -> str:
        """The parent of kubepods below every mount; "" when pods run without cgroups or nowhere."""
        confined = self.real_node is not None and not self.real_node.unconfined_because
        return self.options.cgroup_parent if confined else ""

    async def wait_failed(self) -> str:
        """Wait until a part of the cluster ends by itself; the reason. Only while started."""
        assert self._failure is not None
        return await asyncio.shield(self._failure)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything; when it returns, pods can be created and will run.

        Raises what a part raises that cannot start, after stopping the others.
        """
        try:
            self._failure = asyncio.get_running_loop().create_future()
            await self._open_real_node()
            await self._serve()
            await bootstrap.install(self.client)
            await self._start_parts()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End all pods and parts; no process and no cgroup is left. Idempotent."""
        self._stopping = True
        await self._stack.aclose()

    async def _open_real_node(self) -> None:
        options = self.options
        if not options.host_node:
            return
        parent = parse_cgroup_parent(options.cgroup_parent)
        node = await RealNode.open(RealNodeOptions(options.host_node, parent, options.state_dir, options.proc_root))
        self.real_node = node
        self._stack.push_async_callback(node.close)

    async def _serve(self) -> None:
        """Start the API server, write the kubeconfig, connect."""
        options = self.options
        credentials = kubeconfig.make_credentials(options.host)
        logs = LogsByNode({self.real_node.name: self.real_node.logs} if self.real_node else {})
        server = ApiServer(
            self.storage, self.kinds, self.admission, tokens={credentials.token: ADMIN}, logs=logs, evict=evict
        )
        self._stack.push_async_callback(self.admission.close)
        port = await server.start(options.host, options.port, kubeconfig.server_context(credentials))
        self._stack.push_async_callback(server.stop)
        self.server = f"https://{options.host}:{port}"
        text = kubeconfig.render_kubeconfig(credentials, self.server)
        kubeconfig.write_kubeconfig(options.kubeconfig, text)
        self._stack.callback(kubeconfig.remove_kubeconfig, options.kubeconfig, text)
        self._client = await connect(str(options.kubeconfig), user_agent=USER_AGENT)
        self._stack.push_async_callback(self._client.close)
        self._stack.push_async_callback(self._end_tasks)

    async def _start_parts(self) -> None:
        pods, nodes = Store(self.client, model.PODS), Store[Node](self.client, NODES)
        scheduler_events = EventRecorder(self.client, "default-scheduler", USER_AGENT)
        controllers = WorkloadControllers(self.client)
        self._spawn("pods", pods.run())
        self._spawn("nodes", nodes.run())
        self._spawn("controllers", controllers.run())
        self._spawn("lifecycle", LifecycleLoops(self.client, self.storage, self.kinds).run())
        self._spawn("scheduler events", scheduler_events.run())
        await asyncio.gather(pods.wait_synced(), nodes.wait_synced(), controllers.wait_ready())
        await self._start_nodes(pods)
        self._spawn("binder", Binder(self.client, pods, nodes, scheduler_events).run())

    async def _start_nodes(self, pods: Store[model.Pod]) -> None:
        options, writer = self.options, StatusWriter(self.client)
        described: list[NodeDescription] = [
            describe_simulated(name, options.simulated_cpu, options.simulated_memory)
            for name in options.simulated_names()
        ]
        if described:
            simulated = SimulatedNodes(options.simulated_names(), writer, time.time)
            simulated.follow(pods)
            self._spawn("simulated nodes", simulated.run())
        if self.real_node is not None:
            events = EventRecorder(self.client, "kubelet", self.real_node.name)
            self._spawn("kubelet events", events.run())
            self.real_node.start(pods, writer, events)
            self._spawn("node", self.real_node.run())
            self._stack.push_async_callback(self.real_node.end_pods, options.stop_grace_s)
            described.append(self.real_node.describe())
        self._stack.callback(writer.close)
        if described:
            keeper = NodeKeeper(self.client, described, time.time)
            await keeper.register()
            self._spawn("heartbeats", keeper.run())

    def _spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._stopping or self._failure is None or self._failure.done():
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a part of the cluster failed", exc_info=error, extra={"part": task.get_name()})
        reason = f"{type(error).__name__}: {error}" if error else "ended"
        self._failure.set_result(f"{task.get_name()}: {reason}")

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
