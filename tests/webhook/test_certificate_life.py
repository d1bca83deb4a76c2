"""The life of certificates in half a minute: three replicas, a kill, a new authority, and no failed handshake."""

from __future__ import annotations

import asyncio
import base64
import shutil
import signal
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from cryptography import x509

from certs.authority import issue_authority, issue_serving
from koord.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from tests.webhook.conftest import WebhookProcess, free_port
from webhook.registration import MUTATING_NAME

DAY_S = 86_400
AUTHORITY_S, SERVING_S = 40, 16
LIMIT_S = 90.0


async def start(cluster: Any, name: str, port: int, *flags: str) -> WebhookProcess:
    """A replica behind the common Service, with a directory of its own."""
    command = [
        *(sys.executable, "-m", "webhook", "--kubeconfig", str(cluster.kubeconfig), "--port", str(port)),
        *("--bind-address", "127.0.0.1", "--host", "127.0.0.1", "--health-port", "0", "--drain-s", "0"),
        *("--cert-dir", str(cluster.directory / name), *flags),
    ]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    replica = WebhookProcess(process)
    replica.reader = asyncio.create_task(replica.read())
    cluster.webhooks.append(replica)
    return replica


def bundle_of(cluster: Any) -> bytes:
    """What the API server trusts now."""
    resource = MUTATING_WEBHOOK_CONFIGURATIONS
    found = cluster.storage.read(resource.group, resource.plural, "", MUTATING_NAME) or {"webhooks": []}
    return b"".join(base64.b64decode(entry["clientConfig"].get("caBundle", "")) for entry in found["webhooks"][:1])


async def handshake(bundle: bytes, port: int) -> x509.Certificate:
    """Connect as the API server does, trusting nothing but the bundle; what is served."""
    context = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
    served = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(served)


async def listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_every_replica_is_trusted_at_every_moment_through_renewals_a_kill_and_a_new_authority(
    cluster: Any,
) -> None:
    flags = (
        *("--cert-mode", "secret", "--namespace", "default"),
        *("--ca-lifetime-days", str(AUTHORITY_S / DAY_S), "--cert-lifetime-days", str(SERVING_S / DAY_S)),
        *("--cert-check-s", "0.5", "--cert-settle-s", "1"),
    )
    ports = {name: free_port() for name in ("one", "two", "three")}
    replicas = {name: await start(cluster, name, port, *flags) for name, port in ports.items()}
    for name, replica in replicas.items():
        await replica.line(lambda line: line["message"] == "the API server calls this webhook", name)
    serials: set[int] = set()
    issuers: dict[str, set[bytes]] = {name: set() for name in ports}
    killed, deadline = False, time.monotonic() + LIMIT_S
    while any(len(seen) < 2 for seen in issuers.values()):
        assert time.monotonic() < deadline, f"no new authority: {issuers}"
        bundle = bundle_of(cluster)
        for name, port in ports.items():
            served = await handshake(bundle, port)
            serials.add(served.serial_number)
            identifier = served.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
            issuers[name].add(identifier.key_identifier or b"")
        if len(serials) > 1 and not killed:
            killed = True
            await replicas["two"].stop(signal.SIGKILL)
            shutil.rmtree(cluster.directory / "two")
            replicas["two"] = await start(cluster, "two", ports["two"], *flags)
            await until_async(lambda: listening(ports["two"]), "the killed replica is back")
        await asyncio.sleep(0.1)
    assert killed
    assert len(serials) >= 3
    assert len(set.union(*issuers.values())) == 2, "all replicas share each authority"


async def until_async(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_a_mounted_certificate_is_taken_up_without_a_restart_and_configurations_are_left_alone(
    cluster: Any, tmp_path: Path
) -> None:
    from datetime import UTC, datetime

    folder = tmp_path / "mounted"
    folder.mkdir()
    authority = issue_authority(datetime.now(UTC))

    def put() -> bytes:
        pair = issue_serving(authority, ["127.0.0.1"], datetime.now(UTC))
        for name, content in (("tls.key", pair.key_pem), ("tls.crt", pair.certificate_pem)):
            (folder / f".{name}").write_bytes(content)
            (folder / f".{name}").replace(folder / name)
        return pair.certificate_pem

    port, first = free_port(), put()
    replica = await start(cluster, "mounted", port, "--cert-mode", "mounted")
    cluster.webhooks[-1] = replica
    await replica.line(lambda line: line["message"] == "serving", "serving")
    assert await handshake(authority.certificate_pem, port) == x509.load_pem_x509_certificate(first)
    (folder / "tls.crt").write_text("half")
    second = put()

    async def taken_up() -> bool:
        return await handshake(authority.certificate_pem, port) == x509.load_pem_x509_certificate(second)

    await until_async(taken_up, "the new certificate is served")
    resource = MUTATING_WEBHOOK_CONFIGURATIONS
    assert cluster.storage.read(resource.group, resource.plural, "", MUTATING_NAME) is None
