"""Koord goes: what is left in the cgroups is what kubelet put there."""

from __future__ import annotations

from tests.node.cluster import KOORD_NAMESPACE, Cluster, container_id
from tests.node.colocation import (
    WITH_QUOTA_OF_ALL,
    assert_as_kubelet_made_it,
    configure,
    crunching,
    eventually,
    limits_of,
)


def test_deleting_the_daemon_set_leaves_the_node_as_kubelet_made_it(cluster: Cluster) -> None:
    configure(cluster, "cfsQuota")
    cluster.install_koordlet()
    try:
        pods = crunching(cluster)
        eventually(cluster, lambda: limits_of(pods), [WITH_QUOTA_OF_ALL] * 4, "limits of pods")
    finally:
        cluster.uninstall_koordlet()
    assert_as_kubelet_made_it(cluster)


def test_restore_undoes_what_a_killed_agent_has_left(cluster: Cluster) -> None:
    configure(cluster, "cfsQuota")
    cluster.apply(cluster.koordlet_pod("doomed"))
    try:
        cluster.wait_pod(KOORD_NAMESPACE, "doomed")
        pods = crunching(cluster)
        limits = [WITH_QUOTA_OF_ALL] * 4
        eventually(cluster, lambda: limits_of(pods), limits, "limits of pods")
        cluster.machine.kill_container(container_id(cluster.pod(KOORD_NAMESPACE, "doomed")))
        cluster.wait_pod(KOORD_NAMESPACE, "doomed", "jsonpath={.status.phase}=Failed")
        assert limits_of(pods) == limits
        cluster.apply(cluster.koordlet_pod("restore", "--restore"))
        cluster.wait_pod(KOORD_NAMESPACE, "restore", "jsonpath={.status.phase}=Succeeded")
    finally:
        cluster.kubectl("-n", KOORD_NAMESPACE, "delete", "pod", "doomed", "restore", "--ignore-not-found", "--wait")
    assert_as_kubelet_made_it(cluster)
