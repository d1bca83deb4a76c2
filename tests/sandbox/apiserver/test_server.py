"""The server over real HTTP(S): what a foreign API server cannot be brought to show."""

import asyncio
import io
import json
import random
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sandbox import kubeconfig
from sandbox.admission.chain import AdmissionChain
from sandbox.admission.request import AdmissionRequest, Admitted, Complete
from sandbox.apiserver import status
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.server import ADMIN, ApiServer, User
from sandbox.apiserver.storage import GroupResource, Storage

JsonObject = dict[str, Any]
KUBECTL = Path(__file__).resolve().parents[3] / ".venv/bin/kubectl"
TOKEN = "let-me-in"
MERGE = {"Content-Type": "application/merge-patch+json"}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


class Cluster:
    """A server in this process and a session that talks to it."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession, address: str) -> None:
        self.server = server
        self.storage = server.storage
        self.session = session
        self.address = address

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Status and decoded body."""
        async with self.session.request(method, self.address + path, json=body, **options) as response:
            text = await response.text()
            kind = response.headers["Content-Type"]
            return response.status, json.loads(text) if kind.startswith("application/json") else text

    async def events(self, path: str, **parameters: str) -> AsyncIterator[JsonObject]:
        """The events of a watch."""
        query = {"watch": "true", **parameters}
        async with self.session.get(self.address + path, params=query) as response:
            async for line in response.content:
                yield json.loads(line)


@asynccontextmanager
async def cluster(*, storage: Storage | None = None, admission: Any = None, **options: Any) -> AsyncIterator[Cluster]:
    kept = storage or Storage()
    chain = AdmissionChain(kept)
    server = ApiServer(kept, builtin_kinds(), admission or chain, tokens={TOKEN: ADMIN}, **options)
    port = await server.start()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        try:
            yield Cluster(server, session, f"http://127.0.0.1:{port}")
        finally:
            await server.stop()
            await chain.close()


async def wait_until(condition: Callable[[], bool], deadline_s: float = 10) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def config_map(name: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, *containers: str) -> JsonObject:
    listed = [{"name": container, "image": "i"} for container in containers or ("c",)]
    return {"metadata": {"name": name}, "spec": {"containers": listed}}


# Watches and history


async def test_a_watch_that_falls_behind_the_history_is_told_so() -> None:
    async with cluster(storage=Storage(history=10)) as here:
        await here.call("POST", CONFIG_MAPS, config_map("a"))
        watch = here.events(CONFIG_MAPS, resourceVersion=str(here.storage.version))
        first = asyncio.ensure_future(anext(watch))
        table = here.storage.follow(GroupResource("", "configmaps"))
        await wait_until(lambda: len(table._table.waiters) == 2)
        document = here.storage.read("", "configmaps", "default", "a") or {}
        for count in range(100):  # without giving the watch a turn
            here.storage.update(GroupResource("", "configmaps"), {**document, "data": {"count": str(count)}})
        event = await asyncio.wait_for(first, 5)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["message"].startswith("too old resource version")
        table.close()
        await watch.aclose()


