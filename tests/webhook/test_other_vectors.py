"""Koordinator's handling of configuration and nodes as vectors; `preferred` is Koord's answer."""

from __future__ import annotations

import base64
from typing import Any

import jsonpatch
import msgspec
import pytest

from koord.api import names, quantity
from koord.api.objects import ConfigMap, Node
from webhook.judgement import Judgement
from webhook.object_review import ObjectReview, decode_object_review, encode_judgement
from webhook.validation.routes import ConfigPlace, amplify_review, judge_config_review, judge_node_review

ELSEWHERE = ("elasticquota", "reservation", "pod-binding")
"""Paths that are no part of this webhook."""


def review_of(vector: dict[str, Any], resource: str, field: str, old: str) -> bytes:
    new, before = vector.get(field), vector.get(old)
    metadata = (new or before or {}).get("metadata") or {}
    request = {
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": resource},
        "subResource": vector.get("subResource", ""),
        "operation": vector["operation"],
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "object": new,
        "oldObject": before,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def answer(vector: dict[str, Any]) -> tuple[ObjectReview[Any], Judgement]:
    path = vector["path"]
    if path == "/mutate-node-status":
        amplified = decode_object_review(review_of(vector, "nodes", "node", "oldNode"), msgspec.json.Decoder(dict))
        return amplified, amplify_review(amplified)
    if path == "/validate-node":
        node = decode_object_review(review_of(vector, "nodes", "node", "oldNode"), msgspec.json.Decoder(Node))
        config = vector.get("configMap")
        return node, judge_node_review(node, msgspec.convert(config, ConfigMap) if config else None)
    body = review_of(vector, "configmaps", "configMap", "oldConfigMap")
    review = decode_object_review(body, msgspec.json.Decoder(ConfigMap))
    flags = vector.get("flags") or {}
    place = ConfigPlace(need_names=str(flags.get("node-strategy-name-need-check", "")).lower() == "true")
    nodes = [(node["metadata"]["name"], node["metadata"].get("labels") or {}) for node in vector["nodes"]]
    return review, judge_config_review(review, place, nodes)


def normalized(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key in ("allocatable", "capacity"):
            return {name: quantity.nano(amount) for name, amount in value.items()}
        members = {name: normalized(member, name) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in ({}, None)}
    if key == names.ANNOTATION_RAW_ALLOCATABLE:
        return {name: quantity.nano(amount) for name, amount in msgspec.json.decode(value).items()}
    return value


@pytest.mark.vectors("webhook_other")
def test_the_answer_is_the_expected_one(vector: dict[str, Any]) -> None:
    if any(part in vector["path"] for part in ELSEWHERE):
        pytest.skip(f"no part of this webhook: {vector['path']}")
    review, judgement = answer(vector)
    response = msgspec.json.decode(encode_judgement(review, judgement))["response"]
    expected = vector.get("preferred", vector["expect"])
    if vector["path"] == "/mutate-node-status" and not expected["allowed"]:
        # Refusing would keep the kubelet from reporting: passed over, with what Koordinator says as a warning.
        assert response["allowed"] and "patch" not in response
        assert expected["reason_contains"] in response["warnings"][0]
        return
    assert response["allowed"] is expected["allowed"], response
    if not expected["allowed"]:
        assert response["status"]["code"] == expected["code"]
        assert expected["reason_contains"] in response["status"]["message"]
    elif "node" in expected:
        patch = msgspec.json.decode(base64.b64decode(response["patch"])) if "patch" in response else []
        assert normalized(jsonpatch.apply_patch(vector["node"], patch)) == normalized(expected["node"])
