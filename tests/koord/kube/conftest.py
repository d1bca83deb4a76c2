"""A small API server over real HTTP(S) whose every misbehaviour can be scripted."""

from __future__ import annotations

import asyncio
import base64
import copy
import datetime
import ipaddress
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.store import Store

JsonObject = dict[str, Any]
Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Authority:
    """A throw-away CA, and what it signed, as PEM files."""

    directory: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.certificate = self._sign("test ca", self.key.public_key(), ca=True)
        self.ca_file = self._write("ca.crt", self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1, localhost and as client `name`; returns the files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), ca=False)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return (
            self._write(f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}.key", pem),
        )

    def server_context(self, *, require_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca_file))
        certificate, key = self.issue("server")
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED if require_client else ssl.CERT_OPTIONAL
        return context

    def _sign(self, name: str, public_key: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if ca else self.certificate.subject
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            names: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, pem: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(pem)
        return path


def status(code: int, reason: str, message: str = "", **details: Any) -> JsonObject:
    """A metav1.Status."""
    body: JsonObject = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return body | {"reason": reason, "message": message or reason, "details": details}


def failing(code: int, reason: str = "", headers: dict[str, str] | None = None, **details: Any) -> Fault:
    """A fault that answers with a Status."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(status(code, reason, **details), status=code, headers=headers)

    return answer


async def refuse(request: web.Request) -> web.StreamResponse:
    """A fault that drops the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Watcher:
    """One open watch, seen from the server."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self.request = request
        self.response = response
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.ending = False

    def send(self, kind: str, obj: JsonObject) -> None:
        self.queue.put_nowait(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        self.queue.put_nowait(data)

    def end(self) -> None:
        """End the stream in order."""
        self.ending = True
        self.queue.put_nowait(None)

    def abort(self) -> None:
        """Cut the connection."""
        if self.request.transport is not None:
            self.request.transport.abort()
        self.end()


class ScriptedServer:
    """Objects of any resource by path, with history; `list_faults`/`watch_faults`/`faults` are used up."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, JsonObject] = {}
        self.history: list[tuple[int, str, str, JsonObject]] = []
        self.oldest = 0
        self.list_faults: deque[Fault] = deque()
        self.watch_faults: deque[Fault] = deque()
        self.faults: deque[Fault] = deque()
        self.continue_is_gone = False
        self.gone_as_event = False
        self.silent_watches = False
        self.accepted: set[str] | None = None
        self.requests: list[web.Request] = []
        self.watchers: list[Watcher] = []
        self.uids = 0
        self.port = 0
        self.scheme = "http"
        self._runner: web.AppRunner | None = None

    async def start(self, context: ssl.SSLContext | None = None, port: int = 0) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.scheme = "https" if context else "http"

    async def stop(self) -> None:
        for watcher in self.watchers:
            watcher.abort()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    # State

    def put(self, path: str, **content: Any) -> JsonObject:
        """Create or change the object at `path` (/api/v1/namespaces/a/pods/x)."""
        name = path.rpartition("/")[2]
        old = self.objects.get(path)
        obj = copy.deepcopy(old) if old else {"metadata": {"name": name, "uid": self._new_uid()}}
        parts = path.split("/")
        if "namespaces" in parts:
            obj["metadata"]["namespace"] = parts[parts.index("namespaces") + 1]
        content = copy.deepcopy(content)
        obj["metadata"] |= content.pop("metadata", {})
        obj |= content
        return self._commit(path, "MODIFIED" if old else "ADDED", obj)

    def remove(self, path: str) -> None:
        self._commit(path, "DELETED", copy.deepcopy(self.objects.pop(path)))

    def compact(self) -> None:
        """Forget the history up to now."""
        self.oldest = self.version

    def snapshot(self) -> tuple[int, dict[str, JsonObject]]:
        return self.version, copy.deepcopy(self.objects)

    def restore(self, saved: tuple[int, dict[str, JsonObject]]) -> None:
        """Go back to a snapshot, as from a backup."""
        self.version, self.objects = saved[0], copy.deepcopy(saved[1])
        self.oldest = min(self.oldest, self.version)
        self.history = [entry for entry in self.history if entry[0] <= self.version]
        for watcher in self.watchers:
            watcher.abort()

    def collection(self, path: str) -> dict[str, JsonObject]:
        return {key: obj for key, obj in self.objects.items() if belongs(key, path)}

    def bookmark(self) -> None:
        for watcher in self.watchers:
            watcher.send("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def _new_uid(self) -> str:
        self.uids += 1
        return f"uid-{self.uids}"

    def _commit(self, path: str, kind: str, obj: JsonObject) -> JsonObject:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self.objects[path] = obj
        self.history.append((self.version, kind, path, copy.deepcopy(obj)))
        for watcher in self.watchers:
            if not self.silent_watches and belongs(path, watcher.request.path):
                watcher.send(kind, obj)
        return obj

    # Serving

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await request.read()
        if self.accepted is not None and request.headers.get("Authorization") not in self.accepted:
            return web.json_response(status(401, "Unauthorized"), status=401)
        watching = request.query.get("watch") in ("1", "true")
        is_object = request.path in self.objects or request.method != "GET"
        queue = self.watch_faults if watching else self.faults if is_object else self.list_faults
        if queue:
            return await queue.popleft()(request)
        if watching:
            return await self._watch(request)
        handler = {"GET": self._get, "POST": self._post, "PUT": self._put, "PATCH": self._patch}.get(
            request.method, self._delete
        )
        return await handler(request)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        if request.path.rpartition("/")[2] not in ("pods", "configmaps", "nodes", "events", "leases"):
            return web.json_response(status(404, "NotFound"), status=404)
        return self.list(request)

    def list(self, request: web.Request) -> web.StreamResponse:
        items = [obj for _, obj in sorted(self.collection(request.path).items())]
        start = int(request.query.get("continue", "0"))
        if start and self.continue_is_gone:
            return web.json_response(status(410, "Expired"), status=410)
        limit = int(request.query.get("limit", "0")) or len(items)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": meta, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest and not self.gone_as_event:
            return web.json_response(status(410, "Expired", "too old resource version"), status=410)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        watcher = Watcher(request, response)
        if since < self.oldest:
            watcher.send("ERROR", status(410, "Expired"))
            watcher.end()
        for version, kind, path, obj in self.history:
            if version > since and not self.silent_watches and belongs(path, request.path):
                watcher.send(kind, obj)
        self.watchers.append(watcher)
        timeout = asyncio.get_running_loop().call_later(
            float(request.query.get("timeoutSeconds", "600")), watcher.end
        )
        if self.silent_watches:
            timeout.cancel()
        try:
            while (data := await watcher.queue.get()) is not None:
                await response.write(data)
            await response.write_eof()
        except ConnectionResetError:
            pass
        finally:
            timeout.cancel()
            self.watchers.remove(watcher)
        return response

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.path.endswith("/eviction"):
            return await self._evict(request, body)
        path = f"{request.path}/{body['metadata']['name']}"
        if path in self.objects:
            return web.json_response(status(409, "AlreadyExists"), status=409)
        return web.json_response(self.put(path, **body), status=201)

    async def _evict(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        path = request.path.removesuffix("/eviction")
        if path not in self.objects:
            return web.json_response(status(404, "NotFound"), status=404)
        uid = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        if uid and uid != self.objects[path]["metadata"]["uid"]:
            return web.json_response(status(409, "Conflict", "uid differs"), status=409)
        self.remove(path)
        return web.json_response(status(201, "Created"), status=201)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        old = self.objects.get(request.path)
        if old is None:
            return web.json_response(status(404, "NotFound"), status=404)
        expected = body["metadata"].get("resourceVersion")
        if expected and expected != old["metadata"]["resourceVersion"]:
            return web.json_response(status(409, "Conflict"), status=409)
        return web.json_response(self.put(request.path, **body))

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return web.json_response(status(404, "NotFound"), status=404)
        return web.json_response(self.put(request.path, **await request.json()))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return web.json_response(status(404, "NotFound"), status=404)
        self.remove(request.path)
        return web.json_response(status(200, ""))


def belongs(path: str, collection: str) -> bool:
    """Whether the object at `path` is listed by `collection` (namespaced or not)."""
    prefix, _, plural = collection.rpartition("/")
    parent = path.rpartition("/")[0]
    return parent == collection or (
        "/namespaces/" not in collection
        and parent.startswith(f"{prefix}/namespaces/")
        and parent.endswith(f"/{plural}")
    )


@dataclass
class Kit:
    """What tests build with; handed out by the `kit` fixture since test modules cannot import it."""

    authority: Authority
    directory: Path

    new_server = staticmethod(ScriptedServer)
    failing = staticmethod(failing)
    refuse = staticmethod(refuse)
    status = staticmethod(status)

    def kubeconfig(
        self,
        server: str,
        user: JsonObject | None,
        *,
        name: str = "kubeconfig",
        cluster: JsonObject | None = None,
    ) -> str:
        """Write a kubeconfig; returns its path."""
        ca = base64.b64encode(self.authority.ca_file.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "tester"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": server, "certificate-authority-data": ca} | (cluster or {}),
                }
            ],
            "users": [] if user is None else [{"name": "tester", "user": user}],
        }
        path = self.directory / name
        path.write_text(yaml.safe_dump(content))
        return str(path)

    async def client(self, server: ScriptedServer, user: JsonObject | None = None) -> Client:
        return await connect(self.kubeconfig(server.url, user))

    @staticmethod
    async def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
        """Wait until `condition()` holds, or fail."""
        async with asyncio.timeout(timeout_s):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)

    @staticmethod
    async def until(store: Store[Any], condition: Callable[[], object], timeout_s: float = 10.0) -> None:
        """Wait for the store's changes until `condition()` holds, or fail."""
        changed = asyncio.Event()
        end = store.subscribe(lambda _change: changed.set())
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    changed.clear()
                    await changed.wait()
        finally:
            end()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def kit(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return Kit(authority, tmp_path)


@pytest.fixture
async def server(kit: Kit) -> AsyncIterator[ScriptedServer]:
    """The scripted server over TLS."""
    scripted = ScriptedServer()
    await scripted.start(kit.authority.server_context())
    yield scripted
    await scripted.stop()


@pytest.fixture
async def client(kit: Kit, server: ScriptedServer) -> AsyncIterator[Client]:
    async with await kit.client(server) as connected:
        yield connected


@pytest.fixture
async def background() -> AsyncIterator[Callable[[Awaitable[Any]], asyncio.Future[Any]]]:
    """Run awaitables beside the test; they are cancelled at its end, and their bugs fail it."""
    tasks: list[asyncio.Future[Any]] = []

    def start(awaitable: Awaitable[Any]) -> asyncio.Future[Any]:
        tasks.append(asyncio.ensure_future(awaitable))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
