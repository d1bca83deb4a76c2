"""Pods made from templates: names, labels, owners, and hashes that tell templates apart. Pure."""

import copy
import hashlib
from typing import Final

import msgspec

from koord.api.selectors import LabelSelector, Selector, compile_selector
from koord.kube.resources import Resource
from sandbox.admission.request import JsonObject

HASH_LABEL: Final = "pod-template-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH: Final = 10


def owner_reference(owner: JsonObject, resource: Resource[JsonObject]) -> JsonObject:
    """The reference by which a controller owns what it makes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(owner: JsonObject, resource: Resource[JsonObject], template: JsonObject) -> JsonObject:
    """A new pod with a generated name; the template stays untouched."""
    metadata = template.get("metadata") or {}
    made: JsonObject = {
        "generateName": f"{owner['metadata']['name']}-",
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(metadata.get("labels") or {}),
        "annotations": dict(metadata.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner, resource)],
    }
    if metadata.get("finalizers"):
        made["finalizers"] = list(metadata["finalizers"])
    spec = copy.deepcopy(template.get("spec") or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def template_hash(template: JsonObject) -> str:
    """A short text that is the same for equal templates; the hash label itself does not count."""
    canonical = msgspec.json.encode(without_hash(template), order="deterministic")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def without_hash(template: JsonObject) -> JsonObject:
    """A template without the label that a Deployment adds; empty label maps are dropped."""
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def selector_of(workload: JsonObject) -> Selector:
    """The workload's compiled selector. Raises InvalidSelector."""
    return compile_selector(msgspec.convert((workload.get("spec") or {}).get("selector") or {}, LabelSelector))


def labels_of(obj: JsonObject) -> dict[str, str]:
    """The object's labels, never None."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels
