"""PUT and PATCH: a stored object changes, also by server-side apply."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.admission.request import UPDATE
from sandbox.apiserver import bodies, conversion, metadata, patches, query, scaling, status, strategy, writing
from sandbox.apiserver.calls import Call
from sandbox.apiserver.creating import Creator
from sandbox.apiserver.fields import decode, merge, ownership
from sandbox.apiserver.services import SERVICES
from sandbox.apiserver.storage import Entry
from sandbox.apiserver.writing import Desk

JsonObject = dict[str, Any]

ATTEMPTS = 6  # of a write without a version of its own, when others write at the same time


@dataclass(frozen=True)
class Proposal:
    """The document that a request wants stored. `version` is the one it was based on, None for any.

    `owned`: its managedFields are already right (server-side apply).
    """

    document: JsonObject
    version: int | None = None
    owned: bool = False


Propose = Callable[[JsonObject], Proposal]  # from the current document, in the served version


class Updater:
    """Changes objects of every kind."""

    def __init__(self, desk: Desk, creator: Creator) -> None:
        self._desk = desk
        self._creator = creator

    async def replace(self, call: Call, body: JsonObject) -> Entry:
        """PUT. Raises StatusError NotFound, Conflict, Invalid, BadRequest."""
        document = writing.check_name(writing.read_identity(call, body), call)
        document = self._desk.defaulted(call, self._desk.read_typed(call, document))
        if call.kind.custom and not document["metadata"].get("resourceVersion"):
            text = "Invalid value: 0: must be specified for an update"
            self._desk.current(call)
            cause = status.Cause("FieldValueInvalid", text, "metadata.resourceVersion")
            raise status.invalid(call.kind.group, call.kind.kind, call.name, [cause])
        version = _version(document)
        return await self.change(call, lambda _current: Proposal(document, version))

    async def patch(self, call: Call, body: bytes, content_type: str) -> tuple[Entry, bool]:
        """PATCH in any format; the second value tells whether an applied object was created."""
        if content_type not in patches.accepted(call.kind):
            raise status.unsupported_media_type(content_type, patches.accepted(call.kind))
        if content_type == patches.APPLY_PATCH:
            return await self._apply(call, body)
        if call.options.force:
            told = "Forbidden: may not be specified for non-apply patch"
            raise _options_error("FieldValueForbidden", told, "force")

        def propose(current: JsonObject) -> Proposal:
            patched = patches.patch(current, body, content_type, call.kind)
            document = writing.check_name(writing.read_identity(call, patched), call)
            version = _version(document)
            based_on = None if version == _version(current) else version
            return Proposal(self._read_patched(call, document), based_on)

        return await self.change(call, propose), False

    def _read_patched(self, call: Call, document: JsonObject) -> JsonObject:
        """Read what a patch made. Raises StatusError 422: the patch is what is wrong."""
        try:
            return self._desk.defaulted(call, self._desk.read_typed(call, document))
        except status.StatusError as error:
            if error.reason != "BadRequest":
                raise
            shown = json.dumps(msgspec.json.encode(document).decode())
            cause = status.Cause("FieldValueInvalid", f"Invalid value: {shown}: {error.message}", "patch")
            raise status.invalid("", "", "", [cause]) from None

    async def change(self, call: Call, propose: Propose) -> Entry:
        """Store what `propose` makes of the current object, again when others interfere. Raises StatusError."""
        desk = self._desk
        for attempt in range(ATTEMPTS):
            current = desk.current(call)
            del call.warnings[:]
            proposal = propose(conversion.served(call.kind, current.object))
            _check_preconditions(call, proposal, current)
            document = await self._admitted(call, proposal, current)
            try:
                return self._store(call, document, current)
            except status.StatusError as error:
                last = attempt == ATTEMPTS - 1
                if error.reason != "Conflict" or proposal.version is not None or last:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def change_unasked(self, call: Call, propose: Propose) -> Entry:
        """Store what `propose` makes of the current object as it is: no limits by subresource, no admission.

        For changes that a subresource of its own stands for (a binding), which admission has judged already.
        """
        desk = self._desk
        current = desk.current(call)
        old = conversion.served(call.kind, current.object)
        document = desk.owned(call, propose(old).document, old)
        return self._store(call, document, current)

    async def _admitted(self, call: Call, proposal: Proposal, current: Entry) -> JsonObject:
        desk = self._desk
        old = conversion.served(call.kind, current.object)
        proposed = proposal.document
        if call.subresource and not proposal.owned:  # owners are not a client's to edit here
            proposed = writing.with_managed_fields(proposed, old["metadata"].get("managedFields", []))
        document = metadata.for_update(proposed, old)
        document = strategy.prepare_update(call.kind, document, old, call.subresource)
        if call.kind.resource == SERVICES and not call.subresource:
            document = desk.services.on_update(document, old)
        if not proposal.owned:
            document = desk.owned(call, document, old)
        if call.subresource == "scale":
            before, asked = scaling.scale_of(call.kind, old), scaling.scale_of(call.kind, document)
            document = scaling.scaled(call.kind, document, await desk.admit(call, UPDATE, asked, before))
        else:
            document = await desk.admit(call, UPDATE, document, old)
        return metadata.with_generation(document, old, call.kind)

    def _store(self, call: Call, document: JsonObject, current: Entry) -> Entry:
        desk = self._desk
        stored = desk.stored(call.kind, document)
        if call.options.dry_run:
            return Entry(stored, current.version)
        resource = conversion.storage_of(call.kind)
        entry = desk.storage.update(resource, stored, expected=current.version)
        if deletion_is_complete(call, entry.object):
            return desk.storage.delete(resource, *entry.key)
        return entry

    async def _apply(self, call: Call, body: bytes) -> tuple[Entry, bool]:
        if not call.options.field_manager:
            raise _options_error("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        config = self._read_configuration(call, body)
        resource = conversion.storage_of(call.kind)
        if self._desk.storage.get(resource, call.namespace, call.name) is None:
            return await self._apply_new(call, config), True

        def propose(current: JsonObject) -> Proposal:
            applied = self._merge(call, current, config)
            return Proposal(applied.document, _version(config), owned=True)

        return await self.change(call, propose), False

    async def _apply_new(self, call: Call, config: JsonObject) -> Entry:
        if call.subresource:
            raise status.not_found(call.kind.group, call.kind.plural, call.name)
        if config["metadata"].get("uid"):
            raise status.conflict(
                call.kind.group,
                call.kind.plural,
                call.name,
                "uid mismatch: the provided object "
                f"specified uid {config['metadata']['uid']}, and no existing object was found",
            )
        return await self._creator.create_read(call, self._merge(call, {}, config).document)

    def _read_configuration(self, call: Call, body: bytes) -> JsonObject:
        document = bodies.as_object(bodies.read_yaml(body))
        for member in ("apiVersion", "kind"):
            if not document.get(member):
                raise status.bad_request(f"invalid object type: {member} is missing in the applied configuration")
        document = writing.check_name(writing.read_identity(call, document), call)
        if document["metadata"].pop("managedFields", None):
            raise status.bad_request("metadata.managedFields must be nil")
        self._check_declared(call, document)
        document = self._desk.read_typed(call, document)
        if call.kind.has_status:
            other = [key for key in document if (key == "status") != (call.subresource == "status")]
            identity = ("apiVersion", "kind", "metadata")
            document = {key: value for key, value in document.items() if key in identity or key not in other}
        return document

    def _check_declared(self, call: Call, document: JsonObject) -> None:
        unknown = decode.unknown_members(document, self._desk.types.type_of(call.kind))
        if unknown:
            told = "; ".join(f".{path}: field not declared in schema" for path in unknown)
            name = f"{call.namespace}/{call.name}; {call.kind.api_version}, Kind={call.kind.kind}"
            raise status.StatusError(500, "", f"failed to create typed patch object ({name}): {told}")

    def _merge(self, call: Call, live: JsonObject, config: JsonObject) -> merge.Applied:
        manager = ownership.Manager(call.manager, ownership.APPLY, call.kind.api_version, call.subresource)
        struct = self._desk.types.type_of(call.kind)
        try:
            return merge.apply_over_last_applied(
                live, config, struct, manager, self._desk.now(), force=call.options.force
            )
        except merge.ApplyConflict as error:
            causes = [
                status.Cause("FieldManagerConflict", conflict.sentence(), conflict.path)
                for conflict in error.conflicts
            ]
            details = {"causes": [cause.document() for cause in causes]}
            raise status.StatusError(409, "Conflict", str(error), details) from None


def _options_error(reason: str, text: str, field: str) -> status.StatusError:
    return status.invalid("meta.k8s.io", "PatchOptions", "", [status.Cause(reason, text, field)])


def _version(document: JsonObject) -> int | None:
    text = (document.get("metadata") or {}).get("resourceVersion") or ""
    return query.version_number(text) if text and text != "0" else None


def _check_preconditions(call: Call, proposal: Proposal, current: Entry) -> None:
    kind = call.kind
    uid = proposal.document["metadata"].get("uid")
    stored_uid = current.object["metadata"].get("uid")
    if uid and uid != stored_uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"
        raise status.conflict(kind.group, kind.plural, call.name, why)
    if proposal.version is not None and proposal.version != current.version:
        raise status.conflict(kind.group, kind.plural, call.name)


def deletion_is_complete(call: Call, document: JsonObject) -> bool:
    """Whether nothing holds back an object whose deletion has been asked for."""
    meta = document["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if (call.kind.group, call.kind.plural) == ("", "namespaces"):
        return not (document.get("spec") or {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")
