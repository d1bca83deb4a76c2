"""Koord on a node that a real kubelet runs: batch pods have limits, production has weight, batch work gives way."""

from __future__ import annotations

import os

from koord.api import names
from koordlet.sysfs import cpulist
from tests.node import archives, cgroups
from tests.node.cluster import KOORD_NAMESPACE, Cluster, JsonObject, container_group, container_id, group_of
from tests.node.colocation import (
    BEST_EFFORT,
    RUSH_MILLI,
    WEB_SHARES,
    WITH_OWN_QUOTA,
    WITH_QUOTA_OF_ALL,
    configure,
    crunching,
    eventually,
    factor_over,
    limits_of,
    production_milli,
    quota_us,
    rush,
    shares,
    weight_ratio,
)

CPUS = os.cpu_count() or 1
LEAST_RATIO = 256


def test_batch_pods_get_weight_and_memory_limit_that_kubelet_does_not_set(cluster: Cluster, koordlet: None) -> None:
    pods = crunching(cluster)
    eventually(cluster, lambda: limits_of(pods), [WITH_QUOTA_OF_ALL] * 4, "limits of pods")
    assert quota_us(BEST_EFFORT) > 0


def test_a_container_that_is_started_again_gets_its_limits_again(cluster: Cluster, koordlet: None) -> None:
    before = crunching(cluster)[0]
    cluster.machine.kill_container(container_id(before))
    name = before["metadata"]["name"]

    def again() -> JsonObject:
        return cluster.pod("batch", name)

    cluster.machine.wait_for(lambda: container_id(again()) != container_id(before), "the container runs again")
    eventually(cluster, lambda: limits_of([again()]), [WITH_QUOTA_OF_ALL] * 2, "limits of the new container")


def test_batch_work_that_outgrows_its_memory_limit_is_killed_and_kubelet_says_so(
    cluster: Cluster, koordlet: None
) -> None:
    cluster.apply_file("hungry.yaml", image=archives.BUSYBOX_IMAGE)
    try:
        reason = "jsonpath={.status.containerStatuses[0].state.terminated.reason}=OOMKilled"
        cluster.wait_pod("batch", "hungry", reason)
    finally:
        cluster.kubectl("-n", "batch", "delete", "pod/hungry", "--wait")


def test_an_agent_that_is_killed_takes_up_its_work_again(cluster: Cluster, koordlet: None) -> None:
    configure(cluster, "cfsQuota")
    pods = crunching(cluster)
    (agent,) = cluster.pods(KOORD_NAMESPACE, "app=koordlet")
    name = agent["metadata"]["name"]
    cluster.machine.kill_container(container_id(agent))
    cluster.machine.wait_for(
        lambda: "not stopped in order" in cluster.machine.log_of(KOORD_NAMESPACE, name), "cleaning"
    )
    cluster.wait_rollout(KOORD_NAMESPACE, "daemonset", "koordlet")
    eventually(cluster, lambda: limits_of(pods), [WITH_QUOTA_OF_ALL] * 4, "limits of pods")
    eventually(cluster, lambda: quota_us(BEST_EFFORT) > 0, True, "quota of batch work as a whole")


def test_production_outweighs_batch_by_256_and_follows_kubelets_sum(cluster: Cluster, koordlet: None) -> None:
    crunching(cluster)
    milli = production_milli(cluster)
    eventually(cluster, lambda: (factor_over(milli) or 0) > 1, True, f"weight of production that asked for {milli}m")
    assert weight_ratio(cluster) >= LEAST_RATIO
    web = cluster.pod("shop", "web")
    assert shares(group_of(web)) == WEB_SHARES, "among themselves production pods keep kubelet's weights"
    with rush(cluster):
        # kubelet writes the new sum over the agent's value; the agent takes it for the new original.
        more = milli + RUSH_MILLI
        eventually(cluster, lambda: (factor_over(more) or 0) > 1, True, f"weight of production with {more}m")
        assert weight_ratio(cluster) >= LEAST_RATIO


def test_batch_work_gives_way_when_production_gets_busy_and_comes_back(cluster: Cluster, koordlet: None) -> None:
    configure(cluster, "cfsQuota")
    crunching(cluster)
    # 90 % of the machine less most of the CPU that the service burns.
    left_us = int((0.9 * CPUS - 0.9) * 100_000)
    with rush(cluster):
        cluster.machine.wait_for(lambda: 0 < quota_us(BEST_EFFORT) < left_us, "the quota falls to what is left")
        lowest = quota_us(BEST_EFFORT)
    cluster.machine.wait_for(lambda: quota_us(BEST_EFFORT) > lowest + 20_000, f"the quota rises from {lowest}", 120)


def test_with_policy_cpuset_pods_have_quotas_and_batch_work_as_a_whole_has_cpus(
    cluster: Cluster, koordlet: None
) -> None:
    pods = crunching(cluster)
    configure(cluster, "cpuset")
    eventually(cluster, lambda: limits_of(pods), [WITH_OWN_QUOTA] * 4, "limits of pods")
    assert quota_us(BEST_EFFORT) == -1
    # Never fewer than two: a machine of two CPUs cannot show more than that nothing is taken away.
    groups = [BEST_EFFORT, *(group for pod in pods for group in (group_of(pod), container_group(pod)))]
    assert len({cgroups.read(group, "cpuset", "cpuset.cpus") for group in groups}) == 1
    assert len(cpulist.parse(cgroups.read(BEST_EFFORT, "cpuset", "cpuset.cpus"))) >= 2


def test_limits_and_offer_survive_a_kubelet_that_is_killed(cluster: Cluster, koordlet: None) -> None:
    configure(cluster, "cfsQuota")
    pods = crunching(cluster)
    milli = production_milli(cluster)
    eventually(cluster, lambda: (factor_over(milli) or 0) > 1, True, f"weight of production that asked for {milli}m")
    eventually(cluster, lambda: limits_of(pods), [WITH_QUOTA_OF_ALL] * 4, "limits of pods before")
    cluster.machine.restart_kubelet()
    # A kubelet that starts gives production as a whole the weight 2, and the sum of its pods only a minute later.
    cluster.machine.wait_for(lambda: factor_over(milli) is None, "kubelet starts anew")
    eventually(cluster, lambda: weight_ratio(cluster) >= LEAST_RATIO, True, "weight of production after")
    eventually(cluster, lambda: limits_of(pods), [WITH_QUOTA_OF_ALL] * 4, "limits of pods after")
    cluster.machine.wait_for(cluster.machine.is_ready, "node Ready")
    assert cluster.offered(names.BATCH_CPU) > 0
