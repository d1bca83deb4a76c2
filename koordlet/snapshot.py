"""Everything one cycle decides on, gathered once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from koord.api.qos import KubeQoS
from koordlet.sampling.load import Load
from koordlet.sampling.sampler import CycleSample, GroupSample
from koordlet.suppress.cpuset import Cpu
from koordlet.suppress.tick import Presence
from koordlet.sysfs.discovery import PodGroup
from koordlet.sysfs.layout import Layout
from koordlet.views import NodeView, PodView, SuppressPolicy


class Facts(Protocol):
    """What is known of the cluster's side of this node; `observing` keeps it by watches."""

    @property
    def node(self) -> NodeView | None:
        """Own Node, None until it was seen."""
        ...

    @property
    def slo(self) -> Presence:
        """Whether the NodeSLO was read, is there, or was deleted."""
        ...

    @property
    def policy(self) -> SuppressPolicy:
        """The last readable strategy; all off before there was one."""
        ...

    def pods(self) -> list[PodView]:
        """All pods of this node."""
        ...

    def pod_of(self, cgroup_uid: str) -> PodView | None:
        """The pod whose cgroup carries this uid."""
        ...


@dataclass(frozen=True, slots=True)
class PodHere:
    """A pod's cgroup, the pod as the API knows it (None: not yet, or not any more) and its samples."""

    group: PodGroup
    view: PodView | None
    sample: GroupSample | None

    @property
    def is_best_effort(self) -> bool:
        """Whether the pod gives way; one that the API does not know is judged by its directory."""
        if self.view is None:
            return self.group.kube_qos is KubeQoS.BEST_EFFORT
        return self.view.is_best_effort


@dataclass(frozen=True)
class Snapshot:
    """One cycle's facts. Seconds of the monotonic clock."""

    now_s: float
    layout: Layout
    is_v2: bool
    pods: Sequence[PodHere]
    listed_pods: int
    node: NodeView | None
    slo: Presence
    policy: SuppressPolicy
    sample: CycleSample
    sample_age_s: float | None
    processors: Sequence[Cpu]
    load: Load | None

    @property
    def best_effort_dir(self) -> str:
        """The best-effort directory."""
        return self.layout.class_dir(KubeQoS.BEST_EFFORT)

    def best_effort_tree(self) -> Mapping[str, int]:
        """All cgroups of the best-effort tree with their depth in it, 0 for its top."""
        tree = {self.best_effort_dir: 0}
        for pod in self.pods:
            if pod.group.kube_qos is KubeQoS.BEST_EFFORT:
                tree[pod.group.group] = 1
                tree.update({container.group: 2 for container in pod.group.containers})
        return tree
