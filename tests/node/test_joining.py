"""A node joins: what the stock scheduler does with batch pods before and after the agent reports."""

from __future__ import annotations

import os

import pytest

from koord.api import names
from tests.node.cluster import Cluster
from tests.node.colocation import assert_as_kubelet_made_it, configure, crunching

CPUS = os.cpu_count() or 1
REFUSED = f"Insufficient {names.BATCH_CPU}"


def told(cluster: Cluster, name: str) -> str:
    """What the conditions of a pod that waits say."""
    status = cluster.pod("batch", name)["status"]
    assert status["phase"] == "Pending"
    return "; ".join(one.get("message", "") for one in status.get("conditions", ()))


def wait_refused(cluster: Cluster, name: str) -> None:
    cluster.machine.wait_for(lambda: REFUSED in told(cluster, name), f"pod {name} is refused")


def test_the_scheduler_refuses_batch_pods_until_the_agent_reports_and_the_manager_offers(cluster: Cluster) -> None:
    if cluster.offered(names.BATCH_CPU):
        pytest.skip("the node offers batch-cpu already: an earlier test let the agent report")
    for pod in cluster.pods("batch"):
        assert pod["metadata"]["labels"][names.LABEL_QOS] == "BE"
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        assert requests == {names.BATCH_CPU: "200", names.BATCH_MEMORY: "32Mi"}
        wait_refused(cluster, pod["metadata"]["name"])
    configure(cluster, "cfsQuota")
    cluster.install_koordlet()
    try:
        assert all(pod["status"]["qosClass"] == "BestEffort" for pod in crunching(cluster))
        assert 0 < cluster.offered(names.BATCH_CPU) < CPUS * 1000
    finally:
        cluster.uninstall_koordlet()
    assert_as_kubelet_made_it(cluster)
