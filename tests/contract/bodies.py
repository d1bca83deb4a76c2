"""Small valid objects for the contract's tests."""

from typing import Any

JsonObject = dict[str, Any]


def config_map(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "1"}}


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    """A pod that no scheduler touches."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}], **spec},
    }


def deployment(name: str, replicas: int = 1, paused: bool = True) -> JsonObject:
    """A deployment that is paused, so that its controller leaves it alone."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "paused": paused,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]},
            },
        },
    }


def custom_definition(group: str, **changes: Any) -> JsonObject:
    """Widgets with a schema, a status and a scale; `changes` replace members of its version."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        **changes,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["gadgets"]},
            "versions": [version],
        },
    }


WIDGET_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                "replicas": {"type": "integer"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
        },
    },
}


def widget(group: str, name: str, **spec: Any) -> JsonObject:
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec or {"size": 1}}
