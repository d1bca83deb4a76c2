"""AdmissionReview documents: building the request, and judging the answer as the API server does. Pure."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any, Final

import jsonpatch

from sandbox.admission.request import AdmissionRequest, JsonObject
from sandbox.apiserver.status import StatusError, internal_error

API_VERSION: Final = "admission.k8s.io/v1"
_OWN_KINDS: Final = ("binding", "eviction", "scale", "token")
"""Subresources whose documents have a kind of their own."""


class InvalidAnswer(Exception):  # noqa: N818 - named by what it says
    """The webhook's answer breaks the protocol; its failurePolicy decides what follows."""


@dataclass(frozen=True)
class Verdict:
    """A protocol-conforming answer. `patch` holds JSON Patch operations, empty for none."""

    allowed: bool
    patch: list[JsonObject] = field(default_factory=list)
    status: JsonObject = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = field(default_factory=dict)


def build_review(request: AdmissionRequest, uid: str) -> JsonObject:
    """The AdmissionReview to send. It shares the request's objects: encode it before they change."""
    kind = {"group": request.kind.group, "version": request.kind.version, "kind": request.kind.kind}
    subject = request.object or {}
    if request.subresource in _OWN_KINDS and subject.get("kind"):
        group, _, version = str(subject.get("apiVersion", "")).rpartition("/")
        kind = {"group": group, "version": version, "kind": subject["kind"]}
    resource = {"group": request.kind.group, "version": request.kind.version, "resource": request.kind.plural}
    body: JsonObject = {"uid": uid, "kind": kind, "resource": resource}
    if request.subresource:
        body["subResource"] = request.subresource
    body |= {"requestKind": kind, "requestResource": resource}
    if request.subresource:
        body["requestSubResource"] = request.subresource
    body |= {key: text for key, text in (("name", request.name), ("namespace", request.namespace)) if text}
    body |= {
        "operation": request.operation,
        "userInfo": request.user,
        "object": request.object,
        "oldObject": request.old_object,
        "dryRun": request.dry_run,
        "options": request.options or None,
    }
    return {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": body}


def read_verdict(answer: object, uid: str, *, mutating: bool) -> Verdict:
    """Check an answer's form and decode its patch. Raises InvalidAnswer with the API server's words."""
    response = _response_of(answer, uid)
    patch = response.get("patch")
    if patch and not mutating:
        raise InvalidAnswer("validating webhook may not return response.patch")
    if bool(patch) != bool(response.get("patchType")):
        given, missing = ("patch", "patchType") if patch else ("patchType", "patch")
        raise InvalidAnswer(f"webhook returned response.{given} but not response.{missing}")
    if patch and response["patchType"] != "JSONPatch":
        raise InvalidAnswer(f'webhook returned invalid response.patchType of "{response["patchType"]}"')
    return Verdict(
        allowed=bool(response.get("allowed")),
        patch=_operations(patch) if patch else [],
        status=response.get("status") or {},
        warnings=tuple(str(text) for text in response.get("warnings") or ()),
        audit_annotations={str(key): str(text) for key, text in (response.get("auditAnnotations") or {}).items()},
    )


def _response_of(answer: object, uid: str) -> JsonObject:
    if not isinstance(answer, dict):
        raise InvalidAnswer("received an answer that is no JSON object")
    found = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
    if answer.get("apiVersion") != API_VERSION or answer.get("kind") != "AdmissionReview":
        raise InvalidAnswer(f"expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {found}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise InvalidAnswer("webhook response was absent")
    if response.get("uid") != uid:
        raise InvalidAnswer(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return response


def _operations(patch: Any) -> list[JsonObject]:
    try:
        operations = json.loads(base64.b64decode(patch, validate=True))
    except (TypeError, ValueError, binascii.Error) as error:
        raise internal_error(f"invalid response.patch: {error}") from error
    if not isinstance(operations, list):
        raise internal_error("response.patch is no list of operations")
    return operations


def apply_patch(obj: JsonObject, operations: list[JsonObject], hook_name: str) -> JsonObject:
    """A patched copy. Raises StatusError 500: a patch that does not apply refuses the request."""
    try:
        patched = jsonpatch.JsonPatch(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise internal_error(f'cannot apply the patch of webhook "{hook_name}": {error}') from error
    if not isinstance(patched, dict):
        raise internal_error(f'the patch of webhook "{hook_name}" leaves no object')
    return patched


def denial(hook_name: str, status: JsonObject) -> StatusError:
    """What the client gets when a webhook says no: the webhook's code and reason, never below 400."""
    code = int(status.get("code") or 0)
    prefix = f'admission webhook "{hook_name}" denied the request'
    explanation = status.get("message") or status.get("reason")
    message = f"{prefix}: {explanation}" if explanation else f"{prefix} without explanation"
    details = status.get("details")
    return StatusError(code if code >= 400 else 400, str(status.get("reason") or ""), message, details)
