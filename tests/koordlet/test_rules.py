"""Properties of the pure rules: quotas, weights, CPU sets, orders of writing, memory limits, steps of load."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.qos import KubeQoS, QoSClass
from koordlet.batch import UNLIMITED, safe_memory_limit
from koordlet.sampling.load import Load
from koordlet.suppress import cpuset
from koordlet.suppress.budget import NodeCapacity, PodUse, compute_budget
from koordlet.suppress.cpuset import Cpu
from koordlet.suppress.fastpath import Baseline, fast_step
from koordlet.suppress.quota import FLOOR_US, QuotaReason, quota_of, step_down, step_quota
from koordlet.suppress.tick import Action, Presence, TickInput, TickLimits, decide_tick
from koordlet.sysfs import cpulist
from koordlet.sysfs.knobs import Knob
from koordlet.sysfs.ordering import Change, order_writes
from koordlet.weights import RATIO, Competitor, KubeRoot, WeightScale, decide_weights

CAPACITY = st.integers(1_000, 256_000)
QUOTAS = st.one_of(st.just(-1), st.integers(1_000, 30_000_000))
V1, V2 = WeightScale(2, 262_144), WeightScale(1, 10_000)


# Quota


@given(st.integers(-300_000, 300_000), QUOTAS, CAPACITY)
def test_a_fall_is_never_slowed_and_a_rise_never_exceeds_a_tenth_of_the_node(
    budget: int, current: int, capacity: int
) -> None:
    step = step_quota(budget, current, capacity)
    target = quota_of(budget)
    assert step.quota_us >= FLOOR_US or step.quota_us == current
    tenth = -(-capacity // 1000) * 10_000
    if current != -1:
        assert step.quota_us <= max(current, target)
        assert step.quota_us - current <= tenth
        if current - target >= tenth // 10:
            assert step.quota_us == target


@given(CAPACITY, st.integers(0, 100))
def test_the_quota_reaches_a_constant_budget_within_twelve_cycles(capacity: int, percent: int) -> None:
    budget = capacity * percent // 100
    current = FLOOR_US
    for _ in range(12):
        current = step_quota(budget, current, capacity).quota_us
    assert abs(current - quota_of(budget)) < -(-capacity // 1000) * 1000


def test_a_foreign_reset_is_replaced_from_our_value_not_ramped_from_theirs() -> None:
    step = step_quota(20_000, 10_000, 80_000, last_us=1_980_000)
    assert (step.quota_us, step.is_write, step.reason) == (1_980_000, True, QuotaReason.REASSERTED)
    assert step_quota(20_000, -1, 80_000, last_us=1_000_000).quota_us == 1_800_000


@given(QUOTAS, CAPACITY, st.one_of(st.none(), st.integers(0, 100)))
def test_without_samples_the_limit_only_falls_and_ends_at_the_minimum(
    current: int, capacity: int, percent: int | None
) -> None:
    floor = None if percent is None else capacity * percent // 100
    values = [current]
    for _ in range(16):
        values.append(step_down(values[-1], capacity, floor).quota_us)
    finite = [value for value in values if value != -1]
    assert all(later <= earlier for earlier, later in pairwise(finite))
    lowest = quota_of(floor or 0)
    assert finite[-1] == (min(lowest, current) if current != -1 else lowest)


# Budget


@given(st.lists(st.floats(0, 64), max_size=20), st.floats(0, 64), st.integers(0, 100))
def test_more_production_never_raises_the_budget(uses: list[float], node: float, percent: int) -> None:
    def budget(*cores: float) -> int:
        pods = [PodUse(str(n), QoSClass.LS, KubeQoS.BURSTABLE, one) for n, one in enumerate(cores)]
        used = math.fsum(cores) + node
        return compute_budget(NodeCapacity(64_000, 64_000), used, pods, [], percent, None).budget_milli

    assert budget(*uses, 1.0) <= budget(*uses) + 1


# Tick


def known(**changes: object) -> TickInput:
    base = TickInput(Presence.PRESENT, True, "cfsQuota", True, 3, 0.5, True)
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "quota", "cpus"),
    [
        ({}, Action.SUPPRESS, Action.RESTORE),
        ({"policy": "cpuset"}, Action.RESTORE, Action.SUPPRESS),
        ({"slo": Presence.DELETED}, Action.RESTORE, Action.RESTORE),
        ({"slo": Presence.UNKNOWN}, Action.KEEP, Action.KEEP),
        ({"sample_age_s": None}, Action.KEEP, Action.KEEP),
        ({"sample_age_s": 4.0}, Action.KEEP, Action.KEEP),
        ({"sample_age_s": 6.0}, Action.STEP_DOWN, Action.KEEP),
        ({"sample_age_s": 6.0, "is_enabled": False}, Action.RESTORE, Action.RESTORE),
        ({"has_node": False, "sample_age_s": 60.0}, Action.KEEP, Action.KEEP),
    ],
)
def test_missing_facts_keep_the_limit_and_a_switch_off_gives_it_back(
    changes: dict[str, object], quota: Action, cpus: Action
) -> None:
    tick = decide_tick(known(**changes), TickLimits(2.0, 5.0))
    assert (tick.quota, tick.cpuset) == (quota, cpus)


# Fast path


def baseline(production: float, budget_milli: int, floor: int = 0, reserved: int = 0) -> Baseline:
    budget = compute_budget(NodeCapacity(4000, 4000 - reserved), production + 0.25, [], [], 100, None)
    system = {"measured_system_milli": 250, "system_milli": max(250, reserved), "budget_milli": budget_milli}
    return Baseline(replace(budget, **system), Load(production, production + 0.25), 4000, floor)  # type: ignore[arg-type]


@given(st.floats(0, 4), st.floats(0, 4), st.floats(0, 8), QUOTAS)
def test_the_fast_path_never_raises(production: float, others: float, before: float, current: int) -> None:
    step = fast_step(baseline(before, 3000), Load(production, others), current)
    assert step is None or current == -1 or step.quota_us < current


def test_the_fast_path_cuts_by_what_production_grew_and_ignores_noise() -> None:
    step = fast_step(baseline(0.5, 3000), Load(1.5, 1.75), 300_000)
    assert step is not None
    assert step.quota_us == 200_000
    assert fast_step(baseline(0.5, 3000), Load(0.8, 1.05), 300_000) is None, "less than a tenth of the node"
    assert fast_step(baseline(0.5, 3000), Load(0.5, 1.45), 300_000) is None, "within the resolution of ticks"
    assert fast_step(baseline(0.5, 3000), Load(0.5, 1.45, is_precise=True), 300_000) is not None
    bounded = fast_step(baseline(0.5, 3000, floor=2800), Load(2.5, 2.75), 300_000)
    assert bounded is not None
    assert bounded.quota_us == 280_000


def test_a_small_step_must_last_for_two_windows_and_a_large_one_need_not() -> None:
    small, none, large = Load(1.1, 1.35), Load(0.5, 0.75), Load(1.5, 1.75)
    assert fast_step(baseline(0.5, 3000), small, 300_000, none) is None, "one window: chance"
    lasting = fast_step(baseline(0.5, 3000), large, 300_000, none)
    assert lasting is not None
    assert lasting.quota_us == 200_000
    confirmed = fast_step(baseline(0.5, 3000), small, 300_000, Load(1.2, 1.45))
    assert confirmed is not None
    assert confirmed.quota_us == 240_000, "the smaller growth of both"


def test_the_fast_path_counts_only_what_the_budget_loses() -> None:
    displaced = Load(0.75, 0.75, is_precise=True)  # production took what the system had
    assert fast_step(baseline(0.5, 3000), displaced, 300_000) is None
    system_grew = Load(0.5, 1.5, is_precise=True)
    assert fast_step(baseline(0.5, 3000, reserved=1200), system_grew, 300_000) is None, "that was reserved for it"
    assert fast_step(baseline(0.5, 3000), system_grew, 300_000) is not None


# Weights


@st.composite
def kube_roots(draw: st.DrawFn, highest: int, *, may_have_be: bool = True) -> KubeRoot:
    weights = st.integers(2, highest)
    guaranteed = [Competitor(f"g{n}", draw(weights)) for n in range(draw(st.integers(0, 4)))]
    flags = st.booleans() if may_have_be else st.just(False)
    inside = [Competitor(f"burstable/b{n}", draw(weights), draw(flags)) for n in range(draw(st.integers(0, 5)))]
    burstable = Competitor("burstable", min(max(sum(pod.base for pod in inside), 2), 262_144))
    return KubeRoot("besteffort", burstable, guaranteed, inside)


@given(kube_roots(65_536), st.just(V1))
def test_v1_production_ends_at_256_times_best_effort(root: KubeRoot, scale: WeightScale) -> None:
    check_protection(root, scale)


@given(kube_roots(2_500), st.just(V2))
def test_v2_production_ends_at_256_times_best_effort(root: KubeRoot, scale: WeightScale) -> None:
    root = replace(root, burstable=replace(root.burstable, base=min(root.burstable.base, 10_000)))  # type: ignore[union-attr,type-var]
    check_protection(root, scale)


def check_protection(root: KubeRoot, scale: WeightScale) -> None:
    decision = decide_weights(root, scale)
    weights = decision.weights
    assert all(scale.lowest <= weight <= scale.highest for weight in weights.values())
    assert weights["besteffort"] == scale.lowest
    assert decision.least_ratio >= RATIO * 0.99
    for level in (root.guaranteed_pods, root.burstable_pods):
        production = sorted((pod for pod in level if not pod.is_best_effort), key=lambda pod: pod.base)
        for lighter, heavier in pairwise(production):
            assert weights[lighter.group] <= weights[heavier.group]
            if lighter.base == heavier.base:
                assert weights[lighter.group] == weights[heavier.group]
        for pod in level:
            if pod.is_best_effort:
                assert weights[pod.group] == scale.lowest


@given(kube_roots(1_024, may_have_be=False))
def test_ratios_among_production_pods_stay_while_the_range_allows(root: KubeRoot) -> None:
    decision = decide_weights(root, V1)
    if math.log2(decision.factor) % 1:
        return  # the end of the kernel's range bounded it
    for one in root.guaranteed_pods:
        for other in root.guaranteed_pods:
            ratio = decision.weights[one.group] / decision.weights[other.group]
            assert ratio == pytest.approx(one.base / other.base, rel=0.01)
    if decision.inner_floor == 0:
        assert all(decision.weights[pod.group] == pod.base for pod in root.burstable_pods)


@given(kube_roots(4_096))
def test_weights_are_stable(root: KubeRoot) -> None:
    assert decide_weights(root, V1) == decide_weights(root, V1)


def test_production_is_raised_to_2048_times_where_the_range_has_room() -> None:
    alone = KubeRoot("besteffort", Competitor("burstable", 512), [], [Competitor("burstable/web", 512)])
    assert decide_weights(alone, V1).least_ratio == 2048
    beside_huge = replace(alone, guaranteed_pods=[Competitor("g", 65_536)])
    assert decide_weights(beside_huge, V1).least_ratio == 1024
    assert decide_weights(beside_huge, V1).weights["g"] == 262_144


def test_an_empty_burstable_directory_is_left_as_kubelet_has_it() -> None:
    root = KubeRoot("besteffort", Competitor("burstable", 2), [Competitor("g", 1024)], [])
    assert decide_weights(root, V1).weights == {"besteffort": 2, "burstable": 2, "g": 4096}


# CPU sets


@st.composite
def processors(draw: st.DrawFn) -> list[Cpu]:
    numas, cores, threads = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 2))
    found = [
        Cpu(thread * numas * cores + numa * cores + core, numa * cores + core, numa, numa)
        for numa in range(numas)
        for core in range(cores)
        for thread in range(threads)
    ]
    offline = draw(st.sets(st.sampled_from(found)))
    return [one for one in found if one not in offline]


@given(processors(), st.integers(0, 40))
def test_as_many_distinct_online_cpus_are_picked_as_wanted_or_none(cpus: list[Cpu], wanted: int) -> None:
    picked = cpuset.pick(wanted, cpus)
    assert len(set(picked)) == len(picked)
    assert len(picked) in (0, wanted)
    assert set(picked) <= {one.cpu for one in cpus}
    if wanted <= len(cpus):
        assert len(picked) == wanted


@given(processors(), st.integers(-5_000, 40_000), st.data())
def test_the_set_never_holds_an_excluded_or_lse_cpu(cpus: list[Cpu], budget: int, data: st.DataObject) -> None:
    ids = [one.cpu for one in cpus] or [0]
    excluded, lse, lsr = (frozenset(data.draw(st.sets(st.sampled_from(ids)))) for _ in range(3))
    pools = cpuset.split_pools(cpus, [(QoSClass.LSR, lsr), (QoSClass.LSE, lse)], excluded)
    current = frozenset(ids)
    step = cpuset.plan_cpus(budget, len(cpus), current, pools)
    if step.is_write:
        assert step.cpus
        assert not step.cpus & (excluded | lse)
    else:
        assert step.cpus == current


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert cpulist.parse(cpulist.render(cpus)) == cpus


# Orders of writing


GROUPS = ("r", "r/p", "r/p/c", "r/q", "r/q/c")


class V1Rules:
    """The kernel's rule for quotas and CPU sets of a v1 tree: a child within its parent, always."""

    def __init__(self, values: dict[str, object]) -> None:
        self.values = dict(values)

    def write(self, group: str, value: object) -> None:
        self.values[group] = value
        for child in GROUPS[1:]:
            parent = child.rpartition("/")[0]
            assert self.is_within(child, parent), f"{child} exceeds {parent} after writing {group}"

    def is_within(self, child: str, parent: str) -> bool:
        mine, above = self.values[child], self.values[parent]
        if isinstance(mine, frozenset):
            return mine <= above  # type: ignore[operator,no-any-return]
        while above == -1 and "/" in parent:
            parent = parent.rpartition("/")[0]
            above = self.values[parent]
        return mine == -1 or above == -1 or mine <= above  # type: ignore[operator,no-any-return]


