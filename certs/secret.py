"""Certificate material in a Secret, shared by all replicas of a webhook.

Whoever comes first makes it; everybody else reads what is there. Every write is guarded by the resourceVersion that
was read, so of two replicas that renew at once one wins and the other takes over its certificates. What does not read
(empty, half written, expired, of other hosts) is made anew; a Secret with somebody else's data is never touched.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from certs.authority import KeyPair
from certs.files import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    SERVING_CERTIFICATE,
    SERVING_KEY,
    FileStore,
)
from certs.material import DEFAULT_LIFETIMES, Judgement, Lifetimes, Material, renew
from koord.api.errors import InvalidInput
from koord.api.objects import JsonObject
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, Conflict, NotFound
from koord.kube.resources import raw

SECRETS: Final = raw("", "v1", "secrets", "Secret", True)
_KEYS: Final = (AUTHORITY_CERTIFICATE, AUTHORITY_KEY, SERVING_CERTIFICATE, SERVING_KEY)
_CERT_MANAGER: Final = "cert-manager.io/"
_ATTEMPTS: Final = 10


class SecretStore:
    """One Secret, and a private directory from which TLS loads what it holds."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        directory: Path,
        lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._files = FileStore(directory)
        self._lifetimes = lifetimes

    @property
    def serving_certificate(self) -> Path:
        """Path of the certificate to serve."""
        return self._files.serving_certificate

    @property
    def serving_key(self) -> Path:
        """Path of the key to serve with."""
        return self._files.serving_key

    async def ensure(self, hosts: Sequence[str], now: datetime) -> tuple[Material, Judgement]:
        """What all replicas serve: read, or made and written when it is due. Second: what was wrong before.

        Raises InvalidInput for a Secret of somebody else, ApiError, OSError.
        """
        for attempt in range(_ATTEMPTS):
            try:
                material, before = await self._read_or_renew(hosts, now)
                break
            except (AlreadyExists, Conflict):
                # Another replica was first: what it wrote is what to serve.
                if attempt == _ATTEMPTS - 1:
                    raise
        await asyncio.to_thread(self._keep, material)
        return material, before

    async def _read_or_renew(self, hosts: Sequence[str], now: datetime) -> tuple[Material, Judgement]:
        try:
            secret: JsonObject | None = await self._client.get(SECRETS, self._name, self._namespace)
        except NotFound:
            secret = None
        found = None
        if secret is not None:
            refuse_foreign(secret)
            found = read_material(secret)
        material, before = renew(found, hosts, now, self._lifetimes)
        if material is not found:
            await self._write(secret, material)
        return material, before

    async def _write(self, secret: JsonObject | None, material: Material) -> None:
        data = {
            AUTHORITY_CERTIFICATE: material.authority.certificate_pem,
            AUTHORITY_KEY: material.authority.key_pem,
            SERVING_CERTIFICATE: material.serving.certificate_pem,
            SERVING_KEY: material.serving.key_pem,
        }
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if secret is None:
            metadata = {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/name": "koord"},
            }
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
            await self._client.create(SECRETS, body, self._namespace)
        else:
            guard = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            patch = {"metadata": guard, "data": encoded}
            await self._client.patch(SECRETS, self._name, patch, namespace=self._namespace)

    def _keep(self, material: Material) -> None:
        if self._files.load() != material:
            self._files.save(material)


def read_material(secret: JsonObject) -> Material | None:
    """The material of a Secret, unjudged; None when a part is missing or is no base64."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[key], validate=True) for key in _KEYS]
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return Material(KeyPair(parts[0], parts[1]), KeyPair(parts[2], parts[3]))


def refuse_foreign(secret: JsonObject) -> None:
    """Raises InvalidInput when the Secret is cert-manager's, or holds data that no webhook of ours writes."""
    metadata = secret.get("metadata") or {}
    reference = f"Secret/{metadata.get('namespace')}/{metadata.get('name')}"
    managed = sorted(key for key in metadata.get("annotations") or {} if key.startswith(_CERT_MANAGER))
    if managed:
        allowed = "a Secret that nobody else manages; mount this one and use --cert-mode mounted, or name another"
        raise InvalidInput(reference, "metadata.annotations", managed[0], allowed)
    others = sorted(set(secret.get("data") or {}) - set(_KEYS))
    if others:
        allowed = f"only {', '.join(_KEYS)}: name a Secret of its own with --cert-secret"
        raise InvalidInput(reference, "data", ", ".join(others), allowed)
