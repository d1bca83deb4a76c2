"""Objects as `kubectl get nodes,pods,nodemetrics,configmaps -A -o json` shows them."""

import json
from pathlib import Path
from typing import Any

AT = "2026-12-01T10:00:00Z"
BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")


def node(name: str, *, labels: dict[str, str] | None = None, **shown: str) -> dict[str, Any]:
    allocatable = {"cpu": "31", "memory": "62Gi", **shown}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"capacity": {**allocatable, "cpu": "32", "memory": "64Gi"}, "allocatable": allocatable},
    }


def pod(
    name: str, cpu: str, memory: str, priority: int = 9500, names: tuple[str, str] = ("cpu", "memory"), on: str = "n1"
) -> dict[str, Any]:
    requests = dict(zip(names, (cpu, memory), strict=True))
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }


def use(name: str, cpu: str, memory: str, priority: str = "koord-prod") -> dict[str, Any]:
    amounts = {"resources": {"cpu": cpu, "memory": memory}}
    return {"namespace": "default", "name": name, "priority": priority, "podUsage": amounts}


def metric(name: str, *uses: dict[str, Any], at: str = AT) -> dict[str, Any]:
    return {
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "status": {
            "updateTime": at,
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "20", "memory": "30Gi"}},
                "systemUsage": {"resources": {"cpu": "1500m", "memory": "1Gi"}},
            },
            "podsMetric": list(uses),
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": "4", "memory": "4Gi"}}},
        },
    }


def config(document: Any = None, name: str = "slo-controller-config", **data: str) -> dict[str, Any]:
    stated = {"enable": True} if document is None else document
    return {
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "koordinator-system"},
        "data": {"colocation-config": stated if isinstance(stated, str) else json.dumps(stated), **data},
    }


def example() -> list[dict[str, Any]]:
    """The worked example of docs/resource-model.md, and what else explain shows: a batch and a mid pod, a pod that
    just ended, a second node without a report."""
    return [
        node("n1"),
        node("n2"),
        pod("web", "16", "16Gi"),
        pod("search", "8", "8Gi"),
        pod("new", "2", "4Gi"),
        pod("spark", "9000", "8Gi", 5500, BATCH),
        pod("waiting", "1000", "1Gi", 5500, BATCH, on=""),
        metric(
            "n1",
            use("web", "6", "10Gi"),
            use("search", "5", "12Gi"),
            use("spark", "9", "16Gi", "koord-batch"),
            use("ended", "500m", "1Gi", "koord-batch"),
        ),
        config(),
    ]


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return path
