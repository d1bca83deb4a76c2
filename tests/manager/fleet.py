"""What the tests of the manager's loops do to a cluster, with names of their own."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from koord.api.objects import Node
from koord.api.timestamps import format_rfc3339
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.resources import CONFIGMAPS, NODE_METRICS, NODES, PODS, Resource

DEADLINE_S = 15.0
CONFIG_NAMESPACE = "koordinator-system"


async def eventually(condition: Callable[[], Awaitable[Any]], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true answer of the condition. Fails the test when there is none in time."""
    last: Any = None
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        last = await condition()
        if last:
            return last
        await asyncio.sleep(0.03)
    pytest.fail(f"{what}: not within {deadline_s} s, last: {last!r}")


class Fleet:
    """What a test does to the cluster: nodes, reports, pods and configuration with names of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.config_name = f"config-{uuid.uuid4().hex[:8]}"
        self.nodes: list[str] = []
        self.pods: list[str] = []
        self.others: list[tuple[Resource[Any], str]] = []

    async def configure(self, **data: Any) -> None:
        """Write the ConfigMap; values that are no text are encoded."""
        texts = {
            key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
            for key, value in data.items()
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.config_name, "namespace": CONFIG_NAMESPACE},
            "data": texts,
        }
        try:
            await self.client.create(CONFIGMAPS, body)
        except AlreadyExists:
            await self.client.update(CONFIGMAPS, self.config_name, body, namespace=CONFIG_NAMESPACE)

    async def add_node(self, cpu: str = "32", memory: str = "64Gi", **metadata: Any) -> str:
        """A ready node without an agent; returns its name."""
        name = f"node-{uuid.uuid4().hex[:8]}"
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}
        await self.client.create(NODES, body)
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.client.patch(NODES, name, status, subresource="status")
        self.nodes.append(name)
        return name

    async def report(
        self,
        node: str,
        system: str = "1",
        pods: dict[str, str] | None = None,
        age_s: float = 0.0,
        reclaimable: dict[str, str] | None = None,
    ) -> None:
        """Write a NodeMetric status as the agent does: system cpu, cpu by pod name (default namespace)."""
        status = {
            "updateTime": format_rfc3339(time.time() - age_s),
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "2", "memory": "4Gi"}},
                "systemUsage": {"resources": {"cpu": system, "memory": "1Gi"}},
            },
            "podsMetric": [
                {
                    "namespace": "default",
                    "name": name,
                    "priority": "koord-prod",
                    "qos": "LS",
                    "podUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}},
                }
                for name, cpu in (pods or {}).items()
            ],
            "prodReclaimableMetric": {"resource": {"resources": reclaimable or {}}},
        }

        async def written() -> bool:
            try:
                await self.client.patch(NODE_METRICS, node, {"status": status}, subresource="status")
            except NotFound:
                return False
            return True

        await eventually(written, f"NodeMetric/{node} exists")

    async def bind_pod(self, node: str, cpu: str = "10", qos: str = "LS", resource: str = "cpu") -> str:
        """A production pod on the node; with qos BE and resource batch-cpu a batch one."""
        name = f"pod-{uuid.uuid4().hex[:8]}"
        amounts = {"requests": {resource: cpu}, **({"limits": {resource: cpu}} if "/" in resource else {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"koordinator.sh/qosClass": qos}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none", "resources": amounts}]},
        }
        await self.client.create(PODS, body)
        self.pods.append(name)
        return name

    async def create(self, resource: Resource[Any], name: str, **fields: Any) -> None:
        """Any other object that is to go with the test."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}
        await self.client.create(resource, body)
        self.others.append((resource, name))

    async def allocatable(self, name: str, resource: str) -> str | None:
        """What the node shows of a resource."""
        amount = (await self.node(name)).status.allocatable.get(resource)
        return None if amount is None else str(amount)

    async def wait_allocatable(self, name: str, resource: str, wanted: str | None) -> None:
        async def shown() -> bool:
            return await self.allocatable(name, resource) == wanted

        await eventually(shown, f"Node/{name} shows {resource} {wanted}")

    async def node(self, name: str) -> Node:
        return await self.client.get(NODES, name)

    async def batch_cpu(self, name: str) -> str | None:
        """The node's allocatable batch-cpu; capacity must say the same."""
        status = (await self.node(name)).status
        allocatable = status.allocatable.get("kubernetes.io/batch-cpu")
        if status.capacity.get("kubernetes.io/batch-cpu") != allocatable:
            return "capacity and allocatable differ"
        return None if allocatable is None else str(allocatable)

    async def wait_batch_cpu(self, name: str, wanted: str | None) -> None:
        async def shown() -> bool:
            return await self.batch_cpu(name) == wanted

        await eventually(shown, f"Node/{name} shows batch-cpu {wanted}")

    async def remove(self) -> None:
        """Delete what the test made."""
        for name in self.pods:
            await self._delete(PODS, name, "default", grace_period_s=0)
        for name in self.nodes:
            await self._delete(NODES, name)
        for resource, name in self.others:
            await self._delete(resource, name)
        for name in (self.config_name, f"{self.config_name}-last-good"):
            await self._delete(CONFIGMAPS, name, CONFIG_NAMESPACE)

    async def _delete(self, resource: Any, name: str, namespace: str = "", **options: Any) -> None:
        with suppress(NotFound):
            await self.client.delete(resource, name, namespace, **options)
