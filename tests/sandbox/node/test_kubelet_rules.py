"""Pods' cgroups by the kubelet's rules."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.qos import KubeQoS
from sandbox.node import kubelet_rules as rules
from sandbox.node.model import Pod


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    items = [{"name": f"c{index}", "resources": item} for index, item in enumerate(containers)]
    return msgspec.convert({"metadata": {"uid": "u1"}, "spec": {"containers": items, **spec}}, Pod)


def test_a_guaranteed_pod_is_in_kubepods_itself_with_its_limits() -> None:
    amounts = {"cpu": "1500m", "memory": "1Gi"}
    found = rules.pod_cgroup(pod({"requests": amounts, "limits": amounts}))
    assert (found.qos, str(found.path)) == (KubeQoS.GUARANTEED, "kubepods/podu1")
    assert found.settings == rules.CgroupSettings(1536, 150_000, 1 << 30)


def test_a_burstable_pod_is_limited_only_when_every_container_is() -> None:
    limited = {"requests": {"cpu": "250m"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    found = rules.pod_cgroup(pod(limited, limited))
    assert str(found.path) == "kubepods/burstable/podu1"
    assert found.settings == rules.CgroupSettings(512, 200_000, 128 << 20)
    found = rules.pod_cgroup(pod(limited, {"requests": {"cpu": "250m"}}))
    assert found.settings == rules.CgroupSettings(512, None, None)


def test_a_pod_of_batch_resources_is_best_effort_with_the_lowest_weight_and_no_limit() -> None:
    batch = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "1Gi"}
    found = rules.pod_cgroup(pod({"requests": batch, "limits": batch}))
    assert (found.qos, str(found.path)) == (KubeQoS.BEST_EFFORT, "kubepods/besteffort/podu1")
    assert found.settings == rules.CgroupSettings(2, None, None)
    assert rules.container_settings(pod({"requests": batch}).spec.containers[0]) == rules.CgroupSettings()


def test_a_container_without_a_request_is_weighed_by_its_limit() -> None:
    container = pod({"limits": {"cpu": "500m", "memory": "1"}}).spec.containers[0]
    assert rules.container_settings(container) == rules.CgroupSettings(512, 50_000, 1)


def test_the_burstable_directory_weighs_as_the_sum_of_its_pods() -> None:
    small = rules.pod_cgroup(pod({"requests": {"cpu": "1m"}}))
    large = rules.pod_cgroup(pod({"requests": {"cpu": "2"}}))
    batch = rules.pod_cgroup(pod({}))
    assert rules.burstable_shares([small, large, batch]) == 2001 * 1024 // 1000
    assert rules.burstable_shares([batch]) == 2


@pytest.mark.parametrize(("milli", "quota"), [(0, None), (1, 1000), (10, 1000), (11, 1100), (4000, 400_000)])
def test_quota_of_a_limit(milli: int, quota: int | None) -> None:
    assert rules.milli_to_quota_us(milli) == quota


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1024, 39), (262_144, 10_000), (0, 1)])
def test_weight_of_shares(shares: int, weight: int) -> None:
    assert rules.shares_to_weight(shares) == weight


@given(milli=st.integers(0, 10**7))
def test_shares_stay_within_what_the_kernel_takes_and_grow_with_the_request(milli: int) -> None:
    shares = rules.milli_to_shares(milli)
    assert rules.MIN_SHARES <= shares <= rules.MAX_SHARES
    assert shares <= rules.milli_to_shares(milli + 1)
    assert 1 <= rules.shares_to_weight(shares) <= 10_000


@pytest.mark.parametrize(
    ("resources", "score"),
    [
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, -997),
        ({"requests": {"memory": "1Gi"}}, 900),
        ({"requests": {"memory": "1"}}, 999),
        ({"requests": {"memory": "100Gi"}}, 3),
        ({}, 1000),
    ],
)
def test_how_readily_a_container_is_killed(resources: dict[str, Any], score: int) -> None:
    subject = pod(resources)
    assert rules.oom_score_adj(subject, subject.spec.containers[0], 10 << 30) == score