async def test_a_compacted_version_is_expired_everywhere() -> None:
    async with cluster() as here:
        for name in ("a", "b", "c"):
            await here.call("POST", CONFIG_MAPS, config_map(name))
        _, page = await here.call("GET", f"{CONFIG_MAPS}?limit=1")
        version, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
        await here.call("POST", CONFIG_MAPS, config_map("bb"))
        here.storage.compact()
        code, refused = await here.call("GET", f"{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
        assert (code, refused["reason"]) == (410, "Expired")
        event = await anext(here.events(CONFIG_MAPS, resourceVersion=version))
        assert event["object"]["code"] == 410
        code, refused = await here.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
        assert (code, refused["reason"]) == (410, "Expired")
        assert refused["message"].startswith("The provided continue parameter is too old")
        _, rest = await here.call("GET", f"{CONFIG_MAPS}?continue={refused['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "bb", "c"]


async def test_bookmarks_come_while_nothing_happens() -> None:
    async with cluster(bookmark_interval_s=0.05) as here:
        await here.call("POST", PODS, pod("p"))
        event = await anext(here.events(CONFIG_MAPS, resourceVersion="1001", allowWatchBookmarks="true"))
        assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
        assert event["object"]["metadata"]["resourceVersion"] == str(here.storage.version)


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with cluster() as here:
        follower = here.storage.follow(GroupResource("", "configmaps"))
        watch = here.events(CONFIG_MAPS, resourceVersion=str(here.storage.version))
        reading = asyncio.ensure_future(anext(watch))
        await wait_until(lambda: len(follower._table.waiters) == 2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await wait_until(lambda: len(follower._table.waiters) == 1)
        follower.close()


async def test_stopping_ends_open_watches_quickly() -> None:
    async with cluster() as here:
        watch = here.events(CONFIG_MAPS, resourceVersion=str(here.storage.version))
        reading = asyncio.ensure_future(anext(watch))
        follower = here.storage.follow(GroupResource("", "configmaps"))
        await wait_until(lambda: len(follower._table.waiters) == 2)
        began = time.monotonic()
        await here.server.stop()
        await here.server.stop()
        assert time.monotonic() - began < 2
        with pytest.raises((aiohttp.ClientError, StopAsyncIteration)):
            await reading


async def test_the_old_watch_path_watches() -> None:
    async with cluster() as here:
        async with here.session.get(f"{here.address}/api/v1/watch/namespaces") as response:
            event = json.loads(await response.content.readline())
        assert event["type"] == "ADDED"


# Writes


async def test_generated_names_that_are_taken_are_drawn_again() -> None:
    """With the randomness of two servers equal, the second draws what the first one has stored."""
    storage = Storage()
    body = {"metadata": {"generateName": "x-"}}
    names = []
    for _ in range(2):
        async with cluster(storage=storage, randomness=random.Random(4)) as here:
            code, made = await here.call("POST", CONFIG_MAPS, body)
            assert code == 201
            names.append(made["metadata"]["name"])
    assert len(set(names)) == 2


class SlowAdmission:
    """Admits everything, after letting others write."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    async def admit(self, request: AdmissionRequest, complete: Complete | None = None) -> Admitted:
        await asyncio.sleep(0)
        if request.operation == "UPDATE":
            self.meanwhile()
        created = complete(request.object) if complete and request.object is not None else request.object
        return Admitted(created, ("be careful",))


async def test_a_patch_is_tried_again_when_somebody_was_faster() -> None:
    admission = SlowAdmission()
    async with cluster(admission=admission) as here:
        await here.call("POST", CONFIG_MAPS, config_map("a", k="0"))
        stored = here.storage.read("", "configmaps", "default", "a") or {}
        rivals = iter(range(3))

        def interfere() -> None:
            for count in rivals:
                here.storage.update(GroupResource("", "configmaps"), {**stored, "data": {"rival": str(count)}})
                return

        admission.meanwhile = interfere
        code, changed = await here.call("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, headers=MERGE)
        assert (code, changed["data"]) == (200, {"rival": "2", "k": "1"})


async def test_a_replace_under_a_version_is_not_tried_again() -> None:
    admission = SlowAdmission()
    async with cluster(admission=admission) as here:
        _, made = await here.call("POST", CONFIG_MAPS, config_map("a", k="0"))
        stored = here.storage.read("", "configmaps", "default", "a") or {}
        admission.meanwhile = lambda: here.storage.update(
            GroupResource("", "configmaps"), {**stored, "data": {"rival": "1"}}
        )
        code, refused = await here.call("PUT", f"{CONFIG_MAPS}/a", {**made, "data": {"k": "1"}})
        assert (code, refused["reason"]) == (409, "Conflict")


async def test_endless_interference_ends_in_a_conflict() -> None:
    admission = SlowAdmission()
    async with cluster(admission=admission) as here:
        await here.call("POST", CONFIG_MAPS, config_map("a", k="0"))
        stored = here.storage.read("", "configmaps", "default", "a") or {}
        counter = iter(range(10_000))
        admission.meanwhile = lambda: here.storage.update(
            GroupResource("", "configmaps"), {**stored, "data": {"rival": str(next(counter))}}
        )
        code, _ = await here.call("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, headers=MERGE)
        assert code == 409


async def test_warnings_of_admission_are_headers() -> None:
    async with cluster(admission=SlowAdmission()) as here:
        body = config_map("a")
        async with here.session.post(here.address + CONFIG_MAPS, json=body) as response:
            assert response.headers.getall("Warning") == ['299 - "be careful"']


class BrokenAdmission:
    async def admit(self, request: AdmissionRequest, complete: Complete | None = None) -> Admitted:
        raise ZeroDivisionError("oh no")


async def test_a_broken_request_does_not_end_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(admission=BrokenAdmission()) as here:
        code, refused = await here.call("POST", CONFIG_MAPS, config_map("a"))
        assert (code, refused["reason"]) == (500, "InternalError")
        assert "ZeroDivisionError: oh no" in refused["message"]
        assert "request failed: POST" in caplog.text
        assert (await here.call("GET", CONFIG_MAPS))[0] == 200


async def test_a_huge_body_is_refused() -> None:
    async with cluster() as here:
        body = io.BytesIO(json.dumps(config_map("a", k="x" * 4_000_000)).encode())
        async with here.session.post(here.address + CONFIG_MAPS, data=body) as response:
            refused = await response.json()
        assert (response.status, refused["reason"]) == (413, "RequestEntityTooLarge")


async def test_cluster_addresses_are_not_given_twice() -> None:
    async with cluster() as here:
        path = "/api/v1/namespaces/default/services"
        addresses = set()
        for name in ("a", "b", "c"):
            body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
            _, made = await here.call("POST", path, body)
            addresses.add(made["spec"]["clusterIP"])
        assert len(addresses) == 3
        external = {"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}
        _, made = await here.call("POST", path, external)
        assert "clusterIP" not in made["spec"]


async def test_five_thousand_pods_are_listed_within_a_second() -> None:
    async with cluster() as here:
        await here.call("POST", PODS, pod("first"))
        template = here.storage.read("", "pods", "default", "first") or {}
        for index in range(5000):
            metadata = {**template["metadata"], "name": f"p{index}"}
            here.storage.create(GroupResource("", "pods"), {**template, "metadata": metadata})
        began = time.monotonic()
        async with here.session.get(f"{here.address}/api/v1/pods") as response:
            body = await response.read()
        assert time.monotonic() - began < 1
        assert len(json.loads(body)["items"]) == 5001


# Logs


class TwoLines:
    """A log provider that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: JsonObject = {}

    def stream(self, pod: JsonObject, container: str, **options: Any) -> AsyncIterator[bytes]:
        if options["previous"]:
            raise status.bad_request(f'previous terminated container "{container}" not found')
        self.asked = {"pod": pod["metadata"]["name"], "container": container, **options}
        return self._lines(container)

    async def _lines(self, container: str) -> AsyncIterator[bytes]:
        yield f"hello from {container}\n".encode()
        await asyncio.sleep(0)
        yield b"goodbye\n"


async def bound_pod(here: Cluster, *containers: str) -> None:
    await here.call("POST", PODS, pod("p", *containers))
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await here.call("POST", f"{PODS}/p/binding", body))[0] == 201


async def test_a_log_is_streamed_from_its_provider() -> None:
    provider = TwoLines()
    async with cluster(logs=provider) as here:
        await bound_pod(here)
        code, text = await here.call("GET", f"{PODS}/p/log?tailLines=5&sinceSeconds=9&timestamps=true")
        assert (code, text) == (200, "hello from c\ngoodbye\n")
        assert provider.asked == {
            "pod": "p",
            "container": "c",
            "previous": False,
            "follow": False,
            "tail_lines": 5,
            "since_seconds": 9,
            "timestamps": True,
            "limit_bytes": None,
        }


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        ("", 400, "a container name must be specified for pod p, choose one of: [a b]"),
        ("?container=x", 400, "container x is not valid for pod p"),
        ("?container=a&previous=true", 400, 'previous terminated container "a" not found'),
        ("?container=a&tailLines=-1", 422, "must be greater than or equal to 0"),
        ("?container=a&sinceTime=yesterday", 400, 'sinceTime: invalid value "yesterday"'),
    ],
)
async def test_a_log_that_cannot_be_shown_says_why(query: str, code: int, told: str) -> None:
    async with cluster(logs=TwoLines()) as here:
        await bound_pod(here, "a", "b")
        refused, body = await here.call("GET", f"{PODS}/p/log{query}")
        assert refused == code
        assert told in body["message"]


