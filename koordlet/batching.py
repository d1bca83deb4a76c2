"""Batch limits as a strategy: every BE pod's cgroups get what its batch resources say."""

from dataclasses import dataclass

from koord.api.qos import KubeQoS, QoSClass
from koordlet import batch
from koordlet.batch import BatchLimits
from koordlet.snapshot import Snapshot
from koordlet.strategy import Proposal
from koordlet.suppress.tick import POLICY_QUOTA
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.discovery import PodGroup
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.knobs import UNLIMITED, Knob
from koordlet.views import PodView


@dataclass(frozen=True)
class BatchDecision:
    """How many pods got limits, and those whose memory limit waits because more is in use."""

    pods: int
    quota_allowed: bool
    memory_above_limit: tuple[str, ...]


@dataclass(frozen=True)
class _Planned:
    """The wishes of one pod, good while pod, cgroups and mode are the same objects."""

    view: PodView
    group: PodGroup
    mode: tuple[bool, bool]
    fixed: list[Wish]
    memory: list[Wish]


class BatchResources:
    """Weights, quotas and memory limits of batch pods. Works whether suppression is on or not."""

    owner = Owner.BATCH

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._planned: dict[str, _Planned] = {}
        self.last_decision: BatchDecision | None = None

    def propose(self, snapshot: Snapshot) -> Proposal:
        """The limits of all BE pods that state batch resources."""
        quota_allowed = not (snapshot.policy.enable and snapshot.policy.policy == POLICY_QUOTA)
        mode = quota_allowed, snapshot.is_v2
        planned: dict[str, _Planned] = {}
        for pod in snapshot.pods:
            if pod.view is not None and pod.view.qos is QoSClass.BE and pod.view.batch:
                known = self._planned.get(pod.group.group)
                if known is None or not (known.view is pod.view and known.group is pod.group and known.mode == mode):
                    known = _plan(pod.view, pod.group, mode)
                planned[pod.group.group] = known
        self._planned = planned
        wishes: list[Wish] = []
        waiting: list[str] = []
        for one in planned.values():
            wishes += one.fixed
            wishes += [self._bounded(wish, snapshot, waiting) for wish in one.memory]
        self.last_decision = BatchDecision(len(planned), quota_allowed, tuple(waiting))
        return Proposal(wishes, self.last_decision)

    def _bounded(self, wish: Wish, snapshot: Snapshot, waiting: list[str]) -> Wish:
        """The memory wish, or one that is safe while more than that is in use."""
        if self._executor.is_settled(wish):
            return wish
        reading = self._executor.current(wish.group, Knob.MEMORY)
        limit, wanted = (None if reading is None else reading.value), wish.value
        if limit == wanted or not isinstance(limit, int) or not isinstance(wanted, int):
            return wish
        sample = snapshot.sample.pods.get(wish.group) or snapshot.sample.containers.get(wish.group)
        safe = batch.safe_memory_limit(wanted, limit, None if sample is None else sample.working_set_now())
        if safe == wanted:
            return wish
        waiting.append(wish.group)
        return Wish(wish.group, Knob.MEMORY, safe)


def _plan(view: PodView, group: PodGroup, mode: tuple[bool, bool]) -> _Planned:
    quota_allowed, is_v2 = mode
    planned = _Planned(view, group, mode, [], [])
    limits = batch.pod_limits(list(view.batch.values()), quota_allowed=quota_allowed)
    # Among production pods, a pod labelled BE has the lowest weight, which is not ours to set.
    if group.kube_qos is KubeQoS.BEST_EFFORT:
        planned.fixed.append(_weight(group.group, limits, is_v2))
    _add_limits(planned, group.group, limits)
    for container in group.containers:
        stated = view.batch.get(view.container_names.get(container.container_id, ""))
        if stated is not None:
            limits = batch.container_limits(stated, quota_allowed=quota_allowed)
            planned.fixed.append(_weight(container.group, limits, is_v2))
            _add_limits(planned, container.group, limits)
    return planned


def _add_limits(planned: _Planned, group: str, limits: BatchLimits) -> None:
    """No limit is no wish: the file then has, or gets back, what it had without us."""
    if limits.quota_us != UNLIMITED:
        planned.fixed.append(Wish(group, Knob.QUOTA, limits.quota_us))
    if limits.memory_bytes != UNLIMITED:
        planned.memory.append(Wish(group, Knob.MEMORY, limits.memory_bytes))


def _weight(group: str, limits: BatchLimits, is_v2: bool) -> Wish:
    return Wish(group, Knob.WEIGHT, batch.weight_of(limits.shares) if is_v2 else limits.shares)
