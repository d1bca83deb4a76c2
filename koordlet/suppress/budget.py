"""How many milli-cores best-effort work may use now (pure).

    budget = capacity·threshold% − production pods − production host applications − max(system, reserved)
    system = node − all pods − all host applications, at least 0

A floor in percent of capacity applies last. The result may be negative. What has no sample adds nothing to its
own sum, so its real use is inside `system`: still protected, only not named.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koord.api.qos import KubeQoS, QoSClass

BASE_KUBE_BEST_EFFORT = "KubepodsBesteffort"


@dataclass(frozen=True)
class PodUse:
    """A pod's classes and its newest CPU sample; None without one. `qos` is the label, None when absent."""

    uid: str
    qos: QoSClass | None
    kube_qos: KubeQoS
    cpu_cores: float | None

    @property
    def is_protected(self) -> bool:
        """Production: neither labelled BE nor of the kube class that runs at the lowest weight."""
        return self.qos is not QoSClass.BE and self.kube_qos is not KubeQoS.BEST_EFFORT


@dataclass(frozen=True)
class HostApplicationUse:
    """A declared process group outside pods; suppressed only when it lives inside the best-effort tree."""

    name: str
    qos: str
    cgroup_base: str
    cpu_cores: float | None

    @property
    def is_protected(self) -> bool:
        """Whether its use takes away from the budget."""
        return self.qos != QoSClass.BE or self.cgroup_base != BASE_KUBE_BEST_EFFORT


@dataclass(frozen=True)
class NodeCapacity:
    """Milli-cores. `allocatable_milli` None: the node states none, and all of it counts as reserved."""

    capacity_milli: int
    allocatable_milli: int | None
    annotated_reserve_milli: int = 0

    @property
    def reserved_milli(self) -> int:
        """What kubelet or the node annotation keeps for the system, the larger of the two."""
        return max(self.capacity_milli - (self.allocatable_milli or 0), self.annotated_reserve_milli, 0)


@dataclass(frozen=True)
class Budget:
    """The budget and every term of it, in milli-cores."""

    budget_milli: int
    limit_milli: int
    """capacity·threshold%."""
    node_milli: int
    protected_pods_milli: int
    protected_host_apps_milli: int
    unprotected_milli: int
    system_milli: int
    """After the comparison with what is reserved."""
    measured_system_milli: int
    reserved_milli: int
    floor_milli: int | None


def compute_budget(
    node: NodeCapacity,
    node_cpu_cores: float,
    pods: Sequence[PodUse],
    host_apps: Sequence[HostApplicationUse],
    threshold_percent: int,
    min_percent: int | None,
    unlisted_pods_cores: Mapping[str, float] | None = None,
) -> Budget:
    """The budget of one cycle.

    unlisted_pods_cores: samples of pods that the API does not know (yet); they count as production.
    """
    unlisted = math.fsum((unlisted_pods_cores or {}).values())
    protected = math.fsum(pod.cpu_cores or 0.0 for pod in pods if pod.is_protected) + unlisted
    unprotected = math.fsum(pod.cpu_cores or 0.0 for pod in pods if not pod.is_protected)
    all_apps = math.fsum(app.cpu_cores or 0.0 for app in host_apps)
    protected_apps = math.fsum(app.cpu_cores or 0.0 for app in host_apps if app.is_protected)
    measured_system = int(1000 * max(node_cpu_cores - protected - unprotected - all_apps, 0.0))
    system = max(measured_system, node.reserved_milli)
    limit = node.capacity_milli * threshold_percent // 100
    budget = limit - int(1000 * protected) - int(1000 * protected_apps) - system
    floor = None if min_percent is None else node.capacity_milli * min_percent // 100
    return Budget(
        budget_milli=budget if floor is None else max(budget, floor),
        limit_milli=limit,
        node_milli=int(1000 * node_cpu_cores),
        protected_pods_milli=int(1000 * protected),
        protected_host_apps_milli=int(1000 * protected_apps),
        unprotected_milli=int(1000 * unprotected),
        system_milli=system,
        measured_system_milli=measured_system,
        reserved_milli=node.reserved_milli,
        floor_milli=floor,
    )
