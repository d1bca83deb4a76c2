"""All lifecycle loops of a sandbox cluster, as one thing to run."""

import asyncio

from koord.kube.client import Client
from sandbox.apiserver.kinds import KindRegistry
from sandbox.apiserver.storage import Storage
from sandbox.lifecycle.disruption import DisruptionLoop
from sandbox.lifecycle.garbage import GarbageCollector
from sandbox.lifecycle.namespaces import NamespaceLoop
from sandbox.lifecycle.pod_gc import NODE_GONE_GRACE_S, PodCollector


class LifecycleLoops:
    """Garbage collection, namespace deletion, budgets' status, pod clean-up.

    They watch `storage` in the process and write through `client` like anybody else. Start them once
    the API server listens.
    """

    def __init__(
        self, client: Client, storage: Storage, kinds: KindRegistry, *, node_gone_grace_s: float = NODE_GONE_GRACE_S
    ) -> None:
        self._loops = (
            GarbageCollector(client, storage, kinds),
            NamespaceLoop(client, storage, kinds),
            DisruptionLoop(client, storage),
            PodCollector(client, storage, node_gone_grace_s=node_gone_grace_s),
        )

    async def run(self) -> None:
        """Work for ever; returns by cancellation only."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.run(), name=type(loop).__name__)
