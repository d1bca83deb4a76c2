"""The API server: composes storage, kinds, admission and the REST surface behind one HTTPS port."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.apiserver.kinds import KindRegistry
from sandbox.apiserver.storage import Storage

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class User:
    """Who a request comes from."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class LogProvider(Protocol):
    """Where the text of a container's log comes from."""

    def stream(self, pod: JsonObject, container: str, *, previous: bool, follow: bool, tail_lines: int | None,
               since_seconds: int | None, timestamps: bool, limit_bytes: int | None) -> AsyncIterator[bytes]:
        """Chunks of the log; with `follow` until the container ends. Raises StatusError when there is none."""


class ApiServer:
    """Serves `storage` over HTTPS.

    admission: an object with `async admit(AdmissionRequest) -> Admitted`. tokens: bearer token to User; client
    certificates are accepted when the ssl_context verifies them (name from CN, groups from O). logs: the provider
    for pods/log, None answers 404. evict: the decision of the eviction subresource
    (`sandbox.lifecycle.eviction.evict`). now: the clock, epoch seconds.
    """

    def __init__(self, storage: Storage, kinds: KindRegistry, admission: Any, *,
                 tokens: Mapping[str, User] | None = None, logs: LogProvider | None = None,
                 evict: Callable[..., Any] | None = None) -> None:
        self.storage = storage
        self.kinds = kinds
        self.logs = logs

    async def start(self, host: str = "127.0.0.1", port: int = 0, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listen and return the port (any free one for 0). Plain HTTP without a context, for tests."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End watches, close the listener. Idempotent."""
        raise NotImplementedError
