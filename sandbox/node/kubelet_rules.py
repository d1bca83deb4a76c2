"""Which cgroup a pod gets and what is written there: the kubelet's rules for the cgroupfs driver. Pure.

Only native cpu and memory count: a pod that asks for nothing but batch resources is BestEffort, with the
lowest weight and no limit, until koordlet says otherwise.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from koord.api import names, pod_resources, qos, quantity
from koord.api.qos import KubeQoS
from sandbox.node import model

KUBEPODS = "kubepods"
PERIOD_US = 100_000
MIN_SHARES = 2
MAX_SHARES = 262_144
MIN_QUOTA_US = 1_000

OOM_SCORE_GUARANTEED = -997
OOM_SCORE_BEST_EFFORT = 1000

_QOS_DIRECTORY = {
    KubeQoS.GUARANTEED: "",
    KubeQoS.BURSTABLE: "burstable",
    KubeQoS.BEST_EFFORT: "besteffort",
}


@dataclass(frozen=True)
class CgroupSettings:
    """What to write into one cgroup, in v1 units; None leaves the kernel's default (no limit).

    shares: 2 to 262144. quota_us: of every 100 ms period. memory_bytes: the hard limit.
    """

    shares: int = MIN_SHARES
    quota_us: int | None = None
    memory_bytes: int | None = None

    @property
    def weight(self) -> int:
        """cpu.weight of cgroup v2 for the same shares."""
        return shares_to_weight(self.shares)


@dataclass(frozen=True)
class PodCgroup:
    """Where a pod's cgroup is, relative to the cgroup parent, and what is written for it and its containers."""

    qos: KubeQoS
    path: PurePosixPath
    settings: CgroupSettings
    request_milli: int


def milli_to_shares(milli: int) -> int:
    """cpu.shares for a request in milli-cores: 1,024 a core, within what the kernel takes."""
    return max(MIN_SHARES, min(MAX_SHARES, milli * 1024 // 1000))


def shares_to_weight(shares: int) -> int:
    """cpu.weight (1 to 10000) for cpu.shares (2 to 262144), linear."""
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def milli_to_quota_us(milli: int) -> int | None:
    """Microseconds of CPU per period for a limit in milli-cores; None without a limit."""
    return None if milli <= 0 else max(MIN_QUOTA_US, milli * PERIOD_US // 1000)


def qos_path(kube_qos: KubeQoS) -> PurePosixPath:
    """The directory that holds the pods of a class; guaranteed pods are in kubepods itself."""
    return PurePosixPath(KUBEPODS) / _QOS_DIRECTORY[kube_qos]


def pod_cgroup(pod: model.Pod) -> PodCgroup:
    """The pod's cgroup. A limit applies to the pod only if every container has one. Raises InvalidQuantity."""
    spec = pod.spec
    kube_qos = qos.computed_kube_qos(spec)
    requests, limits = pod_resources.requests_nano(spec), pod_resources.limits_nano(spec)
    request_milli = _milli(requests.get(names.CPU, 0))
    if kube_qos is KubeQoS.BEST_EFFORT:
        settings = CgroupSettings()
    else:
        cpu_limited, memory_limited = _all_limited(spec, names.CPU), _all_limited(spec, names.MEMORY)
        settings = CgroupSettings(
            milli_to_shares(request_milli),
            milli_to_quota_us(_milli(limits.get(names.CPU, 0))) if cpu_limited else None,
            _bytes(limits.get(names.MEMORY, 0)) if memory_limited else None,
        )
    path = qos_path(kube_qos) / f"pod{pod.metadata.uid}"
    return PodCgroup(kube_qos, path, settings, request_milli)


def container_settings(container: model.Container) -> CgroupSettings:
    """What is written for a container. Raises InvalidQuantity."""
    requests, limits = container.resources.requests, container.resources.limits
    request = requests.get(names.CPU, limits.get(names.CPU, 0))
    return CgroupSettings(
        milli_to_shares(quantity.milli(request)),
        milli_to_quota_us(quantity.milli(limits.get(names.CPU, 0))),
        quantity.value(limits.get(names.MEMORY, 0)) or None,
    )


def burstable_shares(pods: Iterable[PodCgroup]) -> int:
    """Shares of the burstable directory: as if its pods' requests were one pod's."""
    return milli_to_shares(sum(pod.request_milli for pod in pods if pod.qos is KubeQoS.BURSTABLE))


def oom_score_adj(pod: model.Pod, container: model.Container, capacity_bytes: int) -> int:
    """How readily the kernel kills a container when the machine is out of memory. Raises InvalidQuantity.

    Burstable: the larger the memory request, the less readily, always between the two other classes.
    """
    kube_qos = qos.computed_kube_qos(pod.spec)
    if kube_qos is KubeQoS.GUARANTEED:
        return OOM_SCORE_GUARANTEED
    if kube_qos is KubeQoS.BEST_EFFORT or capacity_bytes <= 0:
        return OOM_SCORE_BEST_EFFORT
    request = quantity.value(container.resources.requests.get(names.MEMORY, 0))
    return max(1000 + OOM_SCORE_GUARANTEED, min(999, 1000 - 1000 * request // capacity_bytes))


def _all_limited(spec: model.PodSpec, resource: str) -> bool:
    if spec.resources is not None and resource in spec.resources.limits:
        return True
    containers = (*spec.containers, *spec.init_containers)
    return all(quantity.nano(item.resources.limits.get(resource, 0)) > 0 for item in containers)


def _milli(amount_nano: int) -> int:
    return -(-amount_nano // quantity.NANO_PER_MILLI)


def _bytes(amount_nano: int) -> int:
    return -(-amount_nano // quantity.NANO)
