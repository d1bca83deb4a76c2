"""Who may talk to a sandbox and how: its certificate authority, the administrator's token, the kubeconfig."""

import base64
import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from certs.authority import KeyPair, issue_authority, issue_serving

CLUSTER_NAME = "koord-sandbox"
AUTHORITY_NAME = "koord sandbox CA"


@dataclass(frozen=True)
class Credentials:
    """Made anew for every sandbox; nothing of it is stored but in the kubeconfig."""

    authority: KeyPair
    serving: KeyPair
    token: str = field(repr=False)


def make_credentials(host: str) -> Credentials:
    """Credentials for an API server on `host`; its certificate also names localhost and the usual service."""
    now = datetime.now(UTC)
    authority = issue_authority(now, name=AUTHORITY_NAME)
    names = list(dict.fromkeys([host, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"]))
    return Credentials(authority, issue_serving(authority, names, now), secrets.token_urlsafe(32))


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS for the API server. The key touches the disk only while OpenSSL reads it, readable by us alone."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(credentials.serving.certificate_pem)
        key.write_bytes(credentials.serving.key_pem)
        context.load_cert_chain(certificate, key)
    return context


def render_kubeconfig(credentials: Credentials, server: str) -> str:
    """The administrator's kubeconfig as YAML."""
    authority = base64.b64encode(credentials.authority.certificate_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": CLUSTER_NAME, "user": {"token": credentials.token}}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": CLUSTER_NAME}}],
        "current-context": CLUSTER_NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_kubeconfig(path: Path, text: str) -> None:
    """Write the file in one step, readable by its owner alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(name).replace(path)


def remove_kubeconfig(path: Path, text: str) -> None:
    """Remove the file if it is still the one that was written."""
    try:
        if path.read_text() == text:
            path.unlink()
    except OSError:
        return
