"""What a new sandbox cluster holds: namespaces with their service accounts, Koord's CRDs and priority classes."""

import asyncio
from collections.abc import Iterable
from typing import Any

from koord import crds
from koord.api.names import CONFIG_NAMESPACE
from koord.api.objects import JsonObject
from koord.api.priority import BANDS
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PRIORITY_CLASSES, Resource, raw

SERVICE_ACCOUNTS = raw("", "v1", "serviceaccounts", "ServiceAccount", True)
CLUSTER_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", CONFIG_NAMESPACE)


def namespaces() -> list[JsonObject]:
    """The namespaces that exist from the start."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in CLUSTER_NAMESPACES]


def priority_classes() -> list[JsonObject]:
    """Koordinator's priority classes, each at the lower bound of its band."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": str(band)},
            "value": bounds.lowest,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for band, bounds in BANDS.items()
    ]


def service_accounts() -> list[JsonObject]:
    """The account that pods get when they name none, in each namespace."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
        for namespace in CLUSTER_NAMESPACES
    ]


async def install(client: Client) -> None:
    """Create everything, leaving what exists as it is. Raises ApiError."""
    await _create_all(client, NAMESPACES, namespaces())
    await asyncio.gather(
        _create_all(client, CUSTOM_RESOURCE_DEFINITIONS, crds.load()),
        _create_all(client, PRIORITY_CLASSES, priority_classes()),
        _create_all(client, SERVICE_ACCOUNTS, service_accounts()),
    )


async def _create_all(client: Client, resource: Resource[Any], documents: Iterable[JsonObject]) -> None:
    for document in documents:
        try:
            await client.create(resource, document, document["metadata"].get("namespace", ""))
        except AlreadyExists:
            continue
