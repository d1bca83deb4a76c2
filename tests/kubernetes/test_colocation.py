"""Manager, stock scheduler and controllers of a real control plane: batch resources offered, taken, given back."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from koord.api import names
from tests.contract.api import JsonObject
from tests.kubernetes import objects
from tests.kubernetes.harness import NAMESPACE, Cluster, eventually

CONFIG = {
    "colocation-config": json.dumps(
        {
            "enable": True,
            "metricReportIntervalSeconds": 30,
            "cpuReclaimThresholdPercent": 60,
            "degradeTimeMinutes": 15,
        }
    )
}


@pytest.fixture(scope="module", autouse=True)
def nodes(installed: Cluster) -> Iterator[None]:
    """Two nodes of 8 CPUs and 16 GiB, kept Ready by lease and status, and colocation switched on."""
    installed.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": NAMESPACE},
            "data": CONFIG,
        },
        objects.profile("spark"),
    )
    fleet = installed.start_nodes(2)
    yield
    fleet.end()


def report(cluster: Cluster, node: str, cpu: str, age: timedelta = timedelta()) -> None:
    """Play koordlet: report the node's usage once the manager has made its NodeMetric."""
    path = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{node}"
    eventually(lambda: cluster.api.get(path).status == 200, f"the manager makes NodeMetric {node}")
    at = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = cluster.api.patch(f"{path}/status", {"status": objects.report(cpu, "2Gi", at)})
    assert answer.status == 200, answer.body


def batch_cpu(cluster: Cluster, node: str) -> str | None:
    found: str | None = cluster.get("node", node)["status"]["allocatable"].get(names.BATCH_CPU)
    return found


def until_offered(cluster: Cluster, node: str, amount: str | None) -> None:
    eventually(lambda: batch_cpu(cluster, node) == amount, f"{node} offers {amount}: {batch_cpu(cluster, node)}")


def test_the_manager_offers_what_is_unused_and_takes_it_back_when_nobody_reports(cluster: Cluster) -> None:
    """8 CPUs at 60 %, of which the node uses 1: 4800 - 1000."""
    manager = cluster.start("manager")
    report(cluster, "node-1", "1")
    until_offered(cluster, "node-1", "3800")
    before = cluster.get("node", "node-1")
    assert before["status"]["allocatable"]["cpu"] == "8"
    assert before["status"]["capacity"][names.BATCH_CPU] == "3800"
    report(cluster, "node-1", "3")
    until_offered(cluster, "node-1", "1800")
    report(cluster, "node-1", "1", age=timedelta(minutes=20))
    eventually(lambda: batch_cpu(cluster, "node-1") in (None, "0"), "a stale report takes batch resources away")
    assert cluster.get("nodeslo", "node-1")["spec"]["resourceUsedThresholdWithBE"]["enable"] is False
    assert not [record for record in manager.records() if "orbidden" in json.dumps(record)]
    assert manager.end() == 0


def test_without_its_rights_the_manager_says_which_verb_it_lacks_and_writes_nothing(cluster: Cluster) -> None:
    token = cluster.plane.token_of_service_account(NAMESPACE, "koordlet")
    manager = cluster.start("manager", kubeconfig=cluster.plane.kubeconfig_for("stranger", token), ready=False)

    def complaint() -> JsonObject | None:
        found = [record for record in manager.records() if "is forbidden" in json.dumps(record)]
        return found[0] if found else None

    said = json.dumps(eventually(complaint, "the refusal is logged" + manager.tail()))
    assert "system:serviceaccount:koordinator-system:koordlet" in said
    assert manager.get("/readyz")[0] != 200


