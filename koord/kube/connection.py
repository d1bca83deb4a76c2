"""The way to one API server: address, TLS, credentials, and keeping them fresh.

Where they come from is `koord.kube.access`; here they are held, and renewed when a
token file changes, a plugin's credential runs out or the server answers 401.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiohttp
from multidict import CIMultiDict

from koord.kube.access import Access, AccessError, load_access
from koord.kube.client import Client

logger = logging.getLogger("koord.kube.connection")

EXPIRY_MARGIN_S: Final = 60.0
"""A credential is renewed this long before it runs out."""

RELOAD_INTERVAL_S: Final = 5.0
"""Credentials are read again at most this often, however many requests fail."""

LoadAccess = Callable[[], Awaitable[Access]]


class Connection:
    """Holds the HTTP session and the credentials. Use from one event loop only."""

    def __init__(self, access: Access, load: LoadAccess, user_agent: str) -> None:
        self._access = access
        self._load = load
        self._user_agent = user_agent
        self._token = _TokenFile(access.token_file) if access.token_file else None
        self._session = self._open_session()
        self._retired: aiohttp.ClientSession | None = None
        self._reloading = asyncio.Lock()
        self._reloaded_at = float("-inf")

    @property
    def server(self) -> str:
        """The server's address, without a slash at the end."""
        return self._access.server

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session to use for the next request; do not keep it."""
        return self._session

    @property
    def server_hostname(self) -> str | None:
        """The name to expect in the server's certificate, when it is not the address."""
        return self._access.server_hostname

    @property
    def proxy(self) -> str | None:
        """The HTTP proxy to go through, if any."""
        return self._access.proxy

    async def authorize(self) -> CIMultiDict[str]:
        """The headers that say who we are, as fresh as they can be had."""
        expires_at = self._access.expires_at
        if expires_at is not None and time.time() > expires_at - EXPIRY_MARGIN_S:
            await self._reload()
        headers = CIMultiDict(self._access.headers)
        authorization = self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers

    async def renew(self, rejected: str) -> bool:
        """Read the credentials again after a 401 to the Authorization value `rejected`.

        Returns whether there is something new to try.
        """
        if self._token is not None:
            self._token.forget()
        if self._authorization() != rejected:
            return True
        before = self._access
        await self._reload()
        return self._access is not before and (self._authorization() != rejected or self._access.tls_differs(before))

    async def renew_trust(self) -> bool:
        """Read the CA again after the server's certificate was not accepted."""
        before = self._access
        await self._reload()
        return self._access.tls_differs(before)

    async def close(self) -> None:
        """Close the connections."""
        if self._retired is not None:
            await self._retired.close()
        await self._session.close()

    def _authorization(self) -> str:
        if self._token is not None:
            token = self._token.read()
            if token:
                return f"Bearer {token}"
        return self._access.authorization

    async def _reload(self) -> None:
        asked_at = time.monotonic()
        async with self._reloading:
            if asked_at < self._reloaded_at or time.monotonic() - self._reloaded_at < RELOAD_INTERVAL_S:
                return
            try:
                fresh = await self._load()
            except AccessError as error:
                logger.warning("credentials cannot be read again, keeping the old ones: %s", error)
            else:
                await self._adopt(fresh)
            self._reloaded_at = time.monotonic()

    async def _adopt(self, fresh: Access) -> None:
        old, self._access = self._access, fresh
        if fresh.token_file != old.token_file:
            self._token = _TokenFile(fresh.token_file) if fresh.token_file else None
        if not fresh.tls_differs(old):
            return
        # Requests in flight finish on the session they began with, so the one
        # before it is closed only now.
        if self._retired is not None:
            await self._retired.close()
        self._retired = self._session
        self._session = self._open_session()

    def _open_session(self) -> aiohttp.ClientSession:
        context = self._access.ssl_context
        connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compression costs both sides more CPU than a cluster's network costs time.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )


class _TokenFile:
    """A bearer token in a file that somebody else replaces (a service account's)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""

    def read(self) -> str:
        """The token; the last good one when the file cannot be read just now."""
        try:
            # follows the symlink that the kubelet swaps
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                token = self._path.read_text().strip()
                if token:
                    self._token = token
                    self._stamp = stamp
        except OSError as error:
            logger.warning("token file %s cannot be read: %s", self._path, error)
        return self._token

    def forget(self) -> None:
        """Read the file at the next call, whatever its time stamp says."""
        self._stamp = None


async def connect(kubeconfig: str | None = None, context: str | None = None, *, user_agent: str = "koord") -> Client:
    """Connect to the API server. No request is made yet.

    With `kubeconfig` (or `context`), by that file; else by the service account when
    running in a pod; else by $KUBECONFIG or ~/.kube/config. `user_agent` is also the
    field manager of writes. Raises AccessError when none of these can be used.
    """

    async def load() -> Access:
        return await load_access(kubeconfig, context)

    return Client(Connection(await load(), load, user_agent), field_manager=user_agent.partition("/")[0])
