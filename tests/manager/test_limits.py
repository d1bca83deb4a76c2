"""What can make less of a calculated offer: the joint ledger, an ageing report, damping. And what is told of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.slo_config.options import Damping
from manager.control.node_memory import NodeMemory, WindowMinimum
from manager.overcommit import staleness
from manager.overcommit.amounts import Offer
from manager.overcommit.damping import Recent, damp
from manager.overcommit.decide import Memory
from manager.overcommit.decision import NodeDecision
from manager.overcommit.joint import JointLedger
from manager.overcommit.shortage import TierName, shortage
from manager.overcommit.staleness import Stage
from tests.manager.cases import BATCH, GIB, MID, NOW_S, decided, metric, node, pod, strategy

amounts = st.integers(0, 10**12)


# The joint ledger


@given(amounts, amounts, amounts, amounts, amounts, st.sampled_from([1, 1000, 10**6]))
def test_production_mid_and_batch_fit_on_the_node_together(
    capacity: int, production: int, mid_usage: int, mid: int, batch: int, unit: int
) -> None:
    ledger = JointLedger(capacity, production, mid_usage, mid, batch, unit)
    paid = max(ledger.mid_paid * unit, mid_usage if ledger.batch_paid else 0)
    if ledger.mid_paid or ledger.batch_paid:
        assert production + paid + ledger.batch_paid * unit <= capacity
    assert 0 <= ledger.mid_paid <= mid
    assert 0 <= ledger.batch_paid <= batch


def contested(**options: Any) -> NodeDecision:
    """Much is unallocated, so mid is offered 21 cores; batch, with a margin of 5 %, nearly as many: of 32."""
    fields = {"cpuReclaimThresholdPercent": 95, "memoryReclaimThresholdPercent": 95, "midUnallocatedPercent": 100}
    report = metric({"web": ("6", "8Gi")})
    return decided(node(), report, pod("web", "10", "10Gi"), resolved=strategy(**fields, **options))


def test_without_the_ledger_both_tiers_get_the_same_cores_and_a_note_says_so() -> None:
    decision = contested()
    assert decision.published is not None
    assert decision.mid_published is not None
    assert decision.published.cpu + decision.mid_published.cpu + 6000 + 1000 > 32000
    assert any("offered the same resources" in note for note in decision.notes)
    assert not decision.cuts


def test_the_ledger_pays_mid_first_and_batch_from_what_is_left() -> None:
    decision = contested(koord={"jointLedger": True})
    assert decision.mid_published == contested().mid_published
    assert decision.published is not None
    assert decision.mid_published is not None
    assert decision.published.cpu + decision.mid_published.cpu + 6000 + 1000 == 32000
    assert [cut.by for cut in decision.cuts] == ["joint ledger"]
    assert not any("offered the same" in note for note in decision.notes)


# An ageing report


@given(st.integers(0, 950), st.integers(0, 950))
def test_an_offer_only_falls_as_its_report_ages(first_s: int, second_s: int) -> None:
    first_s, second_s = sorted((first_s, second_s))
    younger, older = (offer(age_s) for age_s in (first_s, second_s))
    assert older.cpu <= younger.cpu
    assert older.memory <= younger.memory


def offer(age_s: float, **options: Any) -> Offer:
    decision = decided(node(), metric(age_s=age_s), resolved=strategy(**options))
    return decision.published or Offer(0, 0)


def test_an_offer_holds_for_three_missed_reports_then_shrinks_evenly_to_nothing() -> None:
    full = offer(0).cpu
    assert offer(180).cpu == full
    assert offer(540).cpu == full // 2
    assert offer(720).cpu == full // 4
    assert decided(node(), metric(age_s=901)).published is None


def test_agents_that_report_at_most_every_30_s_are_not_taken_for_dead() -> None:
    full = offer(0).cpu
    assert offer(90, metricReportIntervalSeconds=2).cpu == full
    assert offer(120, metricReportIntervalSeconds=2).cpu < full


def test_a_cliff_is_a_setting_away() -> None:
    cliff = {"koord": {"staleReports": {"mode": "cliff"}}}
    assert offer(900, **cliff) == offer(0)
    chosen = {"koord": {"staleReports": {"holdSeconds": 600}}}
    assert offer(600, **chosen) == offer(0)
    assert offer(750, **chosen).cpu == offer(0).cpu // 2


def test_a_decaying_offer_stops_at_what_running_pods_hold_until_the_end() -> None:
    """Case 101: expired reports degrade batch to the sum of what running BE pods request."""
    batch_pod = pod("be", "5000", "4Gi", 5500, BATCH)
    last = decided(node(), metric(age_s=900), batch_pod)
    assert last.published == Offer(5000, 4 * GIB)
    assert not last.shortages
    gone = decided(node(), metric(age_s=901), batch_pod)
    assert gone.published is None
    assert gone.shortages[0].missing == Offer(5000, 4 * GIB)


def test_a_decaying_offer_is_looked_at_again_and_again_and_says_why_it_is_less() -> None:
    fresh, decaying = (decided(node(), metric(age_s=age_s)) for age_s in (10, 400))
    assert fresh.look_again_s == NOW_S + 170
    assert decaying.freshness.stage is Stage.DECAYING
    assert decaying.look_again_s is not None
    assert NOW_S < decaying.look_again_s <= NOW_S + 720 / staleness.STEPS
    assert "400 s old" in decaying.cuts[0].why


# Damping


@given(amounts, amounts, st.floats(0, 1e6), st.integers(0, 10**6), st.floats(0, 100))
def test_shrinking_is_never_delayed_and_growth_never_exceeds_the_target(
    target: int, shown: int, unchanged_s: float, window_s: int, percent: float
) -> None:
    options = Damping(percent, window_s)
    damped = damp(Offer(target, 0), Offer(shown, 0), Offer(10**12, 0), options, Recent(None, unchanged_s)).offer.cpu
    assert min(target, shown) <= damped <= max(target, min(target, shown))
    if target <= shown:
        assert damped == target


def test_growth_is_so_much_of_the_capacity_a_minute() -> None:
    options = Damping(growth_percent_per_minute=10)
    capacity = Offer(32000, 64 * GIB)
    damped = damp(Offer(20000, 0), Offer(1000, 0), capacity, options, Recent(None, 60.0))
    assert damped.offer.cpu == 1000 + 3200
    assert damped.look_again_s is not None
    assert damp(Offer(20000, 0), None, capacity, options, Recent(None, 0.0)).offer.cpu == 20000


def test_growth_waits_for_the_smallest_offer_of_the_window() -> None:
    options = Damping(stabilization_seconds=300)
    capacity = Offer(32000, 64 * GIB)

    def grown(lowest: Offer | None) -> int:
        return damp(Offer(20000, 0), Offer(1000, 0), capacity, options, Recent(lowest, 1e9)).offer.cpu

    assert grown(None) == 1000
    assert grown(Offer(4000, 0)) == 4000
    assert grown(Offer(500, 0)) == 1000


def test_damping_is_off_by_default() -> None:
    shown = dict.fromkeys((*BATCH, *MID), "1")
    assert decided(node(**shown), metric()).published == decided(node(), metric()).published


def test_a_damped_decision_names_its_cut_and_when_to_look_again() -> None:
    shown = dict.fromkeys((*BATCH, *MID), "1000")
    resolved = strategy(koord={"damping": {"growthPercentPerMinute": 10}})
    memory = Memory(Recent(None, 60.0), Recent(None, 60.0))
    report = metric(reclaimable=("8", "8Gi"))
    decision = decided(node(**shown), report, resolved=resolved, memory=memory)
    assert decision.published is not None
    assert decision.mid_published is not None
    assert decision.published.cpu == decision.mid_published.cpu == 1000 + 3200
    assert {(cut.tier, cut.by) for cut in decision.cuts} == {(tier, "damping") for tier in TierName}
    assert decision.look_again_s is not None


step = st.tuples(st.floats(0, 100), st.integers(0, 100))


@given(st.lists(step, min_size=1, max_size=30, unique_by=lambda found: found[0]), st.floats(1, 50))
def test_the_window_minimum_is_that_of_the_step_function(steps: list[tuple[float, int]], window_s: float) -> None:
    steps = sorted(steps, key=lambda step: step[0])
    window = WindowMinimum()
    for at_s, value in steps:
        window.add(at_s, value)
    now_s = steps[-1][0]
    begin_s = now_s - window_s
    before = [value for at_s, value in steps if at_s <= begin_s]
    if steps[0][0] > begin_s:
        assert window.get(now_s, window_s) is None
    else:
        inside = [value for at_s, value in steps if at_s > begin_s]
        assert window.get(now_s, window_s) == min([before[-1], *inside])


def test_what_is_remembered_of_a_node_serves_the_next_decision() -> None:
    options = strategy(koord={"damping": {"stabilizationSeconds": 60}}).options
    memory = NodeMemory()
    for second, cores in enumerate(("1", "9", "3")):
        memory.note_decision(decided(node(), metric(system=(cores, "1Gi"))), NOW_S + 60 * second)
    recalled = memory.recall(options, None, NOW_S + 150, 7.0)
    assert recalled.batch == Recent(decided(node(), metric(system=("9", "1Gi"))).target, 7.0)
    assert memory.recall(options, None, NOW_S + 10, 7.0).batch.lowest is None


# Shortage


@pytest.mark.parametrize(
    ("published", "held", "missing"),
    [
        (Offer(5, 5), Offer(5, 5), None),
        (Offer(5, 5), Offer(6, 5), Offer(1, 0)),
        (Offer(5, 5), Offer(0, 9), Offer(0, 4)),
        (None, Offer(0, 0), None),
        (None, Offer(1, 0), Offer(1, 0)),
    ],
)
def test_offering_less_than_is_held_is_a_shortage(
    published: Offer | None, held: Offer, missing: Offer | None
) -> None:
    short = shortage(TierName.BATCH, published, held)
    assert (short and short.missing) == missing


def test_a_decision_says_what_running_batch_pods_miss() -> None:
    batch_pod = pod("be", "20000", "4Gi", 5500, BATCH)
    (short,) = decided(node(), metric(), batch_pod).shortages
    assert short.tier is TierName.BATCH
    assert short.message() == "kubernetes.io/batch-cpu: running pods hold 20k, 18200 is offered"
    mid_pod = pod("m", "2000", "1Gi", 7500, MID)
    (short,) = decided(node(), metric({"m": ("1", "1Gi")}), mid_pod).shortages
    assert short.tier is TierName.MID
