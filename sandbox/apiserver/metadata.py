"""What the server itself writes into metadata: identity, times, generation, generated names. Pure but for randomness
that the caller passes in."""

import random
from typing import Any

from sandbox.apiserver import status
from sandbox.apiserver.kinds import Kind

JsonObject = dict[str, Any]

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes: no vowels, nothing that looks alike
SUFFIX_LENGTH = 5
MAX_BASE_LENGTH = 63 - SUFFIX_LENGTH

_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_KEPT_FROM_OLD = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
    "generateName",
    "resourceVersion",
    "selfLink",
)


def generated_name(base: str, source: random.Random) -> str:
    """A name for generateName; the base is cut so that the whole stays within 63 characters."""
    suffix = "".join(source.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
    return base[:MAX_BASE_LENGTH] + suffix


def check_type(document: JsonObject, kind: Kind) -> JsonObject:
    """The document with its apiVersion and kind. Raises StatusError 400 when they are not those of the path.

    Built-in kinds may leave them out, as in Kubernetes.
    """
    api_version, name = document.get("apiVersion", ""), document.get("kind", "")
    if kind.custom and not name:
        raise status.bad_request("Object 'Kind' is missing in the body of the request")
    if kind.custom and not api_version:
        raise status.bad_request("Object 'apiVersion' is missing in the body of the request")
    if (api_version or kind.api_version) != kind.api_version or (name or kind.kind) != kind.kind:
        message = (
            f"the API version in the data ({api_version}, Kind={name}) does not match the expected API version "
            f"({kind.api_version}, Kind={kind.kind})"
        )
        raise status.bad_request(message)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **_without(document, ("apiVersion", "kind"))}


def check_namespace(document: JsonObject, kind: Kind, namespace: str) -> JsonObject:
    """The document within the namespace of the path. Raises StatusError 400 when it names another one."""
    metadata = dict(document.get("metadata") or {})
    told = metadata.get("namespace") or ""
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif told and told != namespace:
        message = (
            f"the namespace of the provided object does not match the namespace sent on the request "
            f"({told} != {namespace})"
        )
        raise status.bad_request(message)
    else:
        metadata["namespace"] = namespace
    return {**document, "metadata": metadata}


def without_identity(document: JsonObject) -> JsonObject:
    """A document to be created, without what only the server may say of it."""
    return {**document, "metadata": _without(document["metadata"], _SYSTEM_FIELDS)}


def for_create(document: JsonObject, kind: Kind, uid: str, now: str) -> JsonObject:
    """The document with a fresh identity. Raises StatusError when it carries a resourceVersion."""
    metadata = _without(document["metadata"], (*_SYSTEM_FIELDS, "generation"))
    if metadata.pop("resourceVersion", ""):
        raise status.StatusError(500, "", "resourceVersion should not be set on objects to be created")
    metadata |= {"uid": uid, "creationTimestamp": now}
    if kind.generation or kind.custom:
        metadata["generation"] = 1
    return {**document, "metadata": metadata}


def for_update(document: JsonObject, old: JsonObject) -> JsonObject:
    """The document with what a client cannot change taken from the stored one."""
    metadata = _without(document["metadata"], _KEPT_FROM_OLD)
    kept = {key: old["metadata"][key] for key in _KEPT_FROM_OLD if key in old["metadata"]}
    if "managedFields" not in metadata and "managedFields" in old["metadata"]:
        kept["managedFields"] = old["metadata"]["managedFields"]
    return {**document, "metadata": {**metadata, **kept}}


def with_generation(document: JsonObject, old: JsonObject, kind: Kind) -> JsonObject:
    """The document with its generation raised when its desired state differs from the stored one."""
    if not (kind.generation or kind.custom) or desired_state(document) == desired_state(old):
        return document
    generation = int(old["metadata"].get("generation", 0)) + 1
    return {**document, "metadata": {**document["metadata"], "generation": generation}}


def desired_state(document: JsonObject) -> JsonObject:
    """All but metadata and status."""
    return _without(document, ("metadata", "status"))


def _without(entries: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {key: value for key, value in entries.items() if key not in names}
