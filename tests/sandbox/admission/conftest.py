"""Admission over a bare store, and real HTTPS webhooks with real certificates."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from certs.authority import issue_authority, issue_serving
from sandbox.admission.chain import AdmissionChain
from sandbox.admission.request import AdmissionRequest, Admitted
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.storage import GroupResource, Storage

JsonObject = dict[str, Any]
HOOKS = "admissionregistration.k8s.io"
Answer = Callable[[JsonObject], JsonObject]


def kind(group: str, plural: str) -> Kind:
    """A built-in kind."""
    return next(known for known in builtin_kinds() if (known.group, known.plural) == (group, plural))


@dataclass
class Bench:
    """A chain and the store that it reads."""

    storage: Storage
    chain: AdmissionChain

    def put(self, group: str, plural: str, obj: JsonObject) -> None:
        """Store an object as it is."""
        self.storage.create(GroupResource(group, plural), obj)

    def namespace(self, name: str, **labels: str) -> None:
        """Store a namespace."""
        labels = {"kubernetes.io/metadata.name": name, **labels}
        self.put("", "namespaces", {"metadata": {"name": name, "labels": labels}})

    async def create(self, group: str, plural: str, obj: JsonObject, **options: Any) -> Admitted:
        """Admit a creation."""
        return await self._admit("CREATE", group, plural, obj, None, **options)

    async def update(self, group: str, plural: str, obj: JsonObject, old: JsonObject, **options: Any) -> Admitted:
        """Admit an update."""
        return await self._admit("UPDATE", group, plural, obj, old, **options)

    async def delete(self, group: str, plural: str, old: JsonObject, **options: Any) -> Admitted:
        """Admit a deletion."""
        return await self._admit("DELETE", group, plural, None, old, **options)

    async def _admit(
        self, operation: str, group: str, plural: str, obj: JsonObject | None, old: JsonObject | None, **options: Any
    ) -> Admitted:
        metadata = (obj or old or {})["metadata"]
        options = {"kind": kind(group, plural), **options} if plural else options
        request = AdmissionRequest(
            operation=operation,
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            object=obj,
            old_object=old,
            user={"username": "tester", "groups": ["system:authenticated"]},
            **options,
        )
        return await self.chain.admit(request)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A chain over a store with namespace default."""
    storage = Storage()
    bench = Bench(storage, AdmissionChain(storage))
    bench.namespace("default")
    yield bench
    await bench.chain.close()


@dataclass
class HookServer:
    """An HTTPS server whose paths are webhooks. `reviews` holds every request it got, by path."""

    port: int
    ca_bundle: str
    answers: dict[str, Answer] = field(default_factory=dict)
    reviews: dict[str, list[JsonObject]] = field(default_factory=dict)
    delays_s: dict[str, float] = field(default_factory=dict)

    def answer(self, path: str, answer: Answer) -> None:
        """What to say to requests at a path: from the AdmissionReview's request to its response."""
        self.answers[path] = answer
        self.reviews[path] = []

    def url(self, path: str) -> str:
        """Where a path is."""
        return f"https://127.0.0.1:{self.port}{path}"

    def hook(self, path: str, name: str = "", **fields: Any) -> JsonObject:
        """A webhook entry for pods that leads here."""
        return {
            "name": name or f"{path.strip('/')}.example.com",
            "clientConfig": {"url": self.url(path), "caBundle": self.ca_bundle},
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "scope": "*",
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            **fields,
        }

    async def serve(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.setdefault(request.path, []).append({**review, "query": dict(request.query)})
        await asyncio.sleep(self.delays_s.get(request.path, 0.0))
        response = self.answers[request.path](review["request"])
        if "raw" in response:
            return web.Response(status=response.get("http", 200), text=response["raw"])
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], **response},
        }
        return web.json_response(body)


def patch(*operations: JsonObject, **more: Any) -> JsonObject:
    """An allowing response with a JSON Patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **more}


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[HookServer]:
    """A running server; its certificate is for 127.0.0.1 and guard.koord.svc."""
    now = datetime.now(UTC)
    authority = issue_authority(now)
    serving = issue_serving(authority, ["127.0.0.1", "guard.koord.svc"], now)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(serving.certificate_pem)
    key.write_bytes(serving.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HookServer(0, base64.b64encode(authority.certificate_pem).decode())
    application = web.Application()
    application.router.add_post("/{path:.*}", server.serve)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


@pytest.fixture
def make_patch() -> Callable[..., JsonObject]:
    """`patch`, for test modules, which cannot import each other."""
    return patch


@pytest.fixture
def make_pod() -> Callable[..., JsonObject]:
    """A small valid pod; keywords replace spec fields."""

    def make(name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
        spec = {"containers": [{"name": "c", "image": "x:1"}], **spec}
        metadata: JsonObject = {"name": name, "namespace": "default"}
        if labels:
            metadata["labels"] = labels
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    return make


@pytest.fixture(scope="session")
def thing_schema() -> JsonObject:
    """The openAPIV3Schema that the tables of custom objects are about."""
    schema: JsonObject = json.loads((Path(__file__).parent / "thing_schema.json").read_text())
    return schema
