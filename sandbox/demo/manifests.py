"""The objects of the demo, as a user would write them. Pure.

Two namespaces take the same executors: `spark-plain` runs them as they are, `spark` is selected by the
ClusterColocationProfile. The service lives in `shop`.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koord.api import names
from sandbox.demo import executor, service

JsonObject = dict[str, Any]

SERVICE_NAMESPACE = "shop"
PLAIN_NAMESPACE = "spark-plain"
KOORD_NAMESPACE = "spark"
COLOCATION_LABEL = "koordinator.sh/enable-colocation"
APP_LABEL = "app"
SERVICE_APP = "web"
EXECUTOR_APP = "spark-executor"
EXECUTOR_CPU_MILLI = 250
SERVICE_CPU_MILLI = 500


@dataclass(frozen=True, slots=True)
class Policy:
    """How the cluster is told to share: percentages of the node and seconds between reports.

    `reclaim_percent`: how much of the node may be in use, batch included, when the manager computes
    batch-cpu. `suppress_percent`: the same when koordlet computes the quota; below 100 the rest stays idle, and
    batch pods that are throttled often were measured to disturb the service more, not less.
    """

    report_interval_s: int = 1
    aggregate_s: int = 4
    reclaim_percent: int = 95
    suppress_percent: int = 100


def executor_count(cpus: int) -> int:
    """Enough single-threaded executors to use every idle CPU and to meet the service on each."""
    return 2 * cpus


def cluster_objects(policy: Policy) -> list[JsonObject]:
    """Namespaces, the profile and slo-controller-config."""
    return [
        _namespace(SERVICE_NAMESPACE, {}),
        _namespace(PLAIN_NAMESPACE, {}),
        _namespace(KOORD_NAMESPACE, {COLOCATION_LABEL: "true"}),
        {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": "spark"},
            "spec": {
                "namespaceSelector": {"matchLabels": {COLOCATION_LABEL: "true"}},
                "selector": {"matchLabels": {APP_LABEL: EXECUTOR_APP}},
                "qosClass": "BE",
                "priorityClassName": "koord-batch",
                "labels": {"koordinator.sh/mutated": "true"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": names.CONFIG_NAMESPACE, "name": names.CONFIG_NAME},
            "data": _slo_config(policy),
        },
    ]


def _slo_config(policy: Policy) -> dict[str, str]:
    colocation = {
        "enable": True,
        "metricAggregateDurationSeconds": policy.aggregate_s,
        "metricReportIntervalSeconds": policy.report_interval_s,
        "cpuReclaimThresholdPercent": policy.reclaim_percent,
        "memoryReclaimThresholdPercent": 80,
        "degradeTimeMinutes": 1,
        "updateTimeThresholdSeconds": 5,
        "resourceDiffThreshold": 0.02,
    }
    threshold = {
        "clusterStrategy": {
            "enable": True,
            "cpuSuppressThresholdPercent": policy.suppress_percent,
            "cpuSuppressPolicy": "cfsQuota",
        }
    }
    return {names.KEY_COLOCATION: json.dumps(colocation), names.KEY_THRESHOLD: json.dumps(threshold)}


def _namespace(name: str, labels: dict[str, str]) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service_pod(port: int, iterations: int) -> JsonObject:
    """The latency-sensitive web service."""
    command = [sys.executable, "-S", service.__file__, "--port", str(port), "--iterations", str(iterations)]
    container = {
        "name": "web",
        "image": "koord-demo",
        "command": command,
        "ports": [{"containerPort": port}],
        "resources": {"requests": {"cpu": f"{SERVICE_CPU_MILLI}m", "memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": port, "host": "127.0.0.1"}, "periodSeconds": 1},
    }
    labels = {APP_LABEL: SERVICE_APP, names.LABEL_QOS: "LS"}
    return _pod(SERVICE_NAMESPACE, SERVICE_APP, labels, container, priority_class="koord-prod")


def executor_pods(namespace: str, count: int, work_dir: Path) -> list[JsonObject]:
    """The batch executors; nothing in the manifest speaks of Koord."""
    return [_executor_pod(namespace, f"executor-{number}", work_dir) for number in range(1, count + 1)]


def counter_path(work_dir: Path, namespace: str, name: str) -> Path:
    """The file in which an executor counts its work."""
    return work_dir / namespace / name


def _executor_pod(namespace: str, name: str, work_dir: Path) -> JsonObject:
    counter = counter_path(work_dir, namespace, name)
    container = {
        "name": "executor",
        "image": "koord-demo",
        "command": [sys.executable, "-S", executor.__file__, "--counter", str(counter)],
        "resources": {"requests": {"cpu": f"{EXECUTOR_CPU_MILLI}m", "memory": "64Mi"}},
    }
    return _pod(namespace, name, {APP_LABEL: EXECUTOR_APP}, container)


def _pod(
    namespace: str, name: str, labels: dict[str, str], container: JsonObject, priority_class: str = ""
) -> JsonObject:
    spec: JsonObject = {
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 2,
    }
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": spec,
    }
