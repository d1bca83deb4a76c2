"""A node as the API server sees it: its object, its Ready condition, its lease."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from koord.api.names import LABEL_HOSTNAME
from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339, format_rfc3339_micro
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.requests import STRATEGIC_PATCH
from koord.kube.resources import LEASES, NODES
from sandbox.node.machine import Machine

log = logging.getLogger("koord.sandbox.node")

LEASE_NAMESPACE = "kube-node-lease"
RENEW_INTERVAL_S = 10.0
RENEWALS_PER_SECOND = 4.0
"""More nodes than this allows at the usual interval renew less often, and their leases last longer."""
STATUS_INTERVAL_S = 300.0
CONCURRENT_REGISTRATIONS = 16
MAX_PODS = 110
VERSION = "v1.37.0-sandbox"

CONDITION_CGROUPS = "sandbox.koord/Cgroups"
"""On the real node: whether its pods are confined by cgroups; the message says why not."""


@dataclass(frozen=True)
class NodeDescription:
    """What a node says of itself. capacity is its allocatable as well, but for what others add (batch-cpu)."""

    name: str
    address: str
    capacity: Mapping[str, str]
    info: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: Sequence[JsonObject] = ()


def describe_machine(machine: Machine) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and nodeInfo of a real machine."""
    capacity = {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory_bytes // 1024}Ki",
        "pods": str(MAX_PODS),
    }
    return capacity, {
        "machineID": machine.machine_id,
        "systemUUID": machine.machine_id,
        "bootID": machine.boot_id,
        "kernelVersion": machine.kernel_version,
        "osImage": machine.os_image,
        "operatingSystem": "linux",
        "architecture": machine.architecture,
        "containerRuntimeVersion": "sandbox://1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
    }


def node_document(node: NodeDescription) -> JsonObject:
    """The Node to create."""
    labels = {
        LABEL_HOSTNAME: node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.info.get("architecture", ""),
    }
    metadata = {"name": node.name, "labels": labels, "annotations": dict(node.annotations)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def status_document(node: NodeDescription, since: float, now: float) -> JsonObject:
    """The part of the status that the node owns, as a strategic merge patch. Times are epoch seconds."""
    calm = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": message} for kind, reason, message in calm
    ]
    conditions.append(
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    )
    conditions.extend(node.conditions)
    times = {"lastHeartbeatTime": format_rfc3339(now), "lastTransitionTime": format_rfc3339(since)}
    return {
        "capacity": dict(node.capacity),
        "allocatable": dict(node.capacity),
        "addresses": [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": dict(node.info),
        "conditions": [{**condition, **times} for condition in conditions],
    }


class NodeKeeper:
    """Registers nodes and keeps their leases and heartbeats fresh. `now`: the clock, epoch seconds."""

    def __init__(self, client: Client, nodes: Sequence[NodeDescription], now: Callable[[], float]) -> None:
        self._client = client
        self._nodes = list(nodes)
        self._now = now
        self._since = now()
        self._uids: dict[str, str] = {}
        self.renew_interval_s = max(RENEW_INTERVAL_S, len(nodes) / RENEWALS_PER_SECOND)

    async def register(self) -> None:
        """Create the nodes with their status and lease, or take over those of an earlier life. Raises ApiError."""
        slots = asyncio.Semaphore(CONCURRENT_REGISTRATIONS)

        async def register_in_turn(node: NodeDescription) -> None:
            async with slots:
                await self._register(node)

        await asyncio.gather(*(register_in_turn(node) for node in self._nodes))

    async def run(self) -> None:
        """Renew for ever, the nodes spread evenly over each interval. A node that was deleted is given up."""
        reported_at = self._now()
        while True:
            report = self._now() - reported_at >= STATUS_INTERVAL_S
            reported_at = self._now() if report else reported_at
            for node in tuple(self._nodes):
                await asyncio.sleep(self.renew_interval_s / len(self._nodes))
                try:
                    await self._beat(node, report)
                except ApiError as error:
                    log.warning("a node's heartbeat failed", extra={"node": node.name, "error": str(error)})
            if not self._nodes:
                await asyncio.Event().wait()

    async def _register(self, node: NodeDescription) -> None:
        document = node_document(node)
        try:
            created = await self._client.create(NODES, document)
        except AlreadyExists:
            patch = {"metadata": {key: document["metadata"][key] for key in ("labels", "annotations")}}
            created = await self._client.patch(NODES, node.name, patch)
        self._uids[node.name] = created.metadata.uid
        await self._write_status(node)
        if not await self._renew(node):
            await self._create_lease(node)

    async def _beat(self, node: NodeDescription, report: bool) -> None:
        if not await self._renew(node):
            try:
                current = await self._client.get(NODES, node.name)
            except NotFound:
                log.warning("a node was deleted and is given up", extra={"node": node.name})
                self._nodes.remove(node)
                return
            self._uids[node.name] = current.metadata.uid
            await self._create_lease(node)
        if report:
            await self._write_status(node)

    async def _write_status(self, node: NodeDescription) -> None:
        body = {"status": status_document(node, self._since, self._now())}
        await self._client.patch(NODES, node.name, body, subresource="status", content_type=STRATEGIC_PATCH)

    async def _renew(self, node: NodeDescription) -> bool:
        """Renew the lease; False when there is none."""
        try:
            patch = {"spec": self._lease_spec(node)}
            await self._client.patch(LEASES, node.name, patch, namespace=LEASE_NAMESPACE)
        except NotFound:
            return False
        return True

    async def _create_lease(self, node: NodeDescription) -> None:
        """The lease belongs to the node and goes with it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": self._uids[node.name]}
        metadata = {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
        await self._client.create(LEASES, {**lease, "spec": self._lease_spec(node)}, LEASE_NAMESPACE)

    def _lease_spec(self, node: NodeDescription) -> JsonObject:
        return {
            "holderIdentity": node.name,
            "leaseDurationSeconds": int(4 * self.renew_interval_s),
            "renewTime": format_rfc3339_micro(self._now()),
        }
