"""Between the stored form of an object and the version it is served as. Pure.

Custom kinds convert by their apiVersion alone (strategy None). Events are stored as core/v1 and served as
events.k8s.io/v1 too, where some members have other names.
"""

from typing import Any

from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.storage import Entry, GroupResource, encode

JsonObject = dict[str, Any]

CORE_EVENTS = GroupResource("", "events")
_EVENT_NAMES = {
    "message": "note",
    "involvedObject": "regarding",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_EVENT_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def storage_of(kind: Kind) -> GroupResource:
    """Where a kind's objects are stored."""
    return CORE_EVENTS if kind.plural == "events" and kind.group == "events.k8s.io" else kind.resource


def to_stored(kind: Kind, stored_kind: Kind, document: JsonObject) -> JsonObject:
    """A served document as it is stored."""
    if kind.api_version == stored_kind.api_version:
        return document
    if storage_of(kind) == CORE_EVENTS:
        document = {_CORE_EVENT_NAMES.get(key, key): value for key, value in document.items()}
    return {**document, "apiVersion": stored_kind.api_version}


def served(kind: Kind, document: JsonObject) -> JsonObject:
    """A stored document in the version of `kind`."""
    if document.get("apiVersion") == kind.api_version:
        return document
    if storage_of(kind) == CORE_EVENTS:
        document = {_EVENT_NAMES.get(key, key): value for key, value in document.items()}
    return {**document, "apiVersion": kind.api_version}


def served_json(kind: Kind, entry: Entry) -> bytes:
    """The JSON of an entry in the version of `kind`, encoded once."""
    encoded = entry.encodings.get(kind.api_version)
    if encoded is None:
        encoded = entry.encodings[kind.api_version] = encode(served(kind, entry.object))
    return encoded