async def test_a_pod_without_a_node_has_no_log() -> None:
    async with cluster(logs=TwoLines()) as here:
        await here.call("POST", PODS, pod("p"))
        code, body = await here.call("GET", f"{PODS}/p/log")
        assert (code, body["message"]) == (400, "pod p does not have a host assigned")
        assert (await here.call("GET", f"{PODS}/nope/log"))[0] == 404


async def test_kubectl_shows_logs(tmp_path: Path) -> None:
    if not KUBECTL.exists():
        pytest.skip(f"no kubectl at {KUBECTL}")
    made = kubeconfig.make_credentials("127.0.0.1")
    storage = Storage()
    server = ApiServer(storage, builtin_kinds(), AdmissionChain(storage), tokens={made.token: ADMIN}, logs=TwoLines())
    port = await server.start(ssl_context=kubeconfig.server_context(made))
    kubeconfig.write_kubeconfig(tmp_path / "config", kubeconfig.render_kubeconfig(made, f"https://127.0.0.1:{port}"))
    metadata = {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    document = {"apiVersion": "v1", "kind": "Pod", **pod("p"), "metadata": metadata}
    document["spec"]["nodeName"] = "n"
    storage.create(GroupResource("", "pods"), document)
    command = [str(KUBECTL), f"--kubeconfig={tmp_path}/config", "logs", "p", "--tail=2"]
    environment = {"HOME": str(tmp_path)}
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environment)
    await server.stop()
    assert done.stdout == "hello from c\ngoodbye\n", done.stderr


