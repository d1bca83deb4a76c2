"""Koordinator's validation as vectors: whole requests in, verdicts out; `preferred` is Koord's answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.api.objects import Pod
from webhook.context import FeatureGates
from webhook.object_review import decode_object_review, encode_judgement
from webhook.quota_tree import ElasticQuota
from webhook.validation.pods import PodRules
from webhook.validation.quotas import Quotas
from webhook.validation.required_labels import parse
from webhook.validation.routes import judge_pod

ELSEWHERE = ("EnableQuotaAdmission", "EnableQuotaAdmissionOnUpdate")
"""Gates of quota admission, which is no part of this webhook."""


def rules_of(vector: dict[str, Any]) -> PodRules:
    quotas = msgspec.convert(vector.get("quotas") or [], list[ElasticQuota], strict=False)
    return PodRules(
        FeatureGates.from_names(vector.get("featureGates") or {}),
        Quotas.of(quotas),
        parse(vector.get("enhancedValidatorConfig")),
    )


def review_of(vector: dict[str, Any]) -> bytes:
    pod = vector["pod"]
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": {"group": "", "version": "v1", "resource": vector.get("resource", "pods")},
        "subResource": vector.get("subResource", ""),
        "operation": vector["operation"],
        "namespace": ((pod or vector["oldPod"] or {}).get("metadata") or {}).get("namespace", ""),
        "object": pod,
        "oldObject": vector["oldPod"],
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


@pytest.mark.vectors("webhook_validate")
def test_the_verdict_is_the_expected_one(vector: dict[str, Any]) -> None:
    if any(gate in (vector.get("featureGates") or {}) for gate in ELSEWHERE):
        pytest.skip("expected to come: quota admission")
    review = decode_object_review(review_of(vector), msgspec.json.Decoder(Pod))
    answer = msgspec.json.decode(encode_judgement(review, judge_pod(review, rules_of(vector))))["response"]
    expected = vector.get("preferred", vector["expect"])
    assert answer["allowed"] is expected["allowed"], answer
    if not expected["allowed"]:
        assert answer["status"]["code"] == expected["code"]
        assert expected["reason_contains"] in answer["status"]["message"]
