"""The binder at work on a real API server."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from koord.api.objects import Node
from koord.kube.events import EventRecorder
from koord.kube.requests import STRATEGIC_PATCH
from koord.kube.resources import NODES, raw
from koord.kube.store import Store
from sandbox.binder.loop import Binder
from sandbox.node import model

PODS = raw("", "v1", "pods", "Pod", True)
RAW_NODES = raw("", "v1", "nodes", "Node", False)


class Bound:
    """A cluster with a binder and what tests ask of it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def node(self, name: str, cpu: str, pods: str = "110") -> None:
        """A Ready node."""
        await self.client.create(RAW_NODES, {"metadata": {"name": name, "labels": {"host": name}}})
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": pods}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(
            RAW_NODES, name, {"status": status}, subresource="status", content_type=STRATEGIC_PATCH
        )

    async def pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """A pod that asks for CPU."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        await self.client.create(PODS, body, "default")

    def placed(self) -> dict[str, str]:
        """Pod to node, of those that are bound."""
        pods = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.cluster.pods()}
        return {name: node for name, node in pods.items() if node}

    def refusal(self, name: str) -> str:
        """Why a pod is Unschedulable; "" when it is not."""
        pod = self.cluster.read(PODS, name) or {}
        conditions = pod.get("status", {}).get("conditions", [])
        return next((item["message"] for item in conditions if item.get("reason") == "Unschedulable"), "")


@pytest.fixture
async def bound(small_cluster: Any) -> Bound:
    client = small_cluster.client
    pods, nodes = Store(client, model.PODS), Store[Node](client, NODES)
    events = EventRecorder(client, "default-scheduler", "test")
    for work in (pods.run(), nodes.run(), events.run(), Binder(client, pods, nodes, events).run()):
        small_cluster.background(work)
    await asyncio.gather(pods.wait_synced(), nodes.wait_synced())
    return Bound(small_cluster)


async def test_many_pods_at_once_fill_the_nodes_and_not_more(bound: Bound) -> None:
    await asyncio.gather(bound.node("a", "10"), bound.node("b", "10"))
    await asyncio.gather(*(bound.pod(f"p{number}") for number in range(25)))
    await bound.cluster.until(lambda: len(bound.placed()) == 20, "20 placed")
    waiting = [f"p{number}" for number in range(25) if f"p{number}" not in bound.placed()]
    message = "0/2 nodes are available: 2 Insufficient cpu."
    await bound.cluster.until(lambda: all(bound.refusal(name) == message for name in waiting), "5 refused")
    assert Counter(bound.placed().values()) == {"a": 10, "b": 10}
    for name in list(bound.placed())[:3]:
        await bound.client.delete(PODS, name, "default", grace_period_s=0)
    await bound.cluster.until(lambda: len(bound.placed()) == 20, "room used again")


async def test_what_belongs_to_another_scheduler_or_is_gated_is_left_alone(bound: Bound) -> None:
    await bound.node("a", "10")
    await bound.pod("other", schedulerName="another")
    await bound.pod("gated", schedulingGates=[{"name": "quota"}])
    await bound.pod("ours")
    await bound.cluster.until(lambda: "ours" in bound.placed(), "ours placed")
    assert set(bound.placed()) == {"ours"}
    patch = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    await bound.client.patch(PODS, "gated", patch, namespace="default", content_type="application/json-patch+json")
    await bound.cluster.until(lambda: "gated" in bound.placed(), "gate lifted")


async def test_pods_that_were_placed_by_somebody_else_count(bound: Bound) -> None:
    await bound.node("a", "3")
    await bound.pod("static", "2", nodeName="a")
    await bound.cluster.until(lambda: "static" in bound.placed(), "static")
    await bound.pod("large", "2")
    await bound.cluster.until(lambda: bound.refusal("large"), "refused")
    await bound.pod("small", "1")
    await bound.cluster.until(lambda: "small" in bound.placed(), "small placed")


async def test_a_new_node_and_an_uncordoned_one_are_used(bound: Bound) -> None:
    await bound.pod("p")
    await bound.cluster.until(lambda: bound.refusal("p") == "no nodes available to schedule pods", "no nodes")
    await bound.node("small", "500m")
    await bound.cluster.until(lambda: bound.refusal("p").endswith("1 Insufficient cpu."), "too small")
    await bound.client.patch(RAW_NODES, "small", {"spec": {"unschedulable": True}})
    await bound.cluster.until(lambda: "1 node(s) were unschedulable" in bound.refusal("p"), "cordoned")
    await bound.node("large", "4")
    await bound.cluster.until(lambda: bound.placed().get("p") == "large", "placed")


async def test_a_finished_pod_holds_nothing(bound: Bound) -> None:
    await bound.node("a", "1")
    await bound.pod("first")
    await bound.cluster.until(lambda: "first" in bound.placed(), "first placed")
    await bound.pod("second")
    await bound.cluster.until(lambda: bound.refusal("second"), "second waits")
    patch = {"status": {"phase": "Succeeded"}}
    await bound.client.patch(PODS, "first", patch, namespace="default", subresource="status")
    await bound.cluster.until(lambda: "second" in bound.placed(), "second placed")
