"""Calling webhooks over HTTPS, and the record of those calls.

A failed call raises CallFailed, whatever the cause: no route, TLS, timeout, HTTP status, a broken
answer. The chain decides by failurePolicy what that means for the request.
"""

import asyncio
import base64
import binascii
import ssl
import time
import uuid
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from sandbox.admission.hooks import Hook
from sandbox.admission.request import AdmissionRequest
from sandbox.admission.review import API_VERSION, InvalidAnswer, Verdict, build_review, read_verdict
from sandbox.admission.services import ServiceDirectory

_MAX_ANSWER_BYTES: Final = 16 << 20
_KEPT_LATENCIES: Final = 10_000


class CallFailed(Exception):  # noqa: N818 - named by what happened
    """No usable answer came back; the text says why, in the API server's words."""


@dataclass
class HookRecord:
    """What happened in the calls of one hook since the start.

    outcomes: how often a call was "allowed", "patched", "denied" or "failed". latencies_s: seconds of
    the latest calls that brought an answer, oldest first.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_LATENCIES))

    def quantile_s(self, share: float) -> float | None:
        """The latency at a share from 0 to 1 of the kept calls; None without calls."""
        ordered = sorted(self.latencies_s)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


@dataclass(frozen=True)
class _Target:
    url: str
    server_name: str | None


class WebhookCaller:
    """One HTTP session to all webhooks, with a TLS context for each CA bundle.

    `records` holds a HookRecord by (configuration, hook name).
    """

    def __init__(self, services: ServiceDirectory) -> None:
        self._services = services
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.records: dict[tuple[str, str], HookRecord] = {}

    async def close(self) -> None:
        """Close idle connections. The caller can be used again afterwards."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, hook: Hook, request: AdmissionRequest, *, mutating: bool) -> Verdict:
        """Send one review and judge the answer. Raises CallFailed, or StatusError for a garbled patch."""
        record = self.records.setdefault(hook.identity, HookRecord())
        started = time.perf_counter()
        try:
            verdict = await self._call(hook, request, mutating)
        except CallFailed:
            record.outcomes["failed"] += 1
            raise
        record.latencies_s.append(time.perf_counter() - started)
        outcome = "denied" if not verdict.allowed else "patched" if verdict.patch else "allowed"
        record.outcomes[outcome] += 1
        return verdict

    async def _call(self, hook: Hook, request: AdmissionRequest, mutating: bool) -> Verdict:
        if "v1" not in hook.review_versions:
            raise CallFailed(f"webhook does not accept {API_VERSION} AdmissionReview")
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(build_review(request, uid))
        target = self._target(hook)
        url = f"{target.url}{'&' if '?' in target.url else '?'}timeout={hook.timeout_s}s"
        try:
            context = self._context(hook.ca_bundle)
            async with asyncio.timeout(hook.timeout_s):
                answer = await self._post(url, body, context, target.server_name)
        except TimeoutError as error:
            raise CallFailed(f'failed to call webhook: Post "{url}": context deadline exceeded') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f'failed to call webhook: Post "{url}": {error}') from error
        try:
            return read_verdict(answer, uid, mutating=mutating)
        except InvalidAnswer as error:
            raise CallFailed(f"received invalid webhook response: {error}") from error

    def _target(self, hook: Hook) -> _Target:
        service = hook.service
        if service is None:
            return _Target(hook.url, None)
        address = self._services.find(service.namespace, service.name)
        if address is None:
            url = f"https://{service.host}:{service.port}{service.path}"
            raise CallFailed(f'failed to call webhook: Post "{url}": service "{service.name}" not found')
        host, port = address
        return _Target(f"https://{host}:{port}{service.path}", service.host)

    def _context(self, ca_bundle: str) -> ssl.SSLContext:
        """Verify against the bundle, or against the system's CAs when there is none."""
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                pem = base64.b64decode(ca_bundle, validate=True).decode("ascii")
            except (binascii.Error, UnicodeDecodeError) as error:
                raise ValueError(f"unable to load root certificates: {error}") from error
            context = ssl.create_default_context(cadata=pem or None)
            self._contexts[ca_bundle] = context
        return context

    async def _post(self, url: str, body: bytes, context: ssl.SSLContext, server_name: str | None) -> Any:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        async with self._session.post(
            url, data=body, headers=headers, ssl=context, server_hostname=server_name, allow_redirects=False
        ) as response:
            content = await response.content.read(_MAX_ANSWER_BYTES)
            if response.status != 200:
                text = content[:200].decode("utf-8", "replace").strip()
                raise ValueError(f"the server answered {response.status}: {text}")
            return msgspec.json.decode(content)
