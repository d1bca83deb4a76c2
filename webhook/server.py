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

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from webhook import metrics
from webhook.connections import HANDSHAKE_LIMIT_S, GuardedHandler, GuardedServer
from webhook.decision import Decision, Reason
from webhook.draws import stable_draw
from webhook.judging import Judges
from webhook.live import Live
from webhook.mutate import decide
from webhook.recording import Recorder
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

_JSON = {"Content-Type": "application/json"}


class Server:
    """Serves on one address. Certificates come with `context` and may be replaced while serving.

    Built on aiohttp's low-level server: two fixed paths need no router, which costs as much as a decision.
    """

    def __init__(
        self,
        live: Live,
        judges: Judges,
        context: ssl.SSLContext,
        stopping: asyncio.Event,
        *,
        draw_per_request: bool = False,
    ) -> None:
        """`stopping`: once set, answers ask the client to open its next connection elsewhere.

        draw_per_request: draw anew for every review instead of once for each workload.
        """
        self._draw_per_request = draw_per_request
        self._live = live
        self._judges = judges.by_path
        self._context = context
        self._stopping = stopping
        self._recorder = Recorder()
        self._runner: web.ServerRunner | None = None
        self._listener: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen; `port` 0 takes a free one, see `self.port`. Raises OSError."""
        server = GuardedServer(
            self._handle, request_factory=_make_request, access_log=None, keepalive_timeout=KEEPALIVE_S
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_LIMIT_S)
        await self._runner.setup()
        self._sweeping = asyncio.create_task(server.sweep(), name="connections")
        self._listener = await asyncio.get_running_loop().create_server(
            server, address, port, ssl=self._context, backlog=1024, ssl_handshake_timeout=HANDSHAKE_LIMIT_S
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        logger.info("serving", extra={"address": address, "port": self.port})

    async def stop(self) -> None:
        """Accept nothing new, let running calls finish (at most STOP_LIMIT_S)."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._recorder.flush()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        connection = request.protocol
        assert isinstance(connection, GuardedHandler)
        connection.begin()
        try:
            return await self._answer(request)
        finally:
            connection.finish()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path == POD_PATH and request.method == "POST":
            response = await self._mutate_pod(request)
            metrics.BY_STATUS[response.status].inc()
        elif request.path in self._judges and request.method == "POST":
            response = await self._judge(request, self._judges[request.path])
            metrics.BY_STATUS[response.status].inc()
        elif request.path == "/healthz" and request.method == "GET":
            response = web.Response()
        else:
            response = web.Response(
                status=404, text=f"allowed: POST {', '.join((POD_PATH, *self._judges))}; GET /healthz"
            )
        if self._stopping.is_set():
            response.force_close()
        return response

    async def _mutate_pod(self, request: web.BaseRequest) -> web.Response:
        try:
            body = await _read(request)
            started = time.perf_counter()
            submission = decode_review(body)
        except _HttpError as fault:
            return web.Response(status=fault.status, text=str(fault))
        except (BadReview, RecursionError) as error:
            return web.Response(status=400, text=str(error))
        if submission.request.operation == CREATE:
            await self._live.learn_namespace(submission.request.namespace)
        decision = self._decide(submission)
        answer = encode_answer(submission, decision)
        self._recorder.note(submission, decision, len(answer), time.perf_counter() - started)
        return web.Response(body=answer, headers=_JSON)

    async def _judge(self, request: web.BaseRequest, judge: Callable[[bytes], Awaitable[bytes]]) -> web.Response:
        try:
            answer = await judge(await _read(request))
        except _HttpError as fault:
            return web.Response(status=fault.status, text=str(fault))
        except (BadReview, RecursionError) as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=answer, headers=_JSON)

    def _decide(self, submission: Submission) -> Decision:
        draw = stable_draw(submission.request.uid) if self._draw_per_request else None
        try:
            return decide(submission, self._live.context, draw)
        except Exception:
            # The HTTP edge: an admission must never fail for a fault of this program.
            logger.exception("decision failed", extra={"pod": pod_reference(submission)})
            warning = "koord left the pod unchanged because of an internal error"
            return Decision(True, Reason.INTERNAL_ERROR, warnings=(warning,))


class _HttpError(Exception):
    """The request is not even a body to look at."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def _read(request: web.BaseRequest) -> bytes:
    """The body. Raises _HttpError when it is not JSON by its header, too large or too slow."""
    if request.headers.get("Content-Type") != "application/json" and request.content_type != "application/json":
        raise _HttpError(415, f"expected application/json, got {request.content_type}")
    try:
        # A body that came with its head, as nearly all do, needs neither clock nor loop.
        if request.content.is_eof():
            body = request.content.read_nowait()
            if len(body) > BODY_LIMIT_BYTES:
                raise web.HTTPRequestEntityTooLarge(BODY_LIMIT_BYTES)
            return body
        async with asyncio.timeout(READ_LIMIT_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _HttpError(413, f"the body is larger than {BODY_LIMIT_BYTES} bytes") from error
    except TimeoutError as error:
        raise _HttpError(408, f"the body took longer than {READ_LIMIT_S} s") from error


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT_BYTES)
