"""POST: a new object enters the store."""

from dataclasses import replace
from typing import Any

from sandbox.admission.request import CREATE
from sandbox.apiserver import conversion, metadata, status, strategy, writing
from sandbox.apiserver.calls import Call
from sandbox.apiserver.services import SERVICES
from sandbox.apiserver.storage import Entry
from sandbox.apiserver.writing import Desk

JsonObject = dict[str, Any]

NAME_ATTEMPTS = 8


class Creator:
    """Creates objects of every kind."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, call: Call, body: JsonObject) -> Entry:
        """Admit and store a new object. Raises StatusError."""
        document = writing.read_identity(call, body)
        document = self._desk.defaulted(call, self._desk.read_typed(call, document))
        return await self.create_read(call, document)

    async def create_read(self, call: Call, document: JsonObject) -> Entry:
        """As `create`, for a document already read against its type (an applied configuration).

        managedFields that the document brings stay as they are.
        """
        desk = self._desk
        if "managedFields" not in document["metadata"]:
            document = desk.owned(call, document, None)
        document = strategy.with_zero_status(call.kind, metadata.without_identity(document))
        base = document["metadata"].get("generateName", "")
        generated = not document["metadata"].get("name")
        named = replace(call, name=document["metadata"].get("name", ""))
        admitted = await desk.admit(named, CREATE, document, None, complete=lambda made: self._complete(call, made))
        for attempt in range(NAME_ATTEMPTS):
            try:
                return self._store(call, admitted)
            except status.StatusError as error:
                if error.reason != "AlreadyExists" or not generated or attempt == NAME_ATTEMPTS - 1:
                    raise
            name = metadata.generated_name(base, desk.randomness)
            admitted = {**admitted, "metadata": {**admitted["metadata"], "name": name}}
        raise AssertionError("the last attempt returns or raises")

    def _complete(self, call: Call, document: JsonObject) -> JsonObject:
        """What storing adds: a name, identity, initial status, addresses."""
        desk = self._desk
        prepared = metadata.for_create(document, call.kind, desk.new_uid(), desk.now())
        if not prepared["metadata"].get("name"):
            prepared["metadata"]["name"] = self._generate_name(call, prepared["metadata"].get("generateName", ""))
        prepared = strategy.prepare_create(call.kind, prepared)
        return desk.services.on_create(prepared) if call.kind.resource == SERVICES else prepared

    def _generate_name(self, call: Call, base: str) -> str:
        if base:
            return metadata.generated_name(base, self._desk.randomness)
        cause = status.Cause(
            "FieldValueRequired", "Required value: name or generateName is required", "metadata.name"
        )
        raise status.invalid(call.kind.group, call.kind.kind, "", [cause])

    def _store(self, call: Call, document: JsonObject) -> Entry:
        desk = self._desk
        resource = conversion.storage_of(call.kind)
        stored = desk.stored(call.kind, document)
        if not call.options.dry_run:
            return desk.storage.create(resource, stored)
        entry = Entry(stored, 0)
        if desk.storage.get(resource, *entry.key) is not None:
            raise status.already_exists(call.kind.group, call.kind.plural, entry.key[1])
        return entry
