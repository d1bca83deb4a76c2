"""Batch limits as a strategy: every BE pod's cgroups get what its batch resources say."""

from dataclasses import dataclass

from koord.api.qos import KubeQoS, QoSClass
from koordlet import batch
from koordlet.batch import BatchLimits
from koordlet.sampling.sampler import GroupSample
from koordlet.snapshot import PodHere, Snapshot
from koordlet.strategy import Proposal
from koordlet.suppress.tick import POLICY_QUOTA
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.knobs import UNLIMITED, Knob


@dataclass(frozen=True)
class BatchDecision:
    """How many pods got limits, and those whose memory limit waits because more is in use."""

    pods: int
    quota_allowed: bool
    memory_above_limit: tuple[str, ...]


class BatchResources:
    """Weights, quotas and memory limits of batch pods. Works whether suppression is on or not."""

    owner = Owner.BATCH

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.last_decision: BatchDecision | None = None

    def propose(self, snapshot: Snapshot) -> Proposal:
        """The limits of all BE pods that state batch resources."""
        allowed = not (snapshot.policy.enable and snapshot.policy.policy == POLICY_QUOTA)
        wishes: list[Wish] = []
        waiting: list[str] = []
        pods = 0
        for pod in snapshot.pods:
            if pod.view is not None and pod.view.qos is QoSClass.BE and pod.view.batch:
                pods += 1
                self._add_pod(snapshot, pod, allowed, wishes, waiting)
        self.last_decision = BatchDecision(pods, allowed, tuple(waiting))
        return Proposal(wishes, self.last_decision)

    def _add_pod(
        self, snapshot: Snapshot, pod: PodHere, quota_allowed: bool, wishes: list[Wish], waiting: list[str]
    ) -> None:
        view = pod.view
        if view is None:
            return
        limits = batch.pod_limits(list(view.batch.values()), quota_allowed=quota_allowed)
        # Among production pods, a pod labelled BE has the lowest weight, which is not ours to set.
        if pod.group.kube_qos is KubeQoS.BEST_EFFORT:
            wishes.append(_weight(pod.group.group, limits, snapshot.is_v2))
        self._add_limits(pod.group.group, limits, pod.sample, wishes, waiting)
        for container in pod.group.containers:
            stated = view.batch.get(view.container_names.get(container.container_id, ""))
            if stated is None:
                continue
            limits = batch.container_limits(stated, quota_allowed=quota_allowed)
            wishes.append(_weight(container.group, limits, snapshot.is_v2))
            sample = snapshot.sample.containers.get(container.group)
            self._add_limits(container.group, limits, sample, wishes, waiting)

    def _add_limits(
        self,
        group: str,
        limits: BatchLimits,
        sample: GroupSample | None,
        wishes: list[Wish],
        waiting: list[str],
    ) -> None:
        """No limit is no wish: the file then has, or gets back, what it had without us."""
        if limits.quota_us != UNLIMITED:
            wishes.append(Wish(group, Knob.QUOTA, limits.quota_us))
        if limits.memory_bytes == UNLIMITED:
            return
        reading = self._executor.current(group, Knob.MEMORY)
        memory = limits.memory_bytes
        if reading is not None and isinstance(reading.value, int):
            working_set = sample.working_set_bytes if sample is not None else None
            memory = batch.safe_memory_limit(memory, reading.value, working_set)
            if memory != limits.memory_bytes:
                waiting.append(group)
        wishes.append(Wish(group, Knob.MEMORY, memory))


def _weight(group: str, limits: BatchLimits, is_v2: bool) -> Wish:
    return Wish(group, Knob.WEIGHT, batch.weight_of(limits.shares) if is_v2 else limits.shares)
