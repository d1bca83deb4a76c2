"""Koordinator's behaviour as vectors: whole requests in, whole pods out; `preferred` is Koord's answer."""

from __future__ import annotations

import base64
from typing import Any

import jsonpatch
import msgspec
import pytest

from koord.api import names, quantity
from koord.api.objects import PriorityClass
from koord.api.profiles import ClusterColocationProfile
from webhook.context import Context, FeatureGates
from webhook.mutate import decide
from webhook.profiles import ProfileSet
from webhook.quota_tree import ElasticQuota, ElasticQuotaProfile, compile_quota_trees
from webhook.review import decode_review, encode_answer

EXPECTED_TO_COME: dict[str, str] = {}  # case name → why it is not covered yet


def context_of(vector: dict[str, Any]) -> Context:
    namespace = vector["namespace"]
    profiles = msgspec.json.decode(msgspec.json.encode(vector["profiles"] or []), type=list[ClusterColocationProfile])
    classes = msgspec.convert(vector["priorityClasses"] or [], list[PriorityClass])
    return Context(
        profiles=ProfileSet(profiles),
        namespaces={namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {}} if namespace else {},
        priority_classes={found.metadata.name: found for found in classes},
        gates=FeatureGates.from_names(vector.get("featureGates") or {}),
        quota_trees=compile_quota_trees(
            msgspec.convert(vector.get("quotas") or [], list[ElasticQuota]),
            msgspec.convert(vector.get("quotaProfiles") or [], list[ElasticQuotaProfile]),
        ),
    )


def review_of(vector: dict[str, Any]) -> bytes:
    pod = vector["pod"]
    namespace = vector.get("requestNamespace") or ((pod or {}).get("metadata") or {}).get("namespace", "")
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": vector.get("resource", "pods")},
        "subResource": vector.get("subResource", ""),
        "operation": vector["operation"],
        "namespace": namespace,
        "object": pod,
        "oldObject": vector["oldPod"],
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def normalized(value: Any, key: str = "") -> Any:
    """Drop empty maps, read quantities as numbers and the annotation as JSON, as the conventions say."""
    if isinstance(value, dict):
        if key in ("requests", "limits", "overhead"):
            return {name: quantity.nano(amount) for name, amount in value.items()}
        members = {name: normalized(member, name) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in ({}, None)}
    if isinstance(value, list):
        return [normalized(item) for item in value]
    if key == names.ANNOTATION_EXTENDED_RESOURCE_SPEC:
        try:
            return ("parsed", normalized(msgspec.json.decode(value)))
        except msgspec.DecodeError:
            return value
    return value


@pytest.mark.vectors("webhook_mutate")
def test_the_answer_is_the_expected_one(vector: dict[str, Any]) -> None:
    if vector["name"] in EXPECTED_TO_COME:
        pytest.skip(f"expected to come: {EXPECTED_TO_COME[vector['name']]}")
    draws = iter(vector.get("rand", []))
    submission = decode_review(review_of(vector))
    decision = decide(submission, context_of(vector), lambda _: next(draws))
    assert next(draws, None) is None
    answer = msgspec.json.decode(encode_answer(submission, decision))["response"]
    expected = vector.get("preferred", vector["expect"])
    assert answer["allowed"] is expected["allowed"]
    if not expected["allowed"]:
        assert answer["status"]["code"] == expected["code"]
        assert expected["message_contains"] in answer["status"]["message"]
        assert "patch" not in answer
        return
    patch = msgspec.json.decode(base64.b64decode(answer["patch"])) if "patch" in answer else []
    assert ("patchType" in answer) == bool(patch)
    after = jsonpatch.apply_patch(vector["pod"], patch)
    assert normalized(after) == normalized(expected["pod"])
