"""Applies JSON, merge and strategic merge patches to a document. Pure."""

from typing import Any

import jsonpatch

from koord.api.strategic_merge import StrategicMergeError, merge_schema, strategic_merge
from sandbox.apiserver import bodies, status
from sandbox.apiserver.kinds import Kind

JsonObject = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MAX_OPERATIONS = 10_000


def accepted(kind: Kind) -> tuple[str, ...]:
    """The patch formats of a kind; custom kinds know no strategic merge."""
    if kind.custom:
        return JSON_PATCH, MERGE_PATCH, APPLY_PATCH
    return JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH


def patch(document: JsonObject, body: bytes, content_type: str, kind: Kind) -> JsonObject:
    """The patched document. Raises StatusError 400, 415 or 422; the input stays untouched."""
    if content_type == JSON_PATCH:
        return _json_patch(document, bodies.read_json(body))
    change = bodies.as_object(bodies.read_json(body))
    if content_type == MERGE_PATCH:
        merged: JsonObject = merge(document, change)
        return merged
    schema = merge_schema(kind.api_version, kind.kind)
    if schema is None:
        raise status.unsupported_media_type(content_type, accepted(kind))
    try:
        return strategic_merge(document, change, schema)
    except StrategicMergeError as error:
        raise status.bad_request(str(error)) from None


def merge(target: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _json_patch(document: JsonObject, operations: Any) -> JsonObject:
    if not isinstance(operations, list):
        raise status.bad_request("json: a JSON patch must be an array of operations")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise status.StatusError(413, "RequestEntityTooLarge", message)
    try:
        return bodies.as_object(jsonpatch.JsonPatch(operations).apply(document))
    except jsonpatch.JsonPatchException as error:
        raise _rejected(str(error)) from None
    except (jsonpatch.JsonPointerException, TypeError, KeyError, AttributeError) as error:
        raise _rejected(f"cannot apply the patch: {error}") from None


def _rejected(why: str) -> status.StatusError:
    message = "the server rejected our request due to an error in our request"
    cause = status.Cause("UnexpectedServerResponse", why)
    return status.StatusError(422, "Invalid", message, {"causes": [cause.document()]})
