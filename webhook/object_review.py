"""AdmissionReviews of any kind of object, decoded as far as a judge looks. Pure; `review` is the pods' fast way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from webhook.judgement import Judgement
from webhook.review import BadReview, GroupVersionResource, check_envelope, encode_response
from webhook.views import View

T = TypeVar("T")


class _Request(View, frozen=True):
    uid: str = ""
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class _Review(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_DECODER = msgspec.json.Decoder(_Review)
_JUDGED = frozenset({"pods", "clustercolocationprofiles", "configmaps", "nodes"})


@dataclass(frozen=True, slots=True)
class ObjectReview(Generic[T]):
    """One review; `new` and `old` are None when absent, `problem` says why they could not be decoded."""

    api_version: str
    uid: str
    resource: str
    """`plural` or `plural.group`."""
    sub_resource: str
    operation: str
    namespace: str
    name: str
    new: T | None
    old: T | None
    problem: str = ""

    @property
    def resource_kind(self) -> str:
        """The resource for a metric's label: one of those we judge, else `other`."""
        plural = self.resource.partition(".")[0]
        return plural if plural in _JUDGED else "other"

    @property
    def reference(self) -> str:
        """The object as a person finds it."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource}/{place}"


def decode_object_review(body: bytes, decoder: msgspec.json.Decoder[T]) -> ObjectReview[T]:
    """Decode a review whose objects have the decoder's type. Raises BadReview when nobody could be answered."""
    try:
        review = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise BadReview(f"the body is not an AdmissionReview: {error}") from error
    request = review.request
    check_envelope(review.api_version, review.kind, request is not None and bool(request.uid))
    assert request is not None
    new = old = None
    problem = ""
    try:
        new, old = _decode(request.object, decoder), _decode(request.old_object, decoder)
    except msgspec.MsgspecError as error:
        problem = str(error)
    group = request.resource.group
    return ObjectReview(
        review.api_version,
        request.uid,
        f"{request.resource.resource}.{group}" if group else request.resource.resource,
        request.sub_resource,
        request.operation,
        request.namespace,
        request.name,
        new,
        old,
        problem,
    )


def _decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T | None:
    text = bytes(raw)
    return None if text in (b"", b"null") else decoder.decode(text)


def encode_judgement(review: ObjectReview[T], judgement: Judgement) -> bytes:
    """The answer as JSON."""
    return encode_response(review.api_version, review.uid, judgement)
