"""Keep the certificate fresh and the API server's trust in it complete; the shell around `registration`.

Order in a rotation: publish the new authority beside the old, then serve what it signed. Whatever fails, the
certificate that is trusted goes on being served, and the next round tries again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from certs.authority import expiry
from certs.material import Judgement, Material
from koord.api.objects import JsonObject
from koord.kube.backoff import Backoff
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from koord.kube.requests import JSON_PATCH
from koord.kube.store import Store
from webhook import metrics
from webhook.registration import Configuration, Target, build_configuration, registration_operations

logger = logging.getLogger("koord.webhook.registration")

CHECK_INTERVAL_S = 60.0
SETTLE_S = 5.0
_ATTEMPTS = 5


class MaterialSource(Protocol):
    """Where certificates come from, and the files to load them from."""

    @property
    def serving_certificate(self) -> Path: ...

    @property
    def serving_key(self) -> Path: ...

    async def ensure(self, hosts: Sequence[str], now: datetime) -> tuple[Material, Judgement]:
        """What to serve now, and what was wrong before."""
        ...


class Registrar:
    """Owns the certificates, the TLS context that serves from it, and our webhook configuration."""

    def __init__(
        self,
        client: Client,
        source: MaterialSource,
        hosts: Sequence[str],
        target: Target,
        configurations: Sequence[Configuration],
        watched: Sequence[Store[JsonObject]] = (),
        *,
        settle_s: float = SETTLE_S,
        check_interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        """`watched`: more objects whose change wakes it. `settle_s`: from a new authority being in the configurations
        to the first certificate of it being served, while API servers take the change in."""
        self._client = client
        self._source = source
        self._hosts = tuple(hosts)
        self._target = target
        self._configurations = tuple(configurations)
        self._served: Material | None = None
        self._settle_s = settle_s
        self._check_interval_s = check_interval_s
        self._wake = asyncio.Event()
        self._registered = False
        self._problem = "the first registration is not done"
        self.context = server_tls_context()
        """For the server's listener; certificates loaded into it later serve new connections."""
        self.stores: list[Store[JsonObject]] = [
            Store(client, one.resource, field_selector=f"metadata.name={one.name}") for one in self._configurations
        ]
        """The configurations, watched so that an overwritten bundle is restored within seconds."""
        self.stores += watched
        for store in self.stores:
            store.subscribe(self._on_change)

    async def prepare(self) -> None:
        """Have something to serve: read, make or renew the certificate. Raises OSError, ssl.SSLError."""
        material = await self._ensure()
        self._serve(material)

    async def run(self) -> None:
        """For ever: renew what is due, register, serve."""
        backoff = Backoff()
        while True:
            self._wake.clear()
            try:
                await self._round()
                backoff.reset()
                delay = self._check_interval_s
            except ApiError as error:
                delay = self._note_failure("registration", error, backoff)
            except (OSError, ValueError) as error:
                delay = self._note_failure("certificate", error, backoff)
            try:
                await asyncio.wait_for(self._wake.wait(), delay)
            except TimeoutError:
                continue

    def check(self) -> bool | str:
        """Readiness: registered once and serving since."""
        return True if self._registered else self._problem

    async def _round(self) -> None:
        material = await self._ensure()
        await self._register(material.authority.certificate_pem)
        if material != self._served:
            if self._served is not None and material.authority != self._served.authority:
                await asyncio.sleep(self._settle_s)
            self._serve(material)
        if not self._registered:
            logger.info(
                "the API server calls this webhook", extra={"target": self._target.url or self._target.service}
            )
        self._registered = True
        metrics.REGISTERED.set(1)

    async def _ensure(self) -> Material:
        now = datetime.now(UTC)
        material, before = await self._source.ensure(self._hosts, now)
        if before.needs_renewal:
            logger.info("new serving certificate", extra={"because": before.problem, "detail": before.detail})
        return material

    def _serve(self, material: Material) -> None:
        self.context.load_cert_chain(self._source.serving_certificate, self._source.serving_key)
        self._served = material
        metrics.CERTIFICATE_EXPIRY.set(expiry(material.serving).timestamp())

    async def _register(self, authority_pem: bytes) -> None:
        for configuration in self._configurations:
            await self._register_in(configuration, authority_pem)

    async def _register_in(self, configuration: Configuration, authority_pem: bytes) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                if not await self._write(configuration, authority_pem):
                    return
            except (AlreadyExists, Conflict, Invalid, NotFound):
                # Somebody else wrote in between; look again.
                if attempt == _ATTEMPTS - 1:
                    raise

    async def _write(self, wanted: Configuration, authority_pem: bytes) -> bool:
        """Write what is missing; False when nothing is, which is what the next read must confirm."""
        now, resource = datetime.now(UTC), wanted.resource
        try:
            found = await self._client.get(resource, wanted.name)
        except NotFound:
            await self._client.create(resource, build_configuration(wanted, self._target, authority_pem, now))
            return True
        operations = registration_operations(found, wanted, self._target, authority_pem, now)
        if not operations:
            return False
        await self._client.patch(resource, wanted.name, operations, content_type=JSON_PATCH)
        paths = [operation["path"] for operation in operations]
        logger.info("webhook configuration updated", extra={"configuration": wanted.name, "paths": paths})
        return True

    def _on_change(self, _change: Change[JsonObject]) -> None:
        self._wake.set()

    def _note_failure(self, loop: str, error: Exception, backoff: Backoff) -> float:
        metrics.FAILURES.labels(loop).inc()
        delay = min(backoff.next_delay(), CHECK_INTERVAL_S)
        self._problem = f"{loop}: {type(error).__name__}: {error}"
        logger.warning("%s failed", loop, extra={"error": str(error), "retry_s": round(delay, 1)})
        return delay


def server_tls_context() -> ssl.SSLContext:
    """TLS 1.2 and up, HTTP/1.1; it has no certificate yet."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