# Who is calling


def client_certificate(authority: kubeconfig.KeyPair, name: str, group: str) -> bytes:
    """A certificate and key of a user, signed by the authority; both in one PEM."""
    signer = x509.load_pem_x509_certificate(authority.certificate_pem)
    signing_key = serialization.load_pem_private_key(authority.key_pem, None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        .sign(signing_key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM) + pem


def load_pair(context: ssl.SSLContext, pem: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder, "pair.pem")
        pair.write_bytes(pem)
        context.load_cert_chain(pair)


async def test_client_certificates_name_their_user() -> None:
    made = kubeconfig.make_credentials("127.0.0.1")
    context = kubeconfig.server_context(made)
    authority = made.authority.certificate_pem.decode()
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    storage = Storage()
    chain = AdmissionChain(storage)
    server = ApiServer(storage, builtin_kinds(), chain, tokens={"t": User("robot", ("robots",))})
    port = await server.start(ssl_context=context)
    client = ssl.create_default_context(cadata=authority)
    plain = ssl.create_default_context(cadata=authority)
    load_pair(client, client_certificate(made.authority, "jane", "developers"))
    path = f"https://127.0.0.1:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with aiohttp.ClientSession() as session:
        async with session.post(path, json={}, ssl=client) as response:
            info = (await response.json())["status"]["userInfo"]
        assert info == {"username": "jane", "groups": ["developers", "system:authenticated"]}
        async with session.post(path, json={}, ssl=plain, headers={"Authorization": "Bearer t"}) as response:
            assert (await response.json())["status"]["userInfo"]["username"] == "robot"
        async with session.post(path, json={}, ssl=plain) as response:
            assert response.status == 401
            assert "WWW-Authenticate" in response.headers
        async with session.get(f"https://127.0.0.1:{port}/readyz", ssl=plain) as response:
            assert (response.status, await response.text()) == (200, "ok")
    await server.stop()
    await chain.close()


async def test_tokens_are_reviewed() -> None:
    async with cluster() as here:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        _, known = await here.call("POST", path, {"spec": {"token": TOKEN}})
        assert known["status"]["authenticated"] is True
        assert known["status"]["user"]["username"] == "kubernetes-admin"
        _, unknown = await here.call("POST", path, {"spec": {"token": "guess"}})
        assert unknown["status"]["authenticated"] is False
        code, refused = await here.call(
            "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}
        )
        assert (code, refused["reason"]) == (422, "Invalid")


# Custom resources


def definition(group: str, plural: str, kind: str) -> JsonObject:
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Cluster", "versions": [version]},
    }


async def test_a_kind_that_is_taken_is_not_served_under_another_plural() -> None:
    async with cluster() as here:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await here.call("POST", path, definition("g.example.com", "things", "Thing"))
        await here.call("POST", path, definition("g.example.com", "stuffs", "Thing"))
        _, second = await here.call("GET", f"{path}/stuffs.g.example.com")
        conditions = {entry["type"]: (entry["status"], entry["reason"]) for entry in second["status"]["conditions"]}
        assert conditions["NamesAccepted"] == ("False", "KindConflict")
        assert conditions["Established"] == ("False", "NotAccepted")
        assert (await here.call("GET", "/apis/g.example.com/v1/stuffs"))[0] == 404
        assert (await here.call("DELETE", f"{path}/stuffs.g.example.com"))[0] == 200
        assert (await here.call("GET", "/apis/g.example.com/v1/things"))[0] == 200


async def test_a_changed_schema_counts_from_the_next_write_on() -> None:
    async with cluster() as here:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.g.example.com"
        await here.call("POST", path.rpartition("/")[0], definition("g.example.com", "things", "Thing"))
        things = "/apis/g.example.com/v1/things"
        body = {"apiVersion": "g.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "size": 1}
        _, made = await here.call("POST", things, body)
        assert "size" not in made
        schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
        change = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
        patched = await here.call("PATCH", path, change, headers={"Content-Type": "application/json-patch+json"})
        assert patched[0] == 200
        body["metadata"] = {"name": "b"}
        _, made = await here.call("POST", things, body)
        assert made["size"] == 1
