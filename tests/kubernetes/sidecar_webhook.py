"""Another team's mutating webhook: adds a container to every pod of namespaces labelled sidecars=on."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from certs.authority import issue_authority, issue_serving
from tests.contract.api import JsonObject

CONFIGURATION = "sidecars"
PROXY = {"name": "proxy", "image": "p", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [container["name"] for container in review["request"]["object"]["spec"]["containers"]]
        patch = [] if "proxy" in names else [{"op": "add", "path": "/spec/containers/-", "value": PROXY}]
        response = {"uid": review["request"]["uid"], "allowed": True}
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({**{key: review[key] for key in ("apiVersion", "kind")}, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class SidecarWebhook:
    """Serves on loopback while the context is open."""

    def __init__(self, folder: Path) -> None:
        self._authority = issue_authority(datetime.now(UTC), name="sidecars")
        pair = issue_serving(self._authority, ["127.0.0.1"], datetime.now(UTC))
        (folder / "sidecar.crt").write_bytes(pair.certificate_pem)
        (folder / "sidecar.key").write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "sidecar.crt", folder / "sidecar.key")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="sidecar webhook")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def configuration(self, name: str) -> JsonObject:
        """The MutatingWebhookConfiguration that calls this server."""
        bundle = base64.b64encode(self._authority.certificate_pem).decode()
        url = f"https://127.0.0.1:{self._server.server_port}/"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        webhook = {
            "name": "sidecars.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"sidecars": "on"}},
            "sideEffects": "None",
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }
