"""All workload controllers, as one thing to run against an API server."""

import asyncio

from koord.kube.client import Client
from koord.kube.events import EventRecorder
from sandbox.controllers.daemonset import DaemonSetController
from sandbox.controllers.deployment import DeploymentController
from sandbox.controllers.informers import Informers
from sandbox.controllers.job import JobController
from sandbox.controllers.replicaset import ReplicaSetController
from sandbox.controllers.statefulset import StatefulSetController


class WorkloadControllers:
    """Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs over shared watches.

    They know nothing of the sandbox: any API server will do. CronJobs are objects only.
    """

    def __init__(self, client: Client) -> None:
        self._informers = Informers(client)
        self._events = EventRecorder(client, "workload-controllers", "sandbox")
        self._controllers = (
            DeploymentController(client, self._informers, self._events),
            ReplicaSetController(client, self._informers, self._events),
            StatefulSetController(client, self._informers, self._events),
            DaemonSetController(client, self._informers, self._events),
            JobController(client, self._informers, self._events),
        )

    async def run(self) -> None:
        """Work for ever; returns by cancellation only."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers")
            group.create_task(self._events.run(), name="events")
            for controller in self._controllers:
                group.create_task(controller.run(), name=type(controller).__name__)

    async def wait_ready(self) -> None:
        """Return once every collection is known, so that changes are acted on at once."""
        await self._informers.wait_synced()
