"""Peak policies: opt-in, never a smaller charge than without, each predictor by hand, the largest one counting."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.quantity import NANO
from manager.control.node_memory import NodeMemory
from manager.overcommit.decide import NO_MEMORY, Memory
from manager.overcommit.decision import Calculation
from manager.overcommit.report import read_report
from tests.manager.cases import NOW_S, decided, metric, node, pod, strategy


def windows(*found: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """aggregatedNodeUsages: (duration, cpu by percentile)."""
    listed = [
        {
            "duration": length,
            "usage": {name: {"resources": {"cpu": cpu, "memory": "16Gi"}} for name, cpu in by.items()},
        }
        for length, by in found
    ]
    return {"node_metric": {"aggregatedNodeUsages": listed}}


FIVE = ("5m0s", {"avg": "10", "p50": "10", "p90": "12", "p95": "14", "p99": "15"})
HALF_HOUR = ("30m0s", {"avg": "9", "p50": "9", "p90": "13", "p95": "16", "p99": "20"})


def calculated(peak: dict[str, Any], memory: Memory = NO_MEMORY, **fields: Any) -> Calculation:
    resolved = strategy(koord={"peak": peak}, **{name: fields.pop(name) for name in list(fields) if "Policy" in name})
    decision = decided(node(), metric({"web": ("4", "8Gi")}, **fields), pod("web"), resolved=resolved, memory=memory)
    assert decision.calculation is not None
    return decision.calculation


def burst_cores(peak: dict[str, Any], **fields: Any) -> float:
    return calculated(peak, **fields).burst.amounts.cpu / NANO


def test_nothing_is_estimated_by_default() -> None:
    found = calculated({}, **windows(FIVE, HALF_HOUR))
    assert found.burst.amounts == (0, 0)
    assert found.cpu.charged == 5 * NANO


def test_a_percentile_is_read_from_the_longest_window_that_holds_samples() -> None:
    assert burst_cores({"percentile": "p95"}, **windows(FIVE, HALF_HOUR)) == 6.0
    assert burst_cores({"percentile": "p95", "windowMinutes": 10}, **windows(FIVE, HALF_HOUR)) == 4.0
    assert burst_cores({"percentile": "p95"}, **windows(FIVE, ("30m0s", {}))) == 4.0
    assert burst_cores({"percentile": "p50"}, **windows(HALF_HOUR)) == 0.0


def test_deviations_of_a_window_come_from_its_percentiles() -> None:
    # The largest of (13 - 9) / 1.2816, (16 - 9) / 1.6449 and (20 - 9) / 2.3263 is 4.7285.
    assert burst_cores({"sigmas": 2}, **windows(HALF_HOUR)) == pytest.approx(9 + 2 * 4.7285 - 10, abs=0.002)


def test_deviations_over_time_come_from_what_the_node_reported_before() -> None:
    memory = Memory(past=((3 * NANO, NANO), (7 * NANO, NANO)))
    assert burst_cores({"sigmas": 3}, memory=memory) == pytest.approx(5 + 3 * (8 / 3) ** 0.5 - 5, abs=0.001)
    assert burst_cores({"sigmas": 3}) == 0.0


def test_the_agents_prediction_counts_production_and_system() -> None:
    predicted = {"prodPeakMetric": {"resource": {"resources": {"cpu": "11", "memory": "8Gi"}}}}
    assert burst_cores({"prodPeak": True}, **predicted) == 11 - 5
    assert burst_cores({"prodPeak": False}, **predicted) == 0.0
    assert burst_cores({"prodPeak": True}) == 0.0


def test_the_largest_predictor_counts_and_is_named() -> None:
    predicted = {"prodPeakMetric": {"resource": {"resources": {"cpu": "7", "memory": "60Gi"}}}}
    found = calculated({"percentile": "p95", "sigmas": 1, "prodPeak": True}, **windows(HALF_HOUR), **predicted)
    assert found.burst.cpu_by == "p95 of node usage"
    assert found.burst.memory_by == "prodPeakMetric"


def test_a_request_policy_is_charged_its_peak_only_where_that_is_more() -> None:
    found = calculated({"percentile": "p95"}, memoryCalculatePolicy="request", cpuCalculatePolicy="maxUsageRequest")
    assert found.cpu.charged == 11 * NANO
    bursting = calculated({"percentile": "p95"}, cpuCalculatePolicy="maxUsageRequest", **windows(HALF_HOUR))
    assert bursting.cpu.charged == 11 * NANO  # max(1 + 10, 1 + 4 + 6)


def test_an_unreadable_window_says_nothing() -> None:
    broken = ("30m0s", {"avg": "9", "p95": "lots"})
    assert burst_cores({"percentile": "p95"}, **windows(broken)) == 0.0
    assert burst_cores({"percentile": "p95"}, **windows(("half an hour", {"avg": "9", "p95": "99"}))) == 0.0
    assert burst_cores({"percentile": "p95"}, usage=None, **windows(HALF_HOUR)) == 0.0


@given(st.floats(0, 10), st.sampled_from(["", "p50", "p90", "p95", "p99"]), st.booleans())
def test_a_peak_policy_never_sells_more_than_none(sigmas: float, percentile: str, prod_peak: bool) -> None:
    with_peak = calculated(
        {"sigmas": sigmas, "percentile": percentile, "prodPeak": prod_peak}, **windows(FIVE, HALF_HOUR)
    )
    without = calculated({}, **windows(FIVE, HALF_HOUR))
    assert with_peak.batch.cpu <= without.batch.cpu
    assert with_peak.batch.memory <= without.batch.memory


def test_each_report_is_remembered_once_and_only_for_the_window() -> None:
    options = strategy(koord={"peak": {"sigmas": 1, "windowMinutes": 10}}).options
    memory = NodeMemory()
    for age_s, cores in ((1200, "2"), (300, "4"), (300, "4"), (0, "8")):
        report = metric({"web": (cores, "1Gi")}, age_s=age_s)
        found = decided(node(), report, pod("web"), resolved=strategy(degradeTimeMinutes=60))
        assert found.calculation is not None
        memory.note_usage(read_report(report), found.calculation.sums, 10)
    next_one, first = read_report(metric(age_s=-60)), read_report(metric())
    assert [cpu // NANO for cpu, _ in memory.recall(options, next_one, NOW_S, 0.0).past] == [5, 9]
    assert [cpu // NANO for cpu, _ in memory.recall(options, first, NOW_S, 0.0).past] == [5]
    assert memory.recall(options, None, NOW_S, 0.0).past == ()
