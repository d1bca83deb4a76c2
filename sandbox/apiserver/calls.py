"""One request in the words of the REST layer: who asks for what, and what the answer must warn of."""

from dataclasses import dataclass, field
from typing import Any

from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.query import WriteOptions

JsonObject = dict[str, Any]

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True)
class User:
    """Who a request comes from."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""

    def info(self) -> JsonObject:
        """The UserInfo document."""
        info: JsonObject = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        return info


ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True)
class Call:
    """A request on one kind. `manager` is the field manager; `warnings` collects texts for Warning headers."""

    kind: Kind
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    options: WriteOptions = field(default_factory=WriteOptions)
    manager: str = "unknown"
    warnings: list[str] = field(default_factory=list)
