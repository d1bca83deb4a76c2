"""One API server, as typed calls: read, list, write, evict, watch.

Nothing is retried here but what is always right to retry: once after the credentials
or the CA were read again. When to try again after any other failure is the caller's
business, who gets an `ApiError` that says what kind of failure it was.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp

from koord.kube import requests
from koord.kube.codec import Codec, codec_for
from koord.kube.errors import ApiError, Unavailable, error_from_response
from koord.kube.listing import Page, list_all
from koord.kube.metrics import REQUESTS
from koord.kube.requests import JSON, MERGE_PATCH, PatchType, Query, Request
from koord.kube.resources import PODS, Resource

if TYPE_CHECKING:
    from types import TracebackType

    from koord.kube.connection import Connection

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 30.0
"""For requests that read or write one object, admission webhooks included."""


class Client:
    """Sends requests over a connection. Use from one event loop only."""

    def __init__(self, connection: Connection, *, field_manager: str = "koord") -> None:
        self._connection = connection
        self._field_manager = field_manager

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._connection.server

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object. Raises NotFound, Undecodable."""
        return self._decode(resource, await self.send(requests.build_get(resource, name, namespace)))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Page[T]:
        """Read a whole collection, `limit` objects a request (0: all in one)."""
        request = requests.build_list(resource, namespace, label_selector, field_selector)
        return await list_all(self.send, codec_for(resource), request, limit=limit)

    async def create(
        self, resource: Resource[T], body: dict[str, Any], namespace: str = "", dry_run: bool = False
    ) -> T:
        """Create an object; returns it as stored. Raises AlreadyExists, Invalid, Forbidden."""
        request = requests.build_create(resource, body, namespace, field_manager=self._field_manager, dry_run=dry_run)
        return self._decode(resource, await self.send(request))

    async def update(
        self,
        resource: Resource[T],
        name: str,
        body: dict[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Replace an object. Raises Conflict when `body` holds an older resourceVersion."""
        request = requests.build_update(
            resource,
            name,
            body,
            namespace,
            subresource=subresource,
            field_manager=self._field_manager,
            dry_run=dry_run,
        )
        return self._decode(resource, await self.send(request))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        *,
        namespace: str = "",
        subresource: str = "",
        content_type: PatchType = MERGE_PATCH,
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Patch an object; a failed JSON Patch `test` raises Invalid, a race Conflict."""
        request = requests.build_patch(
            resource,
            name,
            body,
            namespace,
            subresource=subresource,
            content_type=content_type,
            field_manager=self._field_manager,
            force=force,
            dry_run=dry_run,
        )
        return self._decode(resource, await self.send(request))

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        grace_period_s: int | None = None,
        uid: str = "",
        propagation: str = "",
        dry_run: bool = False,
    ) -> None:
        """Delete an object. Raises NotFound, and Conflict when it has another uid."""
        await self.send(
            requests.build_delete(
                resource,
                name,
                namespace,
                grace_period_s=grace_period_s,
                uid=uid,
                propagation=propagation,
                dry_run=dry_run,
            )
        )

    async def evict(self, name: str, namespace: str, uid: str = "", dry_run: bool = False) -> None:
        """Ask the Eviction API to remove a pod, which disruption budgets may refuse.

        Raises TooManyRequests (a budget or overload says not now), NotFound (it is
        gone already), Conflict (the name belongs to a pod with another uid).
        """
        await self.send(requests.build_eviction(PODS, name, namespace, uid=uid, dry_run=dry_run))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Send anything to `path` below the server's root; returns the body."""
        return await self.send(Request(method, path, query, body, content_type), timeout_s=timeout_s)

    async def send(self, request: Request, *, timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
        """Send a request and return the body of its answer, or raise an ApiError."""
        async with _translated(request), asyncio.timeout(timeout_s):
            response = await self._exchange(request)
            async with response:
                return await response.read()

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's bytes as they come, until the server ends it.

        Raises Unavailable when it has not ended by itself after `timeout_s`.
        """
        async with _translated(request), asyncio.timeout(timeout_s):
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                response = await self._exchange(request)
            try:
                _keep_alive(response)
                yield response.content.iter_any()
            finally:
                # A watch that was left early has an endless body: drop the connection.
                response.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _decode(self, resource: Resource[T], body: bytes) -> T:
        codec: Codec[T] = codec_for(resource)
        return codec.decode_object(body)

    async def _exchange(self, request: Request) -> aiohttp.ClientResponse:
        try:
            response, authorization = await self._send_once(request)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._connection.renew_trust():
                raise
            response, authorization = await self._send_once(request)
        if response.status == 401 and await self._connection.renew(authorization):
            response.release()
            response, _ = await self._send_once(request)
        # Redirects are no answer either: following one would hand our token to whoever sent it.
        if response.status >= 300:
            raise await _error_of(response, request)
        return response

    async def _send_once(self, request: Request) -> tuple[aiohttp.ClientResponse, str]:
        connection = self._connection
        headers = await connection.authorize()
        headers["Accept"] = JSON
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        response = await connection.session.request(
            request.method,
            connection.server + request.path,
            params=request.query,
            data=request.body,
            headers=headers,
            allow_redirects=False,
            server_hostname=connection.server_hostname,
            proxy=connection.proxy,
        )
        REQUESTS.labels(request.method, str(response.status)).inc()
        return response, headers.get("Authorization", "")


async def _error_of(response: aiohttp.ClientResponse, request: Request) -> ApiError:
    async with response:
        body = await response.read()
    return error_from_response(
        response.status, body, retry_after=response.headers.get("Retry-After"), request=str(request)
    )


@asynccontextmanager
async def _translated(request: Request) -> AsyncIterator[None]:
    """Turn whatever the transport raises into Unavailable."""
    try:
        yield
    except TimeoutError as error:
        raise Unavailable(0, "Timeout", "no answer in time", request=str(request)) from error
    except (aiohttp.ClientError, OSError) as error:
        REQUESTS.labels(request.method, "0").inc()
        message = f"{type(error).__name__}: {error}"
        raise Unavailable(0, "ConnectionFailed", message, request=str(request)) from error


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel find out within a minute that the peer of a silent stream is gone."""
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
