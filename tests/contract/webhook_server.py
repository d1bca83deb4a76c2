"""Admission webhooks that a test makes up, over real HTTPS, so that any API server on this machine can call them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from certs.authority import issue_authority, issue_serving
from tests.contract.api import JsonObject

Answer = Callable[[JsonObject], JsonObject]
"""From the request of an AdmissionReview to its response; `raw` (text) and `http` (status) spoil the answer."""

PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def allow(_: JsonObject) -> JsonObject:
    """Let everything pass."""
    return {"allowed": True}


def patch(*operations: JsonObject) -> Answer:
    """Allow with a JSON Patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}


def add_label(key: str, value: str = "yes") -> Answer:
    """Allow and add a label."""

    def answer(request: JsonObject) -> JsonObject:
        labels = {**(request["object"]["metadata"].get("labels") or {}), key: value}
        return patch({"op": "add", "path": "/metadata/labels", "value": labels})(request)

    return answer


class WebhookServer:
    """Each path is a webhook. `reviews` holds what each was sent, with the query and the headers beside it."""

    def __init__(self, folder: Path) -> None:
        authority = issue_authority(datetime.now(UTC), name="webhooks")
        pair = issue_serving(authority, ["127.0.0.1"], datetime.now(UTC))
        (folder / "hooks.crt").write_bytes(pair.certificate_pem)
        (folder / "hooks.key").write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "hooks.crt", folder / "hooks.key")
        self.ca_bundle = base64.b64encode(authority.certificate_pem).decode()
        self.reviews: dict[str, list[JsonObject]] = {}
        self._answers: dict[str, Answer] = {}
        self._delays_s: dict[str, float] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="webhooks")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, answer: Answer, delay_s: float = 0.0) -> None:
        """What a path says from now on, and how long it thinks."""
        self._answers[path] = answer
        self._delays_s[path] = delay_s
        self.reviews[path] = []

    def forget(self) -> None:
        """Forget all reviews so far."""
        for kept in self.reviews.values():
            kept.clear()

    def url(self, path: str) -> str:
        """Where a path is."""
        return f"https://127.0.0.1:{self._server.server_port}{path}"

    def hook(self, path: str, **fields: Any) -> JsonObject:
        """An entry of a configuration that leads here, for new pods unless `rules` says otherwise."""
        return {
            "name": f"{path.strip('/')}.example.com",
            "clientConfig": {"url": self.url(path), "caBundle": self.ca_bundle},
            "rules": [PODS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }

    def respond(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""
        split = urllib.parse.urlsplit(path)
        review = json.loads(body)
        query = dict(urllib.parse.parse_qsl(split.query))
        self.reviews.setdefault(split.path, []).append({**review, "query": query, "headers": headers})
        time.sleep(self._delays_s.get(split.path, 0.0))
        response = self._answers.get(split.path, allow)(review["request"])
        if "raw" in response:
            return int(response.get("http", 200)), str(response["raw"]).encode()
        identity = {key: review[key] for key in ("apiVersion", "kind")}
        whole = {**identity, "response": {"uid": review["request"]["uid"], **response}}
        return 200, json.dumps(whole).encode()


def _handler_of(server: WebhookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = server.respond(self.path, dict(self.headers), body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
