"""Connections that cost more than they bring: silent ones, ones that never finish their headers, and too many.

aiohttp times idle connections out only after their first request. Here every connection has to bring a request's
headers within a limit of its opening, and again of the first byte of each later request. A connection beyond the cap
is closed at once: the API server opens a few, and tries again elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from webhook import metrics

HEADER_LIMIT_S: Final = 5.0
HANDSHAKE_LIMIT_S: Final = 5.0
MOST_CONNECTIONS: Final = 2_000
_SWEEP_S: Final = 1.0


class GuardedHandler(web.RequestHandler):
    """One connection. `waiting_since`: loop time since which headers are awaited; None while none are due."""

    __slots__ = ("_guard", "_is_busy", "waiting_since")

    def __init__(self, guard: GuardedServer, **options: Any) -> None:
        super().__init__(guard, loop=asyncio.get_running_loop(), **options)
        self._guard = guard
        self._is_busy = False
        self.waiting_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, or turn it away."""
        super().connection_made(transport)
        self.waiting_since = self._loop.time()
        if not self._guard.admit(self):
            self.force_close()
            assert isinstance(transport, asyncio.Transport)
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget it."""
        self._guard.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The first byte of a request starts its clock; `begin` stops it."""
        if self.waiting_since is None and not self._is_busy:
            self.waiting_since = self._loop.time()
        super().data_received(data)

    def begin(self) -> None:
        """The headers of a request are complete."""
        self.waiting_since = None
        self._is_busy = True

    def finish(self) -> None:
        """Its answer is made."""
        self._is_busy = False

    def abort(self) -> None:
        """Close it without a word."""
        if self.transport is not None:
            self.transport.abort()


class GuardedServer(web.Server):
    """aiohttp's server, with the limits above. Use from one event loop only."""

    def __init__(self, handler: Any, *, most_connections: int = MOST_CONNECTIONS, **options: Any) -> None:
        request_factory = options.pop("request_factory", None)
        super().__init__(handler, request_factory=request_factory, **options)
        self._options = options
        self._most_connections = most_connections
        self._handlers: set[GuardedHandler] = set()

    def __call__(self) -> web.RequestHandler:
        """A new connection's handler."""
        return GuardedHandler(self, **self._options)

    def admit(self, handler: GuardedHandler) -> bool:
        """Whether there is room for one more."""
        if len(self._handlers) >= self._most_connections:
            metrics.CONNECTIONS_CLOSED.labels("too-many").inc()
            return False
        self._handlers.add(handler)
        return True

    def forget(self, handler: GuardedHandler) -> None:
        """The connection has ended."""
        self._handlers.discard(handler)

    async def sweep(self) -> None:
        """For ever: close connections whose headers do not come."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            oldest = loop.time() - HEADER_LIMIT_S
            for handler in [one for one in self._handlers if (one.waiting_since or oldest) < oldest]:
                metrics.CONNECTIONS_CLOSED.labels("no-headers").inc()
                handler.abort()
