"""API objects into views, series into NodeMetric's status."""

import json
from typing import Any

import msgspec
import pytest

from koord.api.errors import InvalidInput
from koord.api.objects import Node, Pod
from koord.api.priority import PriorityBand
from koord.api.qos import KubeQoS, QoSClass
from koord.api.slo import NodeMetric, NodeMetricStatus, NodeSLO
from koordlet.batch import BatchContainer
from koordlet.report import PodUsageSeries, UsageSeries, build_status
from koordlet.sampling.series import Series
from koordlet.views import (
    MetricPolicy,
    SuppressPolicy,
    metric_policy,
    parse_duration,
    suppress_policy,
    view_node,
    view_pod,
)

SPEC = "node.koordinator.sh/extended-resource-spec"


def pod(**parts: Any) -> Pod:
    meta = {"name": "p", "namespace": "d", "uid": "u", **parts.pop("metadata", {})}
    return msgspec.convert({"metadata": meta, **parts}, Pod)


def test_batch_amounts_come_from_the_annotation_first() -> None:
    spec = {
        "containers": {
            "main": {
                "requests": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"},
                "limits": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "2Gi"},
            }
        }
    }
    view = view_pod(
        pod(
            metadata={"labels": {"koordinator.sh/qosClass": "BE"}, "annotations": {SPEC: json.dumps(spec)}},
            spec={"containers": [{"name": "main"}], "priority": 5500},
            status={"phase": "Running", "containerStatuses": [{"name": "main", "containerID": "containerd://abc"}]},
        )
    )
    assert view.batch == {"main": BatchContainer("main", 500, 1000, 2 << 30)}
    assert (view.qos, view.kube_qos, view.band) == (QoSClass.BE, KubeQoS.BEST_EFFORT, PriorityBand.BATCH)
    assert view.container_names == {"abc": "main"}
    assert view.is_best_effort
    assert view.is_active


def test_batch_amounts_may_stand_in_the_containers_themselves() -> None:
    resources = {"requests": {"kubernetes.io/batch-cpu": 250}, "limits": {"kubernetes.io/batch-cpu": 250}}
    view = view_pod(pod(spec={"containers": [{"name": "a", "resources": resources}, {"name": "b"}]}))
    assert view.batch == {"a": BatchContainer("a", 250, 250, None)}


@pytest.mark.parametrize("text", ["{", "[]", '{"containers": {"a": {"requests": {"kubernetes.io/batch-cpu": "x"}}}}'])
def test_an_unreadable_annotation_gives_a_pod_without_batch_amounts_and_a_named_problem(text: str) -> None:
    view = view_pod(pod(metadata={"annotations": {SPEC: text}}))
    assert view.batch == {}
    assert "Pod/d/p" in view.problems[0]


def test_an_unreadable_quantity_does_not_hide_the_pod() -> None:
    containers = [{"name": "a", "resources": {"requests": {"cpu": "oops"}}}]
    view = view_pod(pod(spec={"containers": containers}))
    assert view.uid == "u"
    assert not view.is_best_effort, "a pod that is not understood is protected"
    assert "oops" in view.problems[0]


def test_a_static_pod_is_found_by_the_uid_of_its_cgroup() -> None:
    assert view_pod(pod(metadata={"annotations": {"kubernetes.io/config.hash": "h"}})).cgroup_uid == "h"


def node(**parts: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "n", **parts.pop("metadata", {})}, **parts}, Node)


def test_a_node_reserves_by_annotation_cpus_before_amounts() -> None:
    status = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}
    key = "node.koordinator.sh/reservation"
    amounts = {key: json.dumps({"resources": {"cpu": "1500m"}})}
    assert view_node(node(status=status, metadata={"annotations": amounts})).annotated_reserve_milli == 1500
    cpus = {
        key: json.dumps({"resources": {"cpu": "1500m"}, "reservedCPUs": "0-1,4"}),
        "node.koordinator.sh/system-qos-resource": json.dumps({"cpuset": "7"}),
    }
    view = view_node(node(status=status, metadata={"annotations": cpus}))
    assert (view.annotated_reserve_milli, view.excluded_cpus) == (3000, "0-1,4,7")
    assert (view.capacity_milli, view.allocatable_milli) == (8000, 7500)
    assert view_node(node()).allocatable_milli is None
    bad = view_node(node(status=status, metadata={"annotations": {key: "{"}}))
    assert bad.annotated_reserve_milli == 0
    assert "reservation" in bad.problems[0]


