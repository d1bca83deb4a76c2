"""Issuing and judging certificates, by an independent verifier and by a real TLS handshake."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from certs.authority import KeyPair, issue_authority, issue_serving
from certs.files import FileStore
from certs.material import Material, Problem, judge, needs_renewal, renew, verifies

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOSTS = ["koord-webhook.koordinator-system.svc", "127.0.0.1"]


@pytest.fixture(scope="module")
def material() -> Material:
    authority = issue_authority(NOW)
    return Material(authority, issue_serving(authority, HOSTS, NOW))


@pytest.mark.parametrize("host", HOSTS)
def test_a_fresh_certificate_verifies_for_each_host(material: Material, host: str) -> None:
    assert verifies(material.serving.certificate_pem, material.authority.certificate_pem, host, NOW)


def test_it_does_not_verify_for_another_host_ca_or_time(material: Material) -> None:
    leaf, ca = material.serving.certificate_pem, material.authority.certificate_pem
    assert not verifies(leaf, ca, "elsewhere.svc", NOW)
    assert not verifies(leaf, issue_authority(NOW).certificate_pem, HOSTS[0], NOW)
    assert not verifies(leaf, ca, HOSTS[0], NOW + timedelta(days=366))
    assert not verifies(leaf, b"not pem", HOSTS[0], NOW)


def test_fresh_material_needs_nothing(material: Material) -> None:
    assert judge(material, HOSTS, NOW).problem is Problem.NONE
    assert renew(material, HOSTS, NOW)[0] is material


def test_renewal_is_due_in_the_last_third_of_life_while_still_servable(material: Material) -> None:
    assert not needs_renewal(material, HOSTS, NOW + timedelta(days=240))
    late = NOW + timedelta(days=250)
    judgement = judge(material, HOSTS, late)
    assert (judgement.problem, judgement.is_servable) == (Problem.EXPIRES_SOON, True)
    renewed, _ = renew(material, HOSTS, late)
    assert renewed.authority == material.authority
    assert renewed.serving != material.serving
    assert not needs_renewal(renewed, HOSTS, late)


def test_an_expired_certificate_gets_a_new_one_of_the_same_ca(material: Material) -> None:
    after = NOW + timedelta(days=400)
    assert judge(material, HOSTS, after).problem is Problem.NOT_VALID_NOW
    renewed, _ = renew(material, HOSTS, after)
    assert renewed.authority == material.authority


def test_an_old_ca_is_replaced_before_it_expires(material: Material) -> None:
    late = NOW + timedelta(days=3000)
    fresh_leaf = Material(material.authority, issue_serving(material.authority, HOSTS, late))
    judgement = judge(fresh_leaf, HOSTS, late)
    assert (judgement.problem, judgement.is_servable) == (Problem.CA_EXPIRES_SOON, True)
    assert renew(fresh_leaf, HOSTS, late)[0].authority != material.authority


def test_a_serving_certificate_never_outlives_its_ca(material: Material) -> None:
    late = NOW + timedelta(days=3640)
    pair = issue_serving(material.authority, HOSTS, late)
    leaf = x509.load_pem_x509_certificate(pair.certificate_pem)
    ca = x509.load_pem_x509_certificate(material.authority.certificate_pem)
    assert leaf.not_valid_after_utc <= ca.not_valid_after_utc


def test_a_clock_that_is_slightly_behind_accepts_a_new_certificate(material: Material) -> None:
    before = NOW - timedelta(minutes=30)
    assert verifies(material.serving.certificate_pem, material.authority.certificate_pem, HOSTS[0], before)


def test_another_host_makes_a_new_certificate_but_keeps_the_ca(material: Material) -> None:
    hosts = ["other.svc"]
    assert judge(material, hosts, NOW).problem is Problem.WRONG_HOST
    renewed, _ = renew(material, hosts, NOW)
    assert renewed.authority == material.authority
    assert verifies(renewed.serving.certificate_pem, renewed.authority.certificate_pem, "other.svc", NOW)


def test_broken_material_of_every_kind_is_replaced(material: Material) -> None:
    other = issue_authority(NOW)
    empty = KeyPair(b"", b"")
    broken = {
        Problem.CA_UNREADABLE: Material(empty, material.serving),
        Problem.UNREADABLE: Material(material.authority, KeyPair(material.serving.certificate_pem, b"LS0tLQ==")),
        Problem.CA_KEY_MISMATCH: Material(
            KeyPair(material.authority.certificate_pem, other.key_pem), material.serving
        ),
        Problem.KEY_MISMATCH: Material(material.authority, KeyPair(material.serving.certificate_pem, other.key_pem)),
        Problem.NOT_SIGNED_BY_CA: Material(other, material.serving),
    }
    for problem, bad in broken.items():
        judgement = judge(bad, HOSTS, NOW)
        assert (judgement.problem, judgement.is_servable) == (problem, False)
        renewed, _ = renew(bad, HOSTS, NOW)
        assert judge(renewed, HOSTS, NOW).problem is Problem.NONE


def test_no_key_appears_in_a_repr(material: Material) -> None:
    assert "PRIVATE" not in repr(material)
    assert b"PRIVATE" in material.serving.key_pem


def test_a_serving_certificate_without_hosts_is_refused(material: Material) -> None:
    with pytest.raises(ValueError, match="at least one host"):
        issue_serving(material.authority, [], NOW)


async def test_openssl_accepts_it_in_a_handshake_and_refuses_it_under_another_ca(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    store = FileStore(tmp_path / "certs")
    material, _ = store.ensure(["127.0.0.1", "localhost"], now)
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(store.serving_certificate, store.serving_key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ok")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server_context)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(10):
        trusting = ssl.create_default_context(cadata=material.authority.certificate_pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        assert await reader.read() == b"ok"
        writer.close()
        await writer.wait_closed()
        stranger = ssl.create_default_context(cadata=issue_authority(now).certificate_pem.decode())
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=stranger)
