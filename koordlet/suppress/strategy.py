"""Suppression as a strategy: from a snapshot to the wishes for the best-effort tree's quota and CPU sets."""

from dataclasses import dataclass

from koordlet.snapshot import PodHere, Snapshot
from koordlet.strategy import Proposal
from koordlet.suppress import cpuset
from koordlet.suppress.budget import Budget, NodeCapacity, PodUse, compute_budget
from koordlet.suppress.cpuset import CpusetStep
from koordlet.suppress.fastpath import Baseline
from koordlet.suppress.quota import QuotaStep, step_down, step_quota
from koordlet.suppress.tick import Action, Tick, TickInput, TickLimits, decide_tick
from koordlet.sysfs import cpulist
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.journal import Key
from koordlet.sysfs.knobs import Knob


@dataclass(frozen=True)
class SuppressDecision:
    """The outcome and every number behind it; None for what was not looked at."""

    tick: Tick
    policy: str
    threshold_percent: int
    budget: Budget | None = None
    quota: QuotaStep | None = None
    cpuset: CpusetStep | None = None


class Suppression:
    """Keeps the best-effort tree within its budget, by one knob at a time."""

    owner = Owner.SUPPRESS

    def __init__(self, executor: Executor, limits: TickLimits) -> None:
        self._executor = executor
        self._limits = limits
        self._last: dict[Key, Wish] = {}
        self.last_decision: SuppressDecision | None = None
        self.baseline: Baseline | None = None
        """What the fast path compares with; None while the quota is not the knob."""

    def propose(self, snapshot: Snapshot) -> Proposal | None:
        """The wishes of this cycle."""
        self.baseline = None
        tick = decide_tick(_tick_input(snapshot), self._limits)
        if tick.quota is Action.KEEP and tick.cpuset is Action.KEEP:
            self.last_decision = self._decision(snapshot, tick)
            return None
        budget = _budget(snapshot) if Action.SUPPRESS in (tick.quota, tick.cpuset) else None
        quota = self._quota(snapshot, tick, budget)
        chosen = self._cpus(snapshot, tick, budget)
        wishes = {**self._quota_wishes(snapshot, tick, quota), **self._cpu_wishes(snapshot, tick, chosen)}
        self._keep_until_replaced(snapshot, tick, wishes)
        self._last = wishes
        self.last_decision = self._decision(snapshot, tick, budget, quota, chosen)
        if budget is not None and quota is not None and snapshot.load is not None and snapshot.node is not None:
            floor = budget.floor_milli or 0
            self.baseline = Baseline(budget, snapshot.load, snapshot.node.capacity_milli, floor)
        return Proposal(list(wishes.values()), self.last_decision)

    def _decision(
        self,
        snapshot: Snapshot,
        tick: Tick,
        budget: Budget | None = None,
        quota: QuotaStep | None = None,
        chosen: CpusetStep | None = None,
    ) -> SuppressDecision:
        policy = snapshot.policy
        return SuppressDecision(tick, policy.policy, policy.threshold_percent, budget, quota, chosen)

    # Quota

    def _quota(self, snapshot: Snapshot, tick: Tick, budget: Budget | None) -> QuotaStep | None:
        if tick.quota not in (Action.SUPPRESS, Action.STEP_DOWN) or snapshot.node is None:
            return None
        group = snapshot.best_effort_dir
        reading = self._executor.current(group, Knob.QUOTA, vital=True)
        if reading is None or not isinstance(reading.value, int):
            return None
        capacity = snapshot.node.capacity_milli
        if tick.quota is Action.STEP_DOWN:
            floor = snapshot.policy.min_percent
            return step_down(reading.value, capacity, None if floor is None else capacity * floor // 100)
        if budget is None:
            return None
        last = self._executor.last_written(group, Knob.QUOTA)
        return step_quota(budget.budget_milli, reading.value, capacity, last if isinstance(last, int) else None)

    def _quota_wishes(self, snapshot: Snapshot, tick: Tick, step: QuotaStep | None) -> dict[Key, Wish]:
        if step is not None:
            wish = Wish(snapshot.best_effort_dir, Knob.QUOTA, step.quota_us, vital=True)
            return {wish.key: wish}
        return {} if tick.quota is Action.RESTORE else self._kept(Knob.QUOTA)

    # CPU sets

    def _cpus(self, snapshot: Snapshot, tick: Tick, budget: Budget | None) -> CpusetStep | None:
        if tick.cpuset not in (Action.SUPPRESS, Action.SUPPRESS_CONTAINERS) or budget is None:
            return None
        reading = self._executor.current(snapshot.best_effort_dir, Knob.CPUS, vital=True)
        if reading is None or not isinstance(reading.value, frozenset):
            return None
        online = frozenset(processor.cpu for processor in snapshot.processors)
        current = (reading.value or online) & online
        return cpuset.plan_cpus(budget.budget_milli, len(online), current, _pools(snapshot))

    def _cpu_wishes(self, snapshot: Snapshot, tick: Tick, step: CpusetStep | None) -> dict[Key, Wish]:
        if step is not None and step.is_write:
            return self._wish_cpus(snapshot, step.cpus, 2 if tick.cpuset is Action.SUPPRESS_CONTAINERS else 0)
        if tick.cpuset is not Action.RESTORE:
            return self._kept(Knob.CPUS)
        # Off as a limit, but what belongs to others exclusively stays theirs while the feature is on.
        online = frozenset(processor.cpu for processor in snapshot.processors)
        allowed = cpuset.allowed_cpus(_pools(snapshot))
        if snapshot.policy.enable and allowed and allowed != online:
            return self._wish_cpus(snapshot, allowed, 0)
        return {}

    def _wish_cpus(self, snapshot: Snapshot, cpus: frozenset[int], least_depth: int) -> dict[Key, Wish]:
        """v2 needs the top only: what is below never gets more. v1 wants every level to hold the set itself."""
        wishes = {}
        for group, depth in snapshot.best_effort_tree().items():
            if depth < least_depth or (snapshot.is_v2 and depth > least_depth):
                continue
            reading = self._executor.current(group, Knob.CPUS)
            if depth and reading is not None and not reading.value:
                continue  # nothing can run in a v1 cgroup without CPUs; whoever fills it takes its parent's
            wish = Wish(group, Knob.CPUS, cpus, vital=depth == 0)
            wishes[wish.key] = wish
        return wishes

    # Keeping

    def _kept(self, knob: Knob) -> dict[Key, Wish]:
        return {key: wish for key, wish in self._last.items() if key[1] is knob}

    def _keep_until_replaced(self, snapshot: Snapshot, tick: Tick, wishes: dict[Key, Wish]) -> None:
        """After a change of policy, let go of the old knob only once the new one holds."""
        group = snapshot.best_effort_dir
        if tick.quota is Action.SUPPRESS:
            new, old = Knob.QUOTA, Knob.CPUS
        elif tick.cpuset is Action.SUPPRESS:
            new, old = Knob.CPUS, Knob.QUOTA
        else:
            return
        wish = wishes.get((group, new))
        reading = self._executor.current(group, new)
        if wish is None or reading is None or reading.value != wish.value:
            for key, kept in self._kept(old).items():
                wishes.setdefault(key, kept)


def _tick_input(snapshot: Snapshot) -> TickInput:
    return TickInput(
        slo=snapshot.slo,
        is_enabled=snapshot.policy.enable,
        policy=snapshot.policy.policy,
        has_node=snapshot.node is not None and snapshot.node.capacity_milli > 0,
        pod_count=snapshot.listed_pods,
        sample_age_s=snapshot.sample_age_s,
        has_processors=bool(snapshot.processors),
    )


def _budget(snapshot: Snapshot) -> Budget | None:
    node, used = snapshot.node, snapshot.sample.node_cpu_cores
    if node is None or used is None:
        return None
    capacity = NodeCapacity(node.capacity_milli, node.allocatable_milli, node.annotated_reserve_milli)
    policy = snapshot.policy
    uses = [_pod_use(pod) for pod in snapshot.pods]
    return compute_budget(capacity, used, uses, [], policy.threshold_percent, policy.min_percent)


def _pod_use(pod: PodHere) -> PodUse:
    label = pod.view.qos if pod.view is not None else None
    kube = pod.view.kube_qos if pod.view is not None else pod.group.kube_qos
    return PodUse(pod.group.uid, label, kube, pod.sample.cpu_cores if pod.sample is not None else None)


def _pools(snapshot: Snapshot) -> cpuset.Pools:
    owners = [
        (pod.view.qos, _cpu_list(pod.view.cpus)) for pod in snapshot.pods if pod.view is not None and pod.view.cpus
    ]
    excluded = _cpu_list(snapshot.node.excluded_cpus) if snapshot.node is not None else frozenset()
    return cpuset.split_pools(snapshot.processors, owners, excluded)


def _cpu_list(text: str) -> frozenset[int]:
    try:
        return cpulist.parse(text)
    except ValueError:
        return frozenset()
