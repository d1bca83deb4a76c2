"""Objects that a Kubernetes API server makes by itself when it starts."""

from collections.abc import Callable
from typing import Any

from sandbox.apiserver.kinds import KindRegistry
from sandbox.apiserver.storage import Storage

JsonObject = dict[str, Any]

_SYSTEM_CLASSES = {
    "system-cluster-critical": (2_000_000_000, "Used for system critical pods that may move to another node."),
    "system-node-critical": (2_000_001_000, "Used for system critical pods that must not leave their node."),
}
_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def plant(storage: Storage, kinds: KindRegistry, new_uid: Callable[[], str], now: str) -> None:
    """Create what is missing: the two system priority classes and the four system namespaces."""
    documents = [*map(_priority_class, _SYSTEM_CLASSES), *map(_namespace, _SYSTEM_NAMESPACES)]
    for group, plural, document in documents:
        kind = kinds.any_version(group, plural)
        name = document["metadata"]["name"]
        if kind is None or storage.read(group, plural, "", name) is not None:
            continue
        metadata = {**document["metadata"], "uid": new_uid(), "creationTimestamp": now}
        identity = {"apiVersion": kind.api_version, "kind": kind.kind}
        storage.create(kind.resource, {**identity, **document, "metadata": metadata})


def _priority_class(name: str) -> tuple[str, str, JsonObject]:
    value, told = _SYSTEM_CLASSES[name]
    document = {
        "metadata": {"name": name, "generation": 1},
        "value": value,
        "description": told,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return "scheduling.k8s.io", "priorityclasses", document


def _namespace(name: str) -> tuple[str, str, JsonObject]:
    document = {
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    return "", "namespaces", document
