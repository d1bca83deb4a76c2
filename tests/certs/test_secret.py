"""The Secret that replicas share: who makes it, who takes it over, whose it is not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs.authority import issue_authority, issue_serving
from certs.material import Lifetimes, Material, Problem
from certs.secret import SECRETS, SecretStore, read_material
from koord.api.errors import InvalidInput
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.errors import AlreadyExists
from koord.kube.resources import NAMESPACES
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.calls import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.kubeconfig import make_credentials, render_kubeconfig, server_context

NOW = datetime.now(UTC)
HOSTS = ["webhook.colo.svc"]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    storage = Storage()
    chain, credentials = AdmissionChain(storage), make_credentials("127.0.0.1")
    server = ApiServer(storage, builtin_kinds(), chain, tokens={credentials.token: ADMIN})
    port = await server.start(ssl_context=server_context(credentials))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(render_kubeconfig(credentials, f"https://127.0.0.1:{port}"))
    async with await connect(str(kubeconfig)) as client:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": "colo"}})
        yield client
    await chain.close()
    await server.stop()


def store(client: Client, directory: Path, **lifetimes: timedelta) -> SecretStore:
    return SecretStore(client, "colo", "certs", directory, Lifetimes(**lifetimes))


async def write(client: Client, data: dict[str, bytes], **metadata: Any) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    body = {"metadata": {"name": "certs", "namespace": "colo", **metadata}, "type": "Opaque", "data": encoded}
    await client.create(SECRETS, body, "colo")


async def test_of_many_replicas_that_start_at_once_one_makes_the_authority_of_all(
    client: Client, tmp_path: Path
) -> None:
    stores = [store(client, tmp_path / str(number)) for number in range(8)]
    found = await asyncio.gather(*(one.ensure(HOSTS, NOW) for one in stores))
    assert len({material.authority.certificate_pem for material, _ in found}) == 1
    assert len({material.serving.certificate_pem for material, _ in found}) == 1
    assert [before.problem for _, before in found].count(Problem.ABSENT) == 1
    assert len({one.serving_certificate.read_bytes() for one in stores}) == 1


async def test_of_many_replicas_that_renew_at_once_one_wins(client: Client, tmp_path: Path) -> None:
    stores = [store(client, tmp_path / str(number)) for number in range(8)]
    await asyncio.gather(*(one.ensure(HOSTS, NOW) for one in stores))
    later = NOW + timedelta(days=300)
    found = await asyncio.gather(*(one.ensure(HOSTS, later) for one in stores))
    assert len({material.serving.certificate_pem for material, _ in found}) == 1
    assert [before.problem for _, before in found].count(Problem.EXPIRES_SOON) == 1
    again, before = await stores[0].ensure(HOSTS, later)
    assert (again, before.problem) == (found[0][0], Problem.NONE)


def half(**parts: bytes) -> dict[str, bytes]:
    return {key.replace("_", "."): value for key, value in parts.items()}


@pytest.mark.parametrize(
    "data",
    [{}, half(tls_key=b"x"), half(ca_crt=b"a", ca_key=b"b", tls_crt=b"c", tls_key=b"d")],
    ids=["empty", "a key without a certificate", "what does not read"],
)
async def test_a_secret_that_holds_no_certificate_is_filled(
    client: Client, tmp_path: Path, data: dict[str, bytes]
) -> None:
    await write(client, data, labels={"kept": "yes"})
    material, before = await store(client, tmp_path / "a").ensure(HOSTS, NOW)
    assert before.needs_renewal
    found = await client.get(SECRETS, "certs", "colo")
    assert read_material(found) == material
    assert found["metadata"]["labels"]["kept"] == "yes"


async def test_an_expired_certificate_of_another_host_is_replaced(client: Client, tmp_path: Path) -> None:
    long_ago = NOW - timedelta(days=4000)
    authority = issue_authority(long_ago)
    old = Material(authority, issue_serving(authority, ["elsewhere"], long_ago))
    parts = {
        "ca.crt": old.authority.certificate_pem,
        "ca.key": old.authority.key_pem,
        "tls.crt": old.serving.certificate_pem,
        "tls.key": old.serving.key_pem,
    }
    await write(client, parts)
    material, before = await store(client, tmp_path / "a").ensure(HOSTS, NOW)
    assert before.problem is Problem.CA_NOT_VALID_NOW
    assert material.authority != old.authority


@pytest.mark.parametrize(
    ("data", "metadata", "said"),
    [
        ({"password": b"x"}, {}, "data: invalid value 'password'"),
        (
            half(tls_crt=b"c", tls_key=b"d"),
            {"annotations": {"cert-manager.io/certificate-name": "webhook"}},
            "cert-manager.io/certificate-name",
        ),
    ],
    ids=["other data", "cert-manager's"],
)
async def test_somebody_elses_secret_is_named_and_never_touched(
    client: Client, tmp_path: Path, data: dict[str, bytes], metadata: dict[str, Any], said: str
) -> None:
    await write(client, data, **metadata)
    before = await client.get(SECRETS, "certs", "colo")
    with pytest.raises(InvalidInput, match="Secret/colo/certs") as refused:
        await store(client, tmp_path / "a").ensure(HOSTS, NOW)
    assert said in str(refused.value)
    assert await client.get(SECRETS, "certs", "colo") == before
