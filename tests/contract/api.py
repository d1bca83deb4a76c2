"""A plain HTTP client of a Kubernetes API server: the standard library and a kubeconfig, nothing of Koord's."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

JsonObject = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
DEADLINE_S = 20.0


@dataclass(frozen=True)
class Answer:
    """Status, decoded body (text when it is not JSON) and headers of a response."""

    status: int
    body: Any
    headers: dict[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.body.get("reason", ""))


class Watching:
    """An open watch; `next` gives its events in order."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def next(self) -> JsonObject:
        """The next event. Raises AssertionError when the watch has ended, TimeoutError when nothing comes."""
        line = self._response.readline()
        assert line, "the watch has ended"
        event: JsonObject = json.loads(line)
        return event

    def until(self, wanted: Callable[[JsonObject], bool]) -> JsonObject:
        """The first event that satisfies `wanted`."""
        while not wanted(event := self.next()):
            pass
        return event

    def rest(self) -> list[JsonObject]:
        """All events until the server ends the watch."""
        return [json.loads(line) for line in self._response]


@dataclass
class Api:
    """One user's view of one server."""

    server: str
    context: ssl.SSLContext
    headers: dict[str, str] = field(default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **parameters: object,
    ) -> Answer:
        """One request; parameters go into the query."""
        with closing(self._connection()) as connection:
            self._send(connection, method, path, body, content_type, accept, parameters)
            response = connection.getresponse()
            raw = response.read()
            warnings = tuple(response.headers.get_all("Warning") or ())
            return Answer(response.status, _decoded(raw), dict(response.headers), warnings)

    def get(self, path: str, **parameters: Any) -> Answer:
        """GET."""
        return self.request("GET", path, **parameters)

    def post(self, path: str, body: object, **parameters: Any) -> Answer:
        """POST."""
        return self.request("POST", path, body, **parameters)

    def put(self, path: str, body: object, **parameters: Any) -> Answer:
        """PUT."""
        return self.request("PUT", path, body, **parameters)

    def patch(self, path: str, body: object, content_type: str = MERGE, **parameters: Any) -> Answer:
        """PATCH."""
        return self.request("PATCH", path, body, content_type=content_type, **parameters)

    def delete(self, path: str, body: object = None, **parameters: Any) -> Answer:
        """DELETE."""
        return self.request("DELETE", path, body, **parameters)

    @contextmanager
    def watch(self, path: str, accept: str = "application/json", **parameters: object) -> Iterator[Watching]:
        """A watch; it is closed on leaving."""
        with closing(self._connection()) as connection:
            self._send(connection, "GET", path, None, "", accept, {"watch": "true", **parameters})
            with connection.getresponse() as response:
                yield Watching(response)

    def wait(self, path: str, wanted: Callable[[Answer], bool]) -> Answer:
        """GET until the answer satisfies `wanted`."""
        end = time.monotonic() + DEADLINE_S
        while not wanted(answer := self.get(path)):
            assert time.monotonic() < end, f"{path} stays {answer.status} {answer.body}"
            time.sleep(0.05)
        return answer

    def _connection(self) -> http.client.HTTPSConnection:
        host = urllib.parse.urlsplit(self.server).netloc
        return http.client.HTTPSConnection(host, context=self.context, timeout=DEADLINE_S)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object,
        content_type: str,
        accept: str,
        parameters: dict[str, object],
    ) -> None:
        query = urllib.parse.urlencode(parameters)
        headers = {"Accept": accept, "User-Agent": "contract/1", **self.headers}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = content_type
        connection.request(method, f"{path}?{query}" if query else path, data, headers)


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def of_kubeconfig(path: Path, *, anonymous: bool = False) -> Api:
    """The client of a kubeconfig's current context."""
    document = yaml.safe_load(path.read_text())
    chosen = next(entry for entry in document["contexts"] if entry["name"] == document["current-context"])["context"]
    cluster = next(entry for entry in document["clusters"] if entry["name"] == chosen["cluster"])["cluster"]
    user = next(entry for entry in document["users"] if entry["name"] == chosen["user"])["user"]
    authority = cluster.get("certificate-authority-data")
    told = base64.b64decode(authority).decode() if authority else Path(cluster["certificate-authority"]).read_text()
    context = ssl.create_default_context(cadata=told)
    if anonymous:
        return Api(cluster["server"], context)
    if user.get("client-certificate-data"):
        _load_pair(context, user["client-certificate-data"], user["client-key-data"])
    headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
    return Api(cluster["server"], context, headers)


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder, "pair.pem")
        pair.write_bytes(base64.b64decode(key) + b"\n" + base64.b64decode(certificate))
        context.load_cert_chain(pair)
