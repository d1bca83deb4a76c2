"""The words in which the API server and admission speak to each other.

The API server builds one AdmissionRequest for each write and hands it to an `AdmissionChain`; the
chain answers with an `Admitted` (the object to store, and warnings for the client) or raises the
API server's StatusError. Objects are raw JSON documents, because webhooks must see every field.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.apiserver.kinds import Kind

JsonObject = dict[str, Any]

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"
CONNECT = "CONNECT"


Complete = Callable[[JsonObject], JsonObject]
"""What storing adds to a new object: identity, generated name, initial status. Mutating webhooks come before it."""


class Reader(Protocol):
    """A synchronous view of the stored objects. Callers never change what they are given."""

    def read(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        """One object, or None. `namespace` is "" for cluster-scoped kinds."""

    def read_all(self, group: str, plural: str, namespace: str = "") -> Sequence[JsonObject]:
        """All objects of a kind (of one namespace, or of all with ""); empty for unknown kinds."""


@dataclass(frozen=True)
class AdmissionRequest:
    """One write that asks to be admitted.

    `object` is None on DELETE and `old_object` None on CREATE. With a subresource `kind` stays the
    parent's kind (pods for pods/eviction) and the object's own apiVersion and kind tell the rest.
    `options` is the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions document;
    `user` is a UserInfo document (username, uid, groups).
    """

    operation: str
    kind: Kind
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool = False
    options: JsonObject = field(default_factory=dict)
    user: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class Admitted:
    """The object as it may be stored (None on DELETE), and texts for the client's Warning headers.

    `audit_annotations` are the webhooks' annotations, keyed "webhook name/key".
    """

    object: JsonObject | None
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = field(default_factory=dict)
