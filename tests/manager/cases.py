"""Objects for the pure tests of decisions: short to write, with defaults that take part."""

import json
from typing import Any

import msgspec

from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import format_rfc3339, parse_rfc3339
from koord.slo_config import colocation
from koord.slo_config.resolve import Resolved, resolve
from manager.overcommit import node_facts, pod_share
from manager.overcommit.decide import NO_MEMORY, Memory, decide
from manager.overcommit.decision import NodeDecision
from manager.overcommit.report import read_report

NOW = "2026-01-01T12:00:00Z"
NOW_S = parse_rfc3339(NOW)
GIB = 2**30
BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")


def strategy(*, koord: dict[str, Any] | None = None, **fields: Any) -> Resolved:
    document = {"enable": True, **fields}
    if koord is not None:
        document["extensions"] = {"koord": koord}
    return resolve(colocation.parse(json.dumps(document), "ConfigMap/x"), {}, {})


def node(*, cpu: str = "32", memory: str = "64Gi", annotations: dict[str, str] | None = None, **shown: Any) -> Node:
    """A node of 32 cores; `shown` are further allocatable and capacity amounts by resource name."""
    amounts = {"cpu": cpu, "memory": memory, **shown}
    document = {
        "metadata": {"name": "n", "annotations": annotations or {}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return msgspec.convert(document, Node)


def pod(
    name: str,
    cpu: str = "10",
    memory: str = "8Gi",
    priority: int = 9500,
    names: tuple[str, str] = ("cpu", "memory"),
    **metadata: Any,
) -> Pod:
    document = {
        "metadata": {"namespace": "default", "name": name, **metadata},
        "spec": {
            "nodeName": "n",
            "priority": priority,
            "containers": [{"resources": {"requests": dict(zip(names, (cpu, memory), strict=True))}}],
        },
        "status": {"phase": "Running"},
    }
    return msgspec.convert(document, Pod)


def metric(
    pods: dict[str, tuple[str, str]] | None = None,
    *,
    system: tuple[str, str] = ("1", "1Gi"),
    usage: tuple[str, str] | None = ("10", "16Gi"),
    age_s: float = 0.0,
    reclaimable: tuple[str, str] | None = None,
    bands: dict[str, str] | None = None,
    **more: Any,
) -> NodeMetric:
    """A report; `bands` are the priorities it states of pods."""

    def amounts(pair: tuple[str, str]) -> dict[str, Any]:
        return {"resources": {"cpu": pair[0], "memory": pair[1]}}

    reported: dict[str, Any] = {"systemUsage": amounts(system)}
    if usage is not None:
        reported["nodeUsage"] = amounts(usage)
    status: dict[str, Any] = {
        "updateTime": format_rfc3339(NOW_S - age_s),
        "nodeMetric": {**reported, **more.pop("node_metric", {})},
        "podsMetric": [
            {"namespace": "default", "name": name, "podUsage": amounts(pair), "priority": (bands or {}).get(name, "")}
            for name, pair in (pods or {}).items()
        ],
        **more,
    }
    if reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": amounts(reclaimable)}
    return msgspec.convert({"metadata": {"name": "n"}, "status": status}, NodeMetric)


def decided(
    on: Node,
    report: NodeMetric | None,
    *pods: Pod,
    resolved: Resolved | None = None,
    memory: Memory = NO_MEMORY,
    normalization: float | None = None,
    now_s: float = NOW_S,
) -> NodeDecision:
    shares = [pod_share.derive(each) for each in pods]
    read = read_report(report) if report else None
    return decide(node_facts.derive(on), read, shares, resolved or strategy(), now_s, normalization, memory)
