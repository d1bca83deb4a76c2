"""The service and the batch work of `workloads.yaml`, and what their cgroups hold with and without Koord."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import yaml

from koord.api import quantity
from tests.node import archives, cgroups
from tests.node.cluster import EXAMPLES, KOORD_NAMESPACE, Cluster, JsonObject, container_group, group_of

BEST_EFFORT, BURSTABLE = "besteffort", "burstable"
UNLIMITED_BYTES = 9223372036854771712
"""What cgroup v1 says for no limit."""
WEB_SHARES, RUSH_MILLI, AGENT_MILLI, WEAKEST_MILLI = 512, 500, 50, 20
AS_KUBELET_MAKES_IT = (2, -1, UNLIMITED_BYTES)
"""Shares, quota and memory limit of a batch pod without Koord."""
WITH_QUOTA_OF_ALL = (204, -1, 64 << 20)
"""The same with Koord, while the best-effort group as a whole has a quota."""
WITH_OWN_QUOTA = (204, 60_000, 64 << 20)
"""The same while it has none."""


def configure(cluster: Cluster, policy: str) -> None:
    """Turn suppression on with a policy."""
    document = yaml.safe_load((EXAMPLES / "slo-controller-config.yaml").read_text())
    data = document["data"]
    data["resource-threshold-config"] = data["resource-threshold-config"].replace("cfsQuota", policy)
    cluster.apply(document)


def crunching(cluster: Cluster) -> list[JsonObject]:
    """The batch pods once both run."""
    cluster.wait_rollout("batch", "deployment", "crunch")
    return cluster.pods("batch")


@contextmanager
def rush(cluster: Cluster) -> Iterator[None]:
    """A service that burns one CPU."""
    cluster.apply_file("rush.yaml", image=archives.BUSYBOX_IMAGE)
    try:
        cluster.wait_pod("shop", "rush")
        yield
    finally:
        cluster.kubectl("-n", "shop", "delete", "pod/rush", "--wait")


def production_milli(cluster: Cluster) -> int:
    """The CPU requests of all pods in the burstable directory."""
    active = [pod for namespace in ("shop", KOORD_NAMESPACE) for pod in cluster.pods(namespace)]
    requests = [one["resources"]["requests"]["cpu"] for pod in active for one in pod["spec"]["containers"]]
    return sum(quantity.milli(request) for request in requests)


def shares_of(cpu_milli: int) -> int:
    """What kubelet makes of a CPU request."""
    return cpu_milli * 1024 // 1000


def shares(group: str) -> int:
    return cgroups.number(group, "cpu", "cpu.shares")


def quota_us(group: str) -> int:
    return cgroups.number(group, "cpu", "cpu.cfs_quota_us")


def memory_bytes(group: str) -> int:
    return cgroups.number(group, "memory", "memory.limit_in_bytes")


def weight_ratio(cluster: Cluster) -> float:
    """The weight of production's weakest pod against the best-effort group's."""
    part = shares_of(WEAKEST_MILLI) / shares_of(production_milli(cluster))
    return shares(BURSTABLE) * part / shares(BEST_EFFORT)


def factor_over(milli: int) -> int | None:
    """What the burstable directory has more than kubelet gives for so many requests; None when that is no factor."""
    factor, rest = divmod(shares(BURSTABLE), shares_of(milli))
    return None if rest else factor


def limits_of(pods: list[JsonObject]) -> list[tuple[int, int, int]]:
    """Shares, quota and memory limit of every pod's cgroup and its container's."""
    groups = [group for pod in pods for group in (group_of(pod), container_group(pod))]
    return [(shares(group), quota_us(group), memory_bytes(group)) for group in groups]


def eventually(cluster: Cluster, read: Callable[[], object], wanted: object, what: str) -> None:
    """Wait until a value is what it should be; on failure tells what it was last."""
    seen: list[object] = [None]

    def holds() -> bool:
        try:
            seen[0] = read()
        except FileNotFoundError as error:
            seen[0] = error
        return seen[0] == wanted

    try:
        cluster.machine.wait_for(holds, what)
    except TimeoutError as error:
        raise AssertionError(f"{what}: wanted {wanted}, is {seen[0]}\n{error}") from None


def assert_as_kubelet_made_it(cluster: Cluster) -> None:
    """Nothing of the agent's is left in any cgroup."""
    assert limits_of(cluster.pods("batch")) == [AS_KUBELET_MAKES_IT] * 4
    assert (shares(BEST_EFFORT), quota_us(BEST_EFFORT)) == (2, -1)
    # kubelet counts pods that have ended until it looks at the directory again, once a minute.
    milli = production_milli(cluster)
    assert shares(BURSTABLE) in [shares_of(milli + ended) for ended in (0, AGENT_MILLI, RUSH_MILLI + AGENT_MILLI)]
    cpus = {path: value for path, value in cgroups.snapshot().items() if path.endswith("cpuset.cpus")}
    assert set(cpus.values()) == {cpus["cpuset/kubepods/cpuset.cpus"]}
    web = cluster.pod("shop", "web")
    assert [shares(group) for group in (group_of(web), container_group(web))] == [WEB_SHARES] * 2