@st.composite
def quota_trees(draw: st.DrawFn) -> dict[str, object]:
    values: dict[str, object] = {}
    limits: dict[str, int] = {"": 1_000_000}
    for group in GROUPS:
        above = limits[group.rpartition("/")[0]]
        value = draw(st.one_of(st.just(-1), st.integers(1_000, above)))
        values[group] = value
        limits[group] = above if value == -1 else value
    return values


@st.composite
def cpu_trees(draw: st.DrawFn) -> dict[str, object]:
    values: dict[str, object] = {"": frozenset(range(8))}
    for group in GROUPS:
        above = values[group.rpartition("/")[0]]
        values[group] = frozenset(draw(st.sets(st.sampled_from(sorted(above)), min_size=1)))  # type: ignore[call-overload]
    del values[""]
    return values


def check_order(knob: Knob, before: dict[str, object], after: dict[str, object]) -> None:
    kernel = V1Rules(before)
    for write in order_writes([Change(group, knob, before[group], after[group]) for group in GROUPS]):  # type: ignore[arg-type]
        kernel.write(write.group, write.value)
    assert kernel.values == after


@given(quota_trees(), quota_trees())
def test_quotas_of_any_tree_change_into_any_other_without_a_refusal(
    before: dict[str, object], after: dict[str, object]
) -> None:
    check_order(Knob.QUOTA, before, after)


@given(cpu_trees(), cpu_trees())
def test_cpu_sets_of_any_tree_change_into_any_other_without_a_refusal(
    before: dict[str, object], after: dict[str, object]
) -> None:
    check_order(Knob.CPUS, before, after)


# Memory


@given(
    st.integers(1 << 20, 1 << 36),
    st.one_of(st.just(UNLIMITED), st.integers(1 << 20, 1 << 36)),
    st.integers(0, 1 << 36),
)
def test_a_memory_limit_is_never_set_below_what_is_in_use(wanted: int, current: int, working_set: int) -> None:
    limit = safe_memory_limit(wanted, current, working_set)
    assert limit >= wanted or limit == current
    if current == UNLIMITED or limit < current:
        assert limit >= min(working_set, limit + (current == UNLIMITED))
        assert limit == wanted or limit >= working_set
    assert current == UNLIMITED or limit <= max(current, wanted)
