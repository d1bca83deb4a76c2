"""What the server does to particular kinds before it stores them: initial status, addresses, selectors. Pure."""

import base64
from collections.abc import Callable
from typing import Any

from sandbox.apiserver.kinds import Kind

JsonObject = dict[str, Any]

_INITIAL_STATUS: dict[tuple[str, str], JsonObject] = {
    ("", "namespaces"): {"phase": "Active"},
    ("", "services"): {"loadBalancer": {}},
    ("", "persistentvolumeclaims"): {"phase": "Pending"},
    ("", "persistentvolumes"): {"phase": "Available"},
    ("", "pods"): {"phase": "Pending"},
    ("", "replicationcontrollers"): {"replicas": 0},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"availableReplicas": 0, "replicas": 0},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    ("policy", "poddisruptionbudgets"): {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
}
_STATUS_MAY_COME_WITH_CREATE = frozenset({("", "nodes")})  # a kubelet registers itself with its status

_ZERO = {key: told for key, told in _INITIAL_STATUS.items() if "phase" not in told}

JOB_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name")


def with_zero_status(kind: Kind, document: JsonObject) -> JsonObject:
    """A new document as decoding makes it: a built-in kind that has a status has at least an empty one."""
    if not kind.has_status or kind.custom or "status" in document:
        return document
    return {**document, "status": dict(_ZERO.get((kind.group, kind.plural), {}))}


def prepare_create(kind: Kind, document: JsonObject) -> JsonObject:
    """The document as it is to be stored: status reset, what the server generates filled in."""
    key = (kind.group, kind.plural)
    if kind.has_status and key not in _STATUS_MAY_COME_WITH_CREATE:
        document = {name: value for name, value in document.items() if name != "status"}
        if not kind.custom:
            document["status"] = dict(_INITIAL_STATUS.get(key, {}))
    special = _ON_CREATE.get(key)
    return special(document) if special else document


def prepare_update(kind: Kind, document: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
    """The document limited to what the path may change: all but status, or status alone."""
    if subresource == "status":
        return _only_status(kind, document, old)
    if (kind.group, kind.plural) == ("", "secrets"):
        document = fold_string_data(document)
    return _with_member(document, "status", old) if kind.has_status else document


def _only_status(kind: Kind, document: JsonObject, old: JsonObject) -> JsonObject:
    """Custom kinds keep all metadata but who owns which field; of built-in kinds it may change."""
    metadata = document["metadata"]
    if kind.custom:
        metadata = _with_member(old["metadata"], "managedFields", metadata)
    return {**_with_member(old, "status", document), "metadata": metadata}


def _with_member(document: JsonObject, name: str, source: JsonObject) -> JsonObject:
    result = {key: value for key, value in document.items() if key != name}
    if name in source:
        result[name] = source[name]
    return result


def finished(pod: JsonObject) -> bool:
    """Whether a pod has run to its end."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _namespace(document: JsonObject) -> JsonObject:
    return {**document, "spec": {**(document.get("spec") or {}), "finalizers": ["kubernetes"]}}


def _job(document: JsonObject) -> JsonObject:
    """Give a job the selector over its own uid, and its pods the labels that it selects."""
    spec = dict(document.get("spec") or {})
    if spec.get("manualSelector"):
        return document
    uid, name = document["metadata"]["uid"], document["metadata"].get("name", "")
    template = dict(spec.get("template") or {})
    metadata = dict(template.get("metadata") or {})
    labels = dict(zip(JOB_LABELS, (uid, uid, name, name), strict=True))
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    spec["template"] = {**template, "metadata": metadata}
    spec["selector"] = {"matchLabels": {JOB_LABELS[0]: uid}}
    own = document["metadata"].get("labels") or metadata["labels"]
    return {**document, "metadata": {**document["metadata"], "labels": own}, "spec": spec}


def fold_string_data(document: JsonObject) -> JsonObject:
    """A secret with stringData encoded into data, as writes of secrets are read."""
    texts = document.get("stringData")
    if not texts:
        return document
    encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
    result = {key: value for key, value in document.items() if key != "stringData"}
    result["data"] = {**(document.get("data") or {}), **encoded}
    return result


_ON_CREATE: dict[tuple[str, str], Callable[[JsonObject], JsonObject]] = {
    ("", "namespaces"): _namespace,
    ("", "secrets"): fold_string_data,
    ("batch", "jobs"): _job,
}
