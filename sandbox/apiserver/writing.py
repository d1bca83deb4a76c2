"""What all writes share: reading a body against its type, admission, ownership, storing."""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from koord.api.timestamps import format_rfc3339
from sandbox.admission.defaulting import apply_defaults
from sandbox.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest, Admitted, Complete
from sandbox.apiserver import conversion, metadata, status, strategy
from sandbox.apiserver.calls import Call
from sandbox.apiserver.fields import decode, ownership
from sandbox.apiserver.fields.catalog import TypeCatalog
from sandbox.apiserver.kinds import Kind, KindRegistry
from sandbox.apiserver.services import ServiceAllocator
from sandbox.apiserver.storage import Entry, Storage

JsonObject = dict[str, Any]

_OPTIONS_KINDS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


class Admission(Protocol):
    """Whoever judges writes: `sandbox.admission.chain.AdmissionChain`."""

    async def admit(self, request: AdmissionRequest, complete: Complete | None = None) -> Admitted:
        """The object to store, or StatusError."""


@dataclass
class Desk:
    """Where writes are done: the store, the kinds, and the sources of time, names and uids."""

    storage: Storage
    kinds: KindRegistry
    admission: Admission
    types: TypeCatalog = field(default_factory=TypeCatalog)
    clock: Callable[[], float] = time.time
    randomness: random.Random = field(default_factory=random.Random)
    services: ServiceAllocator = field(init=False)

    def __post_init__(self) -> None:
        self.services = ServiceAllocator(self.storage)

    def now(self) -> str:
        """The time in metav1.Time's form."""
        return format_rfc3339(self.clock())

    def new_uid(self) -> str:
        """A fresh uid."""
        return str(uuid.UUID(int=self.randomness.getrandbits(128), version=4))

    def current(self, call: Call) -> Entry:
        """The stored entry that a call names. Raises StatusError NotFound."""
        entry = self.storage.get(conversion.storage_of(call.kind), call.namespace, call.name)
        if entry is None:
            raise status.not_found(call.kind.group, call.kind.plural, call.name)
        return entry

    def stored(self, kind: Kind, document: JsonObject) -> JsonObject:
        """A served document in the version its kind is stored in."""
        resource = conversion.storage_of(kind)
        storage_kind = self.kinds.any_version(resource.group, resource.plural) or kind
        return conversion.to_stored(kind, storage_kind, document)

    def read_typed(self, call: Call, document: JsonObject) -> JsonObject:
        """The document as the server understands it; unknown fields are reported as the request wants.

        Raises StatusError 400 for wrong types, and for unknown fields under fieldValidation=Strict.
        """
        kind = call.kind
        struct = self.types.type_of(kind)
        if kind.custom:
            unknown = decode.unknown_members(document, struct)
        else:
            try:
                read = decode.decode(document, struct)
            except decode.WrongType as error:
                message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
                raise status.bad_request(message) from None
            document, unknown = _with_reset_fields(document, read.document), read.unknown
        if unknown and call.options.field_validation == "Strict":
            told = ", ".join(f'unknown field "{path}"' for path in sorted(unknown))
            raise status.bad_request(f"strict decoding error: {told}")
        if call.options.field_validation == "Warn":
            call.warnings.extend(f'unknown field "{path}"' for path in sorted(unknown))
        return document

    @staticmethod
    def defaulted(call: Call, document: JsonObject) -> JsonObject:
        """A document that `read_typed` has made, with the defaults of its kind.

        Admission does the same; here it makes the client the owner of the defaults, as decoding does in Kubernetes.
        """
        if not call.kind.custom:
            apply_defaults(call.kind.group, call.kind.plural, document)
        return strategy.fold_string_data(document) if call.kind.qualified == "secrets" else document

    async def admit(
        self,
        call: Call,
        operation: str,
        document: JsonObject | None,
        old: JsonObject | None,
        options: JsonObject | None = None,
        complete: Complete | None = None,
    ) -> JsonObject:
        """Ask admission. Raises StatusError; returns {} where there is no object (DELETE)."""
        written = options if options is not None else self._options(call, operation)
        admitted = await self.admission.admit(
            AdmissionRequest(
                operation=operation,
                kind=call.kind,
                subresource=call.subresource,
                namespace=call.namespace,
                name=call.name,
                object=document,
                old_object=old,
                dry_run=call.options.dry_run,
                options=written,
                user=call.user.info(),
            ),
            complete,
        )
        call.warnings.extend(admitted.warnings)
        return admitted.object or {}

    def _options(self, call: Call, operation: str) -> JsonObject:
        options: JsonObject = {"kind": _OPTIONS_KINDS.get(operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"}
        if call.options.field_manager:
            options["fieldManager"] = call.options.field_manager
        if call.options.stated_validation:
            options["fieldValidation"] = call.options.field_validation
        if call.options.dry_run:
            options["dryRun"] = ["All"]
        return options

    def owned(self, call: Call, document: JsonObject, old: JsonObject | None) -> JsonObject:
        """The document with metadata.managedFields after this write; both are in the served version."""
        manager = ownership.Manager(call.manager, ownership.UPDATE, call.kind.api_version, call.subresource)
        struct = self.types.type_of(call.kind)
        fields = ownership.after_update(old, document, struct, manager, self.now())
        return with_managed_fields(document, fields)


def _with_reset_fields(document: JsonObject, read: JsonObject) -> JsonObject:
    """What was read, with an empty managedFields list put back: it asks to forget all owners."""
    if (document.get("metadata") or {}).get("managedFields") not in ([], [{}]):
        return read
    return {**read, "metadata": {**read["metadata"], "managedFields": []}}


def with_managed_fields(document: JsonObject, fields: list[JsonObject]) -> JsonObject:
    """The document with its managedFields replaced."""
    kept = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    if fields:
        kept["managedFields"] = fields
    return {**document, "metadata": kept}


def check_name(document: JsonObject, call: Call) -> JsonObject:
    """The document under the name of the path. Raises StatusError 400 when it carries another one."""
    told = (document.get("metadata") or {}).get("name") or ""
    if told and told != call.name:
        message = f"the name of the object ({told}) does not match the name on the URL ({call.name})"
        raise status.bad_request(message)
    return {**document, "metadata": {**(document.get("metadata") or {}), "name": call.name}}


def read_identity(call: Call, document: JsonObject) -> JsonObject:
    """The document with apiVersion, kind and namespace checked against the path."""
    document = metadata.check_type(document, call.kind)
    return metadata.check_namespace(document, call.kind, call.namespace)
