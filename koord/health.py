"""What the kubelet and Prometheus ask: /healthz, /readyz and /metrics."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web
from prometheus_client import REGISTRY, Gauge
from prometheus_client.exposition import choose_encoder

logger = logging.getLogger("koord.health")

Check = Callable[[], bool | str]
"""True when all is well; False, or the reason, when it is not."""

BUILD_INFO = Gauge("koord_build_info", "Always 1; says what runs.", ["component", "version"])


class HealthServer:
    """Serves checks that others add. Answers come from the event loop, so they vouch for it too."""

    def __init__(self, component: str, address: str | None, port: int) -> None:
        """`address` None is every address, IPv4 and IPv6; `port` 0 any free one, -1 no server."""
        self._component = component
        self._address = address
        self.port = port
        """The port that is served; the one asked for until `start`."""
        self._liveness: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None

    def add_liveness(self, name: str, check: Check) -> None:
        """Make /healthz depend on `check`."""
        self._liveness[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """Make /readyz depend on `check`."""
        self._readiness[name] = check

    async def start(self) -> None:
        """Begin to serve. Raises OSError when the port cannot be had."""
        BUILD_INFO.labels(self._component, _version()).set(1)
        if self.port < 0:
            return
        app = web.Application()
        app.router.add_get("/healthz", self._serve_health)
        app.router.add_get("/readyz", self._serve_readiness)
        app.router.add_get("/metrics", _serve_metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        listener = _listen(self._address, self.port)
        self.port = listener.getsockname()[1]
        await web.SockSite(self._runner, listener).start()
        logger.info("health and metrics are served", extra={"port": self.port})

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve_health(self, _request: web.Request) -> web.Response:
        return _answer(self._liveness)

    async def _serve_readiness(self, _request: web.Request) -> web.Response:
        return _answer(self._readiness)


def _answer(checks: Mapping[str, Check]) -> web.Response:
    results = {name: _evaluate(name, check) for name, check in checks.items()}
    well = all(result == "ok" for result in results.values())
    return web.json_response({"ok": well, "checks": results}, status=200 if well else 503)


def _evaluate(name: str, check: Check) -> str:
    try:
        result = check()
    except Exception as error:
        logger.exception("health check %s failed", name)
        return f"check failed: {type(error).__name__}"
    if result is True:
        return "ok"
    return result or "not ok"


async def _serve_metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})


def _listen(address: str | None, port: int) -> socket.socket:
    if address is not None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family)
    if socket.has_dualstack_ipv6():
        # A kernel can know IPv6 and yet have no address of it.
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _version() -> str:
    try:
        return version("koord")
    except PackageNotFoundError:
        return "unknown"