def test_the_stock_scheduler_places_a_batch_pod_once_a_node_offers_enough(
    cluster: Cluster, make_namespace: Callable[..., str]
) -> None:
    cluster.start("manager")
    report(cluster, "node-1", "8")
    report(cluster, "node-2", "8")
    for node in ("node-1", "node-2"):
        eventually(lambda node=node: batch_cpu(cluster, node) in (None, "0"), f"{node} has no room")
    cluster.start_webhook()
    namespace = make_namespace()
    wait_for_webhook(cluster, namespace)
    assert cluster.create_pod(objects.pod("a", namespace)).status == 201

    def told() -> str:
        pod = cluster.get("pod", "a", "-n", namespace)
        return " ".join(str(condition.get("message", "")) for condition in pod["status"].get("conditions", []))

    eventually(lambda: f"Insufficient {names.BATCH_CPU}" in told(), "the scheduler finds no room")
    report(cluster, "node-2", "1")
    cluster.kubectl("wait", "pod/a", "-n", namespace, "--for=condition=Ready", "--timeout=30s")
    assert cluster.get("pod", "a", "-n", namespace)["spec"]["nodeName"] == "node-2"


def test_an_evicted_pod_comes_back_as_batch_and_a_budget_refuses_with_429(
    cluster: Cluster, make_namespace: Callable[..., str]
) -> None:
    cluster.start("manager")
    report(cluster, "node-1", "1")
    report(cluster, "node-2", "1")
    cluster.start_webhook()
    namespace = make_namespace()
    wait_for_webhook(cluster, namespace)
    cluster.apply(objects.deployment("spark", namespace, 2))
    cluster.kubectl("rollout", "status", "deployment/spark", "-n", namespace, "--timeout=40s")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "spark", "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "spark"}}},
    }
    cluster.apply(budget)
    eventually(
        lambda: cluster.get("pdb", "spark", "-n", namespace).get("status", {}).get("disruptionsAllowed"), "pdb"
    )
    victim = cluster.get("pods", "-n", namespace)["items"][0]["metadata"]["name"]
    assert evict(cluster, namespace, victim) == 201
    eventually(lambda: len(ready(cluster, namespace) - {victim}) == 2, "a pod stands in for the evicted one")
    for pod in cluster.get("pods", "-n", namespace)["items"]:
        if pod["metadata"]["name"] != victim:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            assert requests == {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"}
    cluster.kubectl("patch", "pdb", "spark", "-n", namespace, "-p", '{"spec": {"maxUnavailable": 0}}')
    eventually(
        lambda: cluster.get("pdb", "spark", "-n", namespace)["status"]["disruptionsAllowed"] == 0,
        "no disruption left",
    )
    assert evict(cluster, namespace, sorted(ready(cluster, namespace))[0]) == 429


def test_one_of_two_managers_is_killed_and_the_other_goes_on_alone(cluster: Cluster) -> None:
    kubeconfig = cluster.account_kubeconfig("manager")
    first = cluster.start("manager", kubeconfig=kubeconfig)
    second = cluster.start("manager", kubeconfig=kubeconfig)
    report(cluster, "node-1", "2")
    until_offered(cluster, "node-1", "2800")
    leader, heir = (first, second) if first.records("batch resources of") else (second, first)
    assert not heir.records("batch resources of"), "only the leader writes"
    leader.end(signal.SIGKILL)
    report(cluster, "node-1", "3")
    until_offered(cluster, "node-1", "1800")
    assert heir.records("batch resources of")


def allowed_disruptions(cluster: Cluster, namespace: str) -> int | None:
    found: int | None = cluster.get("pdb", "spark", "-n", namespace).get("status", {}).get("disruptionsAllowed")
    return found


def evict(cluster: Cluster, namespace: str, name: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    return cluster.api.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body).status


def ready(cluster: Cluster, namespace: str) -> set[str]:
    found = cluster.get("pods", "-n", namespace)["items"]
    return {
        pod["metadata"]["name"]
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
        and {"type": "Ready", "status": "True"}.items()
        <= next((c for c in pod["status"].get("conditions", []) if c["type"] == "Ready"), {}).items()
    }


def wait_for_webhook(cluster: Cluster, namespace: str) -> None:
    def asked() -> bool:
        answer = cluster.create_pod(objects.pod("probe", namespace), dryRun="All")
        requests = answer.body["spec"]["containers"][0]["resources"]["requests"]
        return names.BATCH_CPU in requests

    eventually(asked, "the webhook is called")
