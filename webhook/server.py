"""The TLS server: reviews in, answers out, whatever happens.

A fault of ours lets the pod through unchanged, with a warning that kubectl shows and a metric that alarms. What
is not an AdmissionReview gets an HTTP error, which failurePolicy Ignore also turns into "unchanged".
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from webhook import metrics
from webhook.decision import Decision, Reason, Verdict
from webhook.live import Live
from webhook.mutate import decide
from webhook.registration import POD_PATH
from webhook.review import CREATE, BadReview, Submission, decode_review, encode_answer, pod_reference

logger = logging.getLogger("koord.webhook.pods")

BODY_LIMIT_BYTES = 7 * 1024 * 1024
# The API server gives up after 5 s (see registration.TIMEOUT_S); a body that takes this long never comes.
READ_LIMIT_S = 3.0
# Longer than the API server keeps idle connections, so that it is the one to close them: a server that closes
# first may do so just as a review is on its way.
KEEPALIVE_S = 300.0
STOP_LIMIT_S = 10.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves on one address. Certificates come with `context` and may be replaced while serving."""

    def __init__(self, live: Live, context: ssl.SSLContext, stopping: asyncio.Event) -> None:
        """`stopping`: once set, answers ask the client to open its next connection elsewhere."""
        self._live = live
        self._context = context
        self._stopping = stopping
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen; `port` 0 takes a free one, see `self.port`. Raises OSError."""
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.router.add_post(POD_PATH, self._mutate_pod)
        app.router.add_get("/healthz", _healthz)
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEEPALIVE_S, shutdown_timeout=STOP_LIMIT_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, address, port, ssl_context=self._context, backlog=1024).start()
        self.port = self._runner.addresses[0][1]
        logger.info("serving", extra={"address": address, "port": self.port})

    async def stop(self) -> None:
        """Accept nothing new, let running calls finish (at most STOP_LIMIT_S)."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _mutate_pod(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        started = time.perf_counter()
        try:
            submission = decode_review(body)
        except (BadReview, RecursionError) as error:
            return self._answer(web.Response(status=400, text=str(error)))
        if submission.request.operation == CREATE:
            await self._live.learn_namespace(submission.request.namespace)
        decision = self._decide(submission)
        answer = encode_answer(submission, decision)
        elapsed_s = time.perf_counter() - started
        metrics.SECONDS.observe(elapsed_s)
        metrics.BY_REASON[decision.reason].inc()
        for outcome in decision.profiles:
            metrics.BY_VERDICT[outcome.verdict].inc()
        if decision.reason is not Reason.UNCHANGED:
            _log(submission, decision, elapsed_s)
        return self._answer(web.Response(body=answer, content_type="application/json"))

    async def _read(self, request: web.Request) -> bytes:
        if request.content_type != "application/json":
            self._count(415)
            raise web.HTTPUnsupportedMediaType(text=f"expected application/json, got {request.content_type}")
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            self._count(413)
            raise
        except TimeoutError:
            self._count(408)
            raise web.HTTPRequestTimeout(text=f"the body took longer than {READ_LIMIT_S} s") from None

    def _decide(self, submission: Submission) -> Decision:
        try:
            return decide(submission, self._live.context)
        except Exception:
            # The HTTP edge: an admission must never fail for a fault of this program.
            logger.exception("decision failed", extra={"pod": pod_reference(submission)})
            warning = "koord left the pod unchanged because of an internal error"
            return Decision(True, Reason.INTERNAL_ERROR, warnings=(warning,))

    def _answer(self, response: web.Response) -> web.Response:
        self._count(response.status)
        if self._stopping.is_set():
            response.force_close()
        return response

    def _count(self, status: int) -> None:
        metrics.BY_STATUS[status].inc()


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response()


_QUIET = frozenset(
    {Reason.UNCHANGED, Reason.NOT_A_POD, Reason.OTHER_OPERATION, Reason.EXCLUDED_NAMESPACE, Reason.STATIC_POD}
)


def _log(submission: Submission, decision: Decision, elapsed_s: float) -> None:
    """One line for every pod that was changed, refused or not understood."""
    if decision.reason in _QUIET:
        return
    request = submission.request
    applied = [outcome.name for outcome in decision.profiles if outcome.verdict is Verdict.APPLIED]
    overridden = [
        f"{outcome.name}: {change.key} was {change.before!r}"
        for outcome in decision.profiles
        for change in outcome.changes
        if change.before is not None
    ]
    translation = decision.translation
    fields = {
        "pod": pod_reference(submission),
        "uid": request.uid,
        "reason": decision.reason,
        "profiles": applied,
        "overridden": overridden,
        "resources": translation.reason if translation is not None else None,
        "band": translation.band if translation is not None else None,
        "operations": len(decision.operations),
        "warnings": decision.warnings,
        "dry_run": bool(request.dry_run),
        "us": round(elapsed_s * 1e6),
    }
    if decision.allowed:
        logger.info("pod admitted", extra=fields)
    else:
        logger.warning("pod refused: %s", decision.message, extra=fields)
