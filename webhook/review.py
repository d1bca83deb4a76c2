"""The wire: AdmissionReview v1 and v1beta1 in, the same version out. Pure.

The pod is decoded straight into its view. The bytes are kept, for the rare decision that needs the whole pod.
"""

from __future__ import annotations

import msgspec

from koord.api.objects import JsonObject
from webhook.decision import Decision
from webhook.judgement import Judgement
from webhook.views import PodView, View

API_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
CREATE = "CREATE"


class BadReview(ValueError):  # noqa: N818 - named by what it is
    """The body is no AdmissionReview that can be answered; the message is for the HTTP answer."""


class GroupVersionResource(View, frozen=True):
    """What kind of object the request is about."""

    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionRequest(View, frozen=True):
    """The request, with the pod as far as it is looked at."""

    uid: str = ""
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    object: PodView | None = None

    @property
    def is_pod(self) -> bool:
        """Whether the object is a pod itself, not another kind or a subresource."""
        return self.resource.resource == "pods" and not self.resource.group and not self.sub_resource


class _Review(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _Envelope(View, frozen=True):
    """A review whose object is not looked at: for answers about objects that do not decode."""

    api_version: str = ""
    kind: str = ""
    request: _Header | None = None


class _Header(View, frozen=True):
    uid: str = ""
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None


class Submission:
    """One decoded review."""

    __slots__ = ("_body", "_document", "api_version", "decode_error", "request")

    def __init__(self, api_version: str, request: AdmissionRequest, body: bytes, decode_error: str = "") -> None:
        self.api_version = api_version
        self.request = request
        self.decode_error = decode_error
        self._body = body
        self._document: JsonObject | None = None

    @property
    def document(self) -> JsonObject:
        """The pod as a whole. Never change it in place."""
        if self._document is None:
            self._document = msgspec.json.decode(self._body)["request"]["object"]
        return self._document

    def mentions(self, text: bytes) -> bool:
        """Whether the raw bytes hold the text: a cheap reason to look closer, or not to."""
        return text in self._body


_DECODER = msgspec.json.Decoder(_Review)
_ENVELOPE_DECODER = msgspec.json.Decoder(_Envelope)
_ENCODER = msgspec.json.Encoder()


def decode_review(body: bytes) -> Submission:
    """Decode a review. Raises BadReview when nobody could be answered.

    An object that is not a pod, or a pod that does not decode, gives a submission with `decode_error`.
    """
    try:
        review = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        return _decode_envelope(body, str(error))
    except msgspec.DecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    request = review.request
    check_envelope(review.api_version, review.kind, request is not None and bool(request.uid))
    assert request is not None
    return Submission(review.api_version, request, body)


def _decode_envelope(body: bytes, problem: str) -> Submission:
    try:
        envelope = _ENVELOPE_DECODER.decode(body)
    except msgspec.MsgspecError:
        raise BadReview(f"the body is not an AdmissionReview: {problem}") from None
    header = envelope.request
    check_envelope(envelope.api_version, envelope.kind, header is not None and bool(header.uid))
    assert header is not None
    request = AdmissionRequest(**{name: getattr(header, name) for name in header.__struct_fields__})
    return Submission(envelope.api_version, request, body, problem)


def check_envelope(api_version: str, kind: str, has_uid: bool) -> None:
    """Raises BadReview for what is no AdmissionReview of a known version with a request."""
    if api_version not in API_VERSIONS or kind != "AdmissionReview":
        allowed = ", ".join(API_VERSIONS)
        raise BadReview(f"expected an AdmissionReview of {allowed}, got {kind or 'no kind'} {api_version!r}")
    if not has_uid:
        raise BadReview("the review has no request, or its request no uid")


def submission_of(pod: JsonObject, namespace: str = "", uid: str = "offline") -> Submission:
    """A submission to create `pod`, for programs that ask what the webhook would do with it."""
    namespace = namespace or (pod.get("metadata") or {}).get("namespace") or "default"
    body: JsonObject = {
        "apiVersion": API_VERSIONS[0],
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "resource": {"version": "v1", "resource": "pods"},
            "operation": CREATE,
            "namespace": namespace,
            "object": pod,
        },
    }
    return decode_review(msgspec.json.encode(body))


class _Status(msgspec.Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    reason: str = ""


class _Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch_type: str = ""
    patch: bytes = b""
    status: _Status | None = None
    warnings: tuple[str, ...] = ()


class _ReviewAnswer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    response: _Response


def encode_answer(submission: Submission, decision: Decision) -> bytes:
    """The answer as JSON. Without a change neither patch nor patchType appears: the API server refuses half."""
    return encode_response(submission.api_version, submission.request.uid, decision)


def encode_response(api_version: str, uid: str, outcome: Decision | Judgement) -> bytes:
    """The answer to the review `uid`, in the version that it came in."""
    status = None
    if not outcome.allowed:
        status = _Status(outcome.code, outcome.message)
    if outcome.operations:
        patch = _ENCODER.encode(outcome.operations)
        response = _Response(uid, outcome.allowed, "JSONPatch", patch, status, outcome.warnings)
    else:
        response = _Response(uid, outcome.allowed, status=status, warnings=outcome.warnings)
    return _ENCODER.encode(_ReviewAnswer(api_version, "AdmissionReview", response))


def pod_reference(submission: Submission) -> str:
    """The pod as a person finds it: namespace/name, or namespace/generateName* before it has a name."""
    request = submission.request
    metadata = request.object.metadata if request.object is not None else None
    namespace = (metadata.namespace if metadata is not None else None) or request.namespace
    if metadata is None:
        return f"{namespace}/{request.name}"
    return f"{namespace}/{metadata.name or f'{metadata.generate_name or request.name}*'}"
