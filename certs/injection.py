"""Make the API server trust our CA: write caBundle into the entries that are ours, and nothing else.

`trust_operations` is the pure decision, `trust` the shell around it. Entries are found by name and guarded by a
`test` on it, since a JSON patch addresses them by their place in a list that others may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from certs.bundle import merge_bundle, trusts
from koord.api.objects import JsonObject
from koord.kube.client import Client
from koord.kube.errors import Conflict, Invalid
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import Resource

_ATTEMPTS = 5


def trust_operations(
    configuration: JsonObject, names: Collection[str], authority_pem: bytes, now: datetime
) -> list[JsonObject]:
    """The JSON patch that makes every webhook of `names` in a webhook configuration trust the authority.

    Empty when they all do. Authorities that are trusted already stay until they expire: replicas that still
    serve a certificate of the old CA must not be cut off.
    """
    operations: list[JsonObject] = []
    for place, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook.get("name") not in names:
            continue
        current = (webhook.get("clientConfig") or {}).get("caBundle") or ""
        wanted = merge_bundle(current, authority_pem, now)
        if wanted != current:
            operations.append({"op": "test", "path": f"/webhooks/{place}/name", "value": webhook["name"]})
            path = f"/webhooks/{place}/clientConfig/caBundle"
            operations.append({"op": "add", "path": path, "value": wanted})
    return operations


def is_trusted(configuration: JsonObject, names: Collection[str], authority_pem: bytes) -> bool:
    """Whether every webhook of `names` exists in the configuration and trusts the authority."""
    bundles = {
        webhook.get("name"): (webhook.get("clientConfig") or {}).get("caBundle") or ""
        for webhook in configuration.get("webhooks") or ()
    }
    return all(name in bundles and trusts(bundles[name], authority_pem) for name in names)


async def trust(
    client: Client,
    resource: Resource[Any],
    configuration_name: str,
    names: Collection[str],
    authority_pem: bytes,
    now: datetime,
) -> bool:
    """Write what `trust_operations` decides; True when something was written.

    A lost race is retried on the fresh object. Raises NotFound when the configuration does not exist, other
    ApiErrors as they come, Conflict or Invalid when the race is lost too often.
    """
    for attempt in range(_ATTEMPTS):
        configuration = await client.get(resource, configuration_name)
        operations = trust_operations(configuration, names, authority_pem, now)
        if not operations:
            return False
        try:
            await client.patch(resource, configuration_name, operations, content_type=JSON_PATCH)
        except (Conflict, Invalid):
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("the last attempt returns or raises")
