"""What the API server of the demo's cluster says about pods and the node, watched live."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from koord.api import names, objects, quantity
from koord.kube import resources
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.store import Store
from sandbox.demo.result import Pod


class NotInTime(Exception):  # noqa: N818 - what happened
    """A condition of the cluster did not come true in time; the message says which and what is there instead."""


class ClusterView:
    """Watches pods and nodes; use as an async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._connected: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "ClusterView":
        self._connected = await connect(str(self._kubeconfig))
        self.pods_store = Store(self._connected, resources.PODS)
        self.nodes_store = Store(self._connected, resources.NODES)
        for store in (self.pods_store, self.nodes_store):
            store.subscribe(lambda _: self._changed.set())
            self._tasks.append(asyncio.create_task(store.run()))
        await asyncio.gather(self.pods_store.wait_synced(), self.nodes_store.wait_synced())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._connected is not None:
            await self._connected.close()

    @property
    def client(self) -> Client:
        """The connection, while the view is open."""
        assert self._connected is not None
        return self._connected

    def pods(self, namespace: str) -> list[objects.Pod]:
        """The pods of a namespace by name."""
        found = [pod for pod in self.pods_store.values() if pod.metadata.namespace == namespace]
        return sorted(found, key=lambda pod: pod.metadata.name)

    def ready_pods(self, namespace: str) -> list[objects.Pod]:
        """Those that run and are ready."""
        return [pod for pod in self.pods(namespace) if is_ready(pod)]

    def offered(self, resource: str) -> int | None:
        """What the (only) node offers of an extended resource, whole units; None when it offers none."""
        for node in self.nodes_store.values():
            amount = node.status.allocatable.get(resource)
            if amount is not None:
                return quantity.value(amount)
        return None

    def batch_cpu_milli(self) -> int | None:
        """The node's batch-cpu."""
        return self.offered(names.BATCH_CPU)

    def batch_memory_bytes(self) -> int | None:
        """The node's batch-memory."""
        return self.offered(names.BATCH_MEMORY)

    async def wait_until(
        self, condition: Callable[[], bool], what: str, timeout_s: float, tell: Callable[[], str] = str
    ) -> None:
        """Return once the condition holds; it is looked at after every change.

        Raises NotInTime with `what` was awaited and what `tell` says then.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            state = tell()
            raise NotInTime(f"{what}: not within {timeout_s:g} s{': ' + state if state else ''}") from None

    async def wait_ready(self, namespace: str, count: int, timeout_s: float = 30.0) -> list[objects.Pod]:
        """The pods of a namespace once `count` of them are ready."""
        await self.wait_until(
            lambda: len(self.ready_pods(namespace)) >= count,
            f"{count} ready pods in namespace {namespace}",
            timeout_s,
            lambda: "; ".join(map(describe, self.pods(namespace))) or "there is none",
        )
        return self.ready_pods(namespace)


def is_ready(pod: objects.Pod) -> bool:
    """Running, with the Ready condition true."""
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    return pod.status.phase == "Running" and ready


def describe(pod: objects.Pod) -> str:
    """A pod's state in a few words."""
    told = [condition.message for condition in pod.status.conditions if condition.status == "False"]
    reasons = ", ".join(filter(None, told))
    state = pod.status.phase or "without a phase"
    return f"{pod.metadata.name} is {state}{' (' + reasons + ')' if reasons else ''}"


def as_result(pod: objects.Pod) -> Pod:
    """The pod as the report shows it; resources are those of its first container."""
    container = pod.spec.containers[0] if pod.spec.containers else objects.Container()
    return Pod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        qos=pod.metadata.labels.get(names.LABEL_QOS, ""),
        priority_class=pod.spec.priority_class_name,
        kube_qos=pod.status.qos_class,
        node=pod.spec.node_name,
        requests={name: str(amount) for name, amount in container.resources.requests.items()},
        limits={name: str(amount) for name, amount in container.resources.limits.items()},
    )
