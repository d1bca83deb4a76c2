"""What an API server does to its clients on a bad day: every component catches up, and nothing wrong is written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kubernetes import objects
from tests.kubernetes.harness import NAMESPACE, RECOVERY_S, Cluster, Component, eventually
from tests.kubernetes.test_colocation import CONFIG, batch_cpu, report, until_offered

PAUSE_S = 60.0


@pytest.fixture(scope="module")
def running(installed: Cluster) -> Iterator[tuple[Cluster, Component, Component]]:
    """Webhook and manager at work on one node."""
    metadata = {"name": "slo-controller-config", "namespace": NAMESPACE}
    installed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": CONFIG})
    installed.apply(objects.profile("spark"))
    installed.kubectl("create", "namespace", "work")
    # Without it no pod is admitted, and a controller manager that was still starting may die with the API server.
    installed.kubectl("create", "serviceaccount", "default", "-n", "work", check=False)
    fleet = installed.start_nodes(1)
    manager, webhook = installed.start("manager"), installed.start_webhook()
    report(installed, "node-1", "1")
    until_offered(installed, "node-1", "3800")
    yield installed, manager, webhook
    installed.end_components()
    fleet.end()


def check_recovery(cluster: Cluster, cpu: int) -> None:
    """The manager hears of a report, the webhook of a new profile, and pods get what both say."""
    report(cluster, "node-1", str(cpu))
    until_offered(cluster, "node-1", str(4800 - cpu * 1000))
    cluster.apply(objects.profile("spark", labels={"generation": str(cpu)}))

    end, answer = time.monotonic() + RECOVERY_S, None
    while answer is None or answer.status != 201 or answer.body["metadata"]["labels"].get("generation") != str(cpu):
        assert time.monotonic() < end, f"pods do not get what the changed profile says: {answer}"
        answer = cluster.create_pod(objects.pod("probe", "work"), dryRun="All")


def test_the_api_server_is_killed_and_started_again(running: tuple[Cluster, Component, Component]) -> None:
    cluster, _, _ = running
    cluster.plane.restart("kube-apiserver")
    eventually(cluster.plane.is_ready, "the API server is back", 60)
    assert batch_cpu(cluster, "node-1") == "3800", "nothing was written meanwhile"
    check_recovery(cluster, 2)


def test_etcd_is_compacted_so_that_watches_end_with_410(running: tuple[Cluster, Component, Component]) -> None:
    cluster, _, _ = running
    for number in range(20):
        cluster.kubectl("label", "node", "node-1", f"turn={number}", "--overwrite")
    cluster.plane.compact()
    cluster.plane.restart("kube-apiserver")
    eventually(cluster.plane.is_ready, "the API server is back", 60)
    check_recovery(cluster, 3)


def test_the_api_server_is_silent_for_a_minute(running: tuple[Cluster, Component, Component]) -> None:
    cluster, manager, webhook = running
    cluster.plane.pause("kube-apiserver")
    time.sleep(PAUSE_S)  # the length of the pause is what is tested
    cluster.plane.resume("kube-apiserver")
    eventually(cluster.plane.is_ready, "the API server answers", 30)
    assert manager.process.poll() is None, manager.tail()
    assert webhook.process.poll() is None, webhook.tail()
    check_recovery(cluster, 1)


def test_tokens_that_the_server_takes_no_more_are_read_again(running: tuple[Cluster, Component, Component]) -> None:
    """A new ServiceAccount of the same name makes all tokens of the old one invalid, as their end would."""
    cluster, _, _ = running
    for component in ("manager", "webhook"):
        cluster.kubectl("delete", "serviceaccount", component, "-n", NAMESPACE)
        cluster.kubectl("create", "serviceaccount", component, "-n", NAMESPACE)
        token = cluster.plane.token_of_service_account(NAMESPACE, component)
        (cluster.folder / f"{component}.token").write_text(token)
    check_recovery(cluster, 2)


def test_a_node_that_is_deleted_takes_its_objects_along(running: tuple[Cluster, Component, Component]) -> None:
    cluster, manager, _ = running
    cluster.api.post("/api/v1/nodes", {"metadata": {"name": "brief"}})
    for kind in ("nodemetric", "nodeslo"):
        eventually(lambda kind=kind: cluster.get(kind, "brief"), f"{kind} of the new node")
    cluster.kubectl("delete", "node", "brief")
    for kind in ("nodemetric", "nodeslo"):
        eventually(lambda kind=kind: cluster.get(kind, "brief") is None, f"{kind} goes with its node")
    assert not [record for record in manager.records() if record.get("level") == "error"]