def slo(**block: Any) -> NodeSLO:
    spec = {"resourceUsedThresholdWithBE": block or None}
    return msgspec.convert({"metadata": {"name": "n"}, "spec": spec}, NodeSLO)


def test_absent_and_null_fields_take_koordinators_defaults() -> None:
    assert suppress_policy(slo()) == SuppressPolicy(False, 65, None, "cpuset")
    found = suppress_policy(slo(enable=True, cpuSuppressThresholdPercent=None, cpuSuppressPolicy="cfsQuota"))
    assert found == SuppressPolicy(True, 65, None, "cfsQuota")
    assert suppress_policy(slo(enable=True, cpuSuppressThresholdPercent=0)).threshold_percent == 0
    with pytest.raises(InvalidInput, match="cpuSuppressMinPercent"):
        suppress_policy(slo(cpuSuppressMinPercent=101))


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m0s", 300.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("300ms", 0.3), ("5", None), ("", None)]
)
def test_go_durations_are_understood(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_the_report_interval_has_a_floor_and_bad_durations_are_left_out() -> None:
    policy = {"reportIntervalSeconds": 1, "nodeAggregatePolicy": {"durations": ["5m", "soon"]}}
    metric = msgspec.convert({"spec": {"metricCollectPolicy": policy}}, NodeMetric)
    found = metric_policy(metric, 30.0)
    assert (found.report_s, found.aggregate_s, found.durations) == (30.0, 300.0, (("5m", 300.0),))
    assert [text for text, _ in metric_policy(None, 30.0).durations] == ["5m0s", "10m0s", "30m0s"]
    assert not found.counts_page_cache


def series(values: list[float]) -> Series:
    ring = Series(2000, 1.0)
    for second, value in enumerate(values):
        ring.add(float(second), value)
    return ring


def test_the_report_is_in_koordinators_format() -> None:
    seconds = 400
    usage = UsageSeries(series([0.5 + n % 2 for n in range(seconds)]), series([float(3 << 30)] * seconds))
    system = UsageSeries(series([0.25] * seconds), series([float(1 << 20)] * seconds))
    views = [
        view_pod(pod(metadata={"name": name, "namespace": space, "labels": {"koordinator.sh/qosClass": "LS"}}))
        for space, name in (("b", "x"), ("a", "z"), ("a", "y"))
    ]
    pods = [PodUsageSeries(view, usage) for view in views]
    pods.append(PodUsageSeries(views[0], UsageSeries(series([]), series([]))))
    policy = MetricPolicy(300, 60, (("5m0s", 300.0), ("30m0s", 1800.0)))
    status = build_status(usage, system, pods, policy, seconds - 1.0, 1_700_000_000.9)
    assert status is not None
    assert status["updateTime"] == "2023-11-14T22:13:20Z"
    info = status["nodeMetric"]
    assert info["nodeUsage"]["resources"] == {"cpu": "1", "memory": "3Gi"}
    assert info["systemUsage"]["resources"] == {"cpu": "250m", "memory": "1Mi"}
    first, last = info["aggregatedNodeUsages"]
    assert first["usage"].keys() == {"avg", "p50", "p90", "p95", "p99"}
    assert first["usage"]["p99"]["resources"]["cpu"] == "1500m"
    assert last == {"duration": "30m0s", "usage": {}}
    assert [(one["namespace"], one["name"]) for one in status["podsMetric"]] == [("a", "y"), ("a", "z"), ("b", "x")]
    assert status["podsMetric"][0]["qos"] == "LS"
    assert status["podsMetric"][0]["priority"] == "koord-prod"
    assert status["prodReclaimableMetric"] is None
    msgspec.convert({**status, "hostApplicationMetric": []}, NodeMetricStatus)


def test_there_is_no_report_before_there_is_a_sample() -> None:
    empty = UsageSeries(series([]), series([]))
    assert build_status(empty, empty, [], MetricPolicy(), 0.0, 0.0) is None
