"""A serving certificate that somebody else keeps fresh (cert-manager, a mounted Secret): only watched, never made.

Who makes it also makes the API server trust it; the webhook configurations are then the chart's.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from cryptography import x509

from certs.files import SERVING_CERTIFICATE, SERVING_KEY
from koord.kube.store import Store
from webhook import metrics
from webhook.registrar import server_tls_context

logger = logging.getLogger("koord.webhook.registration")

CHECK_INTERVAL_S = 10.0


class MountedCertificate:
    """Serves `tls.crt` and `tls.key` of a directory, and takes up new ones without a restart."""

    def __init__(self, directory: Path, check_interval_s: float = CHECK_INTERVAL_S) -> None:
        self._certificate, self._key = directory / SERVING_CERTIFICATE, directory / SERVING_KEY
        self._check_interval_s = check_interval_s
        self._served: tuple[bytes, bytes] | None = None
        self._problem = "no certificate is loaded"
        self.context = server_tls_context()
        self.stores: list[Store[Any]] = []

    async def prepare(self) -> None:
        """Load the certificate. Raises OSError, ssl.SSLError, ValueError."""
        self._load()

    async def run(self) -> None:
        """For ever: take up what changes; what does not load leaves the last good one in service."""
        while True:
            await asyncio.sleep(self._check_interval_s)
            try:
                self._load()
            except (OSError, ValueError) as error:
                metrics.FAILURES.labels("certificate").inc()
                self._problem = f"{self._certificate}: {error}"
                logger.warning("the mounted certificate does not load", extra={"error": str(error)})

    def check(self) -> bool | str:
        """Readiness: something is served."""
        return True if self._served is not None else self._problem

    def _load(self) -> None:
        found = self._certificate.read_bytes(), self._key.read_bytes()
        if found == self._served:
            return
        certificate = x509.load_pem_x509_certificate(found[0])
        self.context.load_cert_chain(self._certificate, self._key)
        self._served = found
        metrics.CERTIFICATE_EXPIRY.set(certificate.not_valid_after_utc.timestamp())
        logger.info("serving a mounted certificate", extra={"until": certificate.not_valid_after_utc.isoformat()})
