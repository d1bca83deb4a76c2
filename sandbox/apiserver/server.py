"""The API server: composes storage, kinds, admission and the REST surface behind one HTTPS port."""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from sandbox.apiserver import bodies, discovery, negotiation, openapi, paths, responses, seeds, status
from sandbox.apiserver.authentication import Authenticator
from sandbox.apiserver.calls import ADMIN, User
from sandbox.apiserver.crds import DefinitionKeeper
from sandbox.apiserver.kinds import KindRegistry
from sandbox.apiserver.pod_actions import EvictionRule, LogProvider
from sandbox.apiserver.rest import Rest
from sandbox.apiserver.storage import Storage
from sandbox.apiserver.watching import BOOKMARK_INTERVAL_S
from sandbox.apiserver.wire import swagger
from sandbox.apiserver.writing import Admission, Desk

__all__ = ["ADMIN", "ApiServer", "LogProvider", "User"]

JsonObject = dict[str, Any]

log = logging.getLogger("koord.sandbox.apiserver")

VERSION: JsonObject = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+koord-sandbox",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
SHUTDOWN_GRACE_S = 2.0
_HEALTH_PATHS = ("/healthz", "/readyz", "/livez")
_OPENAPI_V2_TYPES = ("application/json", *swagger.ASKED_AS)


class ApiServer:
    """Serves `storage` over HTTPS.

    admission: an object with `async admit(AdmissionRequest) -> Admitted`. tokens: bearer token to User; client
    certificates are accepted when the ssl_context verifies them (name from CN, groups from O). logs: the provider
    for pods/log, None answers 404. evict: the decision of the eviction subresource
    (`sandbox.lifecycle.eviction.evict`), None answers 404. clock: epoch seconds.
    randomness: uids and generated names. bookmark_interval_s: how often a silent watch is told the version.
    """

    def __init__(
        self,
        storage: Storage,
        kinds: KindRegistry,
        admission: Admission,
        *,
        tokens: Mapping[str, User] | None = None,
        logs: LogProvider | None = None,
        evict: EvictionRule | None = None,
        clock: Callable[[], float] = time.time,
        randomness: random.Random | None = None,
        bookmark_interval_s: float = BOOKMARK_INTERVAL_S,
    ) -> None:
        self.storage = storage
        self.kinds = kinds
        self._authenticator = Authenticator(tokens or {})
        self._desk = Desk(storage, kinds, admission, clock=clock, randomness=randomness or random.SystemRandom())
        self._rest = Rest(
            self._desk,
            logs=logs,
            eviction=evict,
            lookup=self._authenticator.by_token,
            bookmark_interval_s=bookmark_interval_s,
        )
        self._openapi = openapi.OpenApi(kinds, self._desk.types)
        self._runner: web.AppRunner | None = None
        self._address = ""
        seeds.plant(storage, kinds, self._desk.new_uid, self._desk.now())
        DefinitionKeeper(storage, kinds, self._desk.now).start()

    async def start(self, host: str = "127.0.0.1", port: int = 0, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listen and return the port (any free one for 0). Plain HTTP without a context, for tests."""
        application = web.Application(client_max_size=bodies.MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_GRACE_S
        )
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=ssl_context)
        await site.start()
        self._runner = runner
        bound = int(runner.addresses[0][1])
        self._address = f"{host}:{bound}"
        return bound

    async def stop(self) -> None:
        """End watches, close the listener. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for site in list(runner.sites):
                await site.stop()
            self._rest.stop_watches()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._route(request)
        except status.StatusError as error:
            return responses.of_error(error)
        except web.HTTPException as error:
            reason = "RequestEntityTooLarge" if error.status == 413 else ""
            return responses.of_error(status.StatusError(error.status, reason, error.reason))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("request failed: %s %s", request.method, request.path)
            return responses.of_error(status.internal_error(f"{type(error).__name__}: {error}"))

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        if path.startswith(_HEALTH_PATHS):
            return _health(request)
        if path == "/version":
            return responses.of_document(VERSION)
        user = self._authenticator.user_of(request)
        if path in ("/api", "/apis"):
            return self._discover(request, core=path == "/api")
        if path == "/":
            return responses.of_document({"paths": self._known_paths()})
        if path.startswith("/openapi"):
            return self._describe(request, path)
        target = paths.parse(path)
        if target is not None and target.plural:
            return await self._rest.handle(request, user, target)
        return self._list_resources(path, target)

    def _discover(self, request: web.Request, *, core: bool) -> web.Response:
        version = discovery.aggregated_version(negotiation.media_ranges(request.headers.get("Accept", "")))
        if version:
            body = discovery.aggregated(self.kinds, version, core=core)
            return responses.of_document(body, media_type=discovery.content_type(version))
        if core:
            return responses.of_document(discovery.legacy_versions(self._address))
        return responses.of_document(discovery.group_list(self.kinds))

    def _list_resources(self, path: str, target: paths.Target | None) -> web.Response:
        found: JsonObject | None = None
        parts = path.strip("/").split("/")
        if target is not None:
            found = discovery.resource_list(self.kinds, target.group, target.version)
        elif len(parts) == 2 and parts[0] == "apis":
            found = discovery.group(self.kinds, parts[1])
        if found is None:
            raise status.unknown_path()
        return responses.of_document(found)

    def _describe(self, request: web.Request, path: str) -> web.Response:
        if path == "/openapi/v2":
            chosen = negotiation.choose(request.headers.get("Accept", ""), _OPENAPI_V2_TYPES)
            if not chosen:
                raise status.not_acceptable(_OPENAPI_V2_TYPES)
            if chosen in swagger.ASKED_AS:
                return responses.of_json(openapi.swagger_protobuf(), content_type=swagger.MEDIA_TYPE)
            return responses.of_document(openapi.swagger())
        if path == "/openapi/v3":
            return responses.of_document(self._openapi.root())
        target = paths.parse(path.removeprefix("/openapi/v3"))
        found = self._openapi.document(target.group, target.version) if target and not target.plural else None
        if found is None:
            raise status.unknown_path()
        return responses.of_document(found)

    def _known_paths(self) -> list[str]:
        groups = self.kinds.group_versions()
        versions = [f"/apis/{group}/{name}" for group in groups if group for name in groups[group]]
        named = [f"/apis/{group}" for group in groups if group]
        return sorted(
            ["/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/version", *_HEALTH_PATHS, *versions, *named]
        )


def _health(request: web.Request) -> web.Response:
    if "verbose" in request.query:
        check = request.path.strip("/").partition("/")[0]
        return web.Response(text=f"[+]ping ok\n{check} check passed\n")
    return web.Response(text="ok")
