"""Faults that people met with overcommit controllers, each named after what went wrong."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import names, quantity
from koord.slo_config.loading import load
from manager.control.fleet_metrics import FleetMetrics
from manager.overcommit.account import account_of
from manager.overcommit.amounts import Amounts, Offer
from manager.overcommit.annotations import NEVER_WRITTEN
from manager.overcommit.decision import Reason
from manager.overcommit.node_facts import derive
from manager.overcommit.node_patch import changes
from manager.overcommit.report import read_report
from manager.overcommit.terms import as_log
from manager.overcommit.wanted import NodeRatios, Wanted, wanted
from manager.overcommit.write_rule import WriteReason, judge
from sandbox.admission.resource_validation import is_extended, is_native, may_overcommit
from tests.manager.cases import BATCH, GIB, MID, NOW_S, decided, metric, node, pod, strategy

REF = "ConfigMap/colo-system/slo-controller-config"


def test_broken_or_contradictory_configuration_crashes_the_controller_or_falls_back_silently() -> None:
    """Case 17."""
    good = load(None, {names.KEY_COLOCATION: '{"enable": true}', names.KEY_CPU_BURST: "{}"}, REF)
    broken = {
        names.KEY_COLOCATION: '{"enable": true, "cpuReclaimThresholdPercent": "sixty"',
        names.KEY_THRESHOLD: '{"clusterStrategy":{"enable":true,"cpuSuppressThresholdPercent":165}}',
        names.KEY_CPU_BURST: '{"clusterStrategy": {"policy": "auto"}}',
    }
    loaded = load(good, broken, REF)
    assert loaded.colocation is good.colocation
    assert loaded.blocks[names.KEY_CPU_BURST].cluster["policy"] == "auto"
    by_key = {fault.key: fault.message for fault in loaded.faults}
    assert set(by_key) == {names.KEY_COLOCATION, names.KEY_THRESHOLD}
    assert "clusterStrategy.cpuSuppressThresholdPercent: invalid value 165: allowed:" in by_key[names.KEY_THRESHOLD]
    at_start = load(None, broken, REF)
    assert at_start.colocation is None
    assert at_start.blocks[names.KEY_THRESHOLD].cluster["enable"] is False


def test_a_best_effort_pod_that_just_ended_is_taken_for_system_usage_and_batch_cpu_drops_and_recovers() -> None:
    """Case 19: node 2500m, pods a and b 1000m each in the same report, so the agent says system 500m."""
    report = metric(
        {"a": ("1", "1Gi"), "b": ("1", "1Gi")},
        system=("500m", "0"),
        usage=("2500m", "2Gi"),
        bands={"a": "koord-batch", "b": "koord-batch"},
    )
    pods = [pod(name, "1000", "1Gi", 5500, BATCH) for name in ("a", "b")]
    both = decided(node(cpu="10"), report, *pods)
    one = decided(node(cpu="10"), report, pods[0])
    assert both.calculated == one.calculated
    assert both.calculated is not None
    assert both.calculated.cpu == 10000 - 4000 - 500
    assert account_of(one, Amounts(10 * 10**9, 0)).batch_used.cpu == 2000


def test_a_new_production_pod_makes_a_step_in_batch_cpu_that_nobody_explains() -> None:
    """Case 20."""
    sold = strategy(cpuReclaimThresholdPercent=90)
    report = metric({"a": ("7", "1Gi"), "gone": ("2", "1Gi")}, usage=("8", "8Gi"))
    decision = decided(node(), report, pod("a"), pod("new"), resolved=sold)
    assert decision.calculated is not None
    assert decision.calculated.cpu == 32000 - 3200 - 1000 - 7000 - 10000 - 2000
    assert decision.unmeasured == (("default", "new"),)
    assert decision.dangling == (("default", "gone"),)
    assert as_log(decision)["unmeasured"] == ["default/new"]
    sampled = metric({"a": ("7", "1Gi"), "new": ("1", "1Gi")}, usage=("8", "8Gi"))
    after = decided(node(), sampled, pod("a"), pod("new"), resolved=sold)
    assert after.calculated is not None
    assert after.calculated.cpu == 32000 - 3200 - 1000 - 7000 - 1000
    assert after.unmeasured == ()


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("129e6", 129000000 * 10**9),
        ("1E", 10**18 * 10**9),
        ("1E3", 1000 * 10**9),
        ("1e3", 1000 * 10**9),
        ("1k", 1000 * 10**9),
        ("1Ki", 1024 * 10**9),
        ("128974848000m", 128974848 * 10**9),
        ("1500u", 1500 * 10**3),
        ("100n", 100),
        ("+.5", 5 * 10**8),
        ("5.", 5 * 10**9),
    ],
)
def test_a_quantity_is_misread(text: str, nano: int) -> None:
    """Case 75."""
    assert quantity.nano(text) == nano


def test_a_quantity_below_a_unit_is_cut_to_nothing_or_an_unknown_suffix_taken_for_a_number() -> None:
    """Case 75: 400m of memory is a byte, 100n of cpu a milli-core; what is no quantity raises, quickly."""
    assert (quantity.value("400m"), quantity.milli("100n")) == (1, 1)
    for text in ("1K", "", "1e", "0x10", "- 1", "9" * 10_000):
        with pytest.raises(quantity.InvalidQuantity):
            quantity.nano(text)


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.sampled_from(["64Gi", "64G", "64e9"]))
def test_an_amount_is_written_in_scientific_notation_or_inexactly(cpu: int, memory: int, capacity: str) -> None:
    """Case 76: what goes on the node is parsed back to the very same number."""
    on = node(memory=capacity)
    decision = decided(on, metric())
    want = wanted(derive(on), decision, NodeRatios())
    amounts = {**want.resources, BATCH[0]: cpu, BATCH[1]: memory}
    shown = changes(derive(on), Wanted(amounts, want.families, want.origin), NEVER_WRITTEN).amounts
    assert quantity.value(shown[BATCH[0]] or "") == cpu
    assert quantity.value(shown[BATCH[1]] or "") == memory
    assert "E+" not in json.dumps(shown)


def test_nothing_requested_of_nothing_offered_becomes_not_a_number() -> None:
    """Case 79: a node that offers nothing and holds nothing, and one that holds what it does not offer."""
    empty = decided(node(cpu="0", memory="0"), metric(system=("0", "0"), usage=("0", "0")))
    held = decided(node(cpu="1", memory="1Gi"), metric(), pod("be", "500", "1Gi", 5500, BATCH))
    for decision, capacity in ((empty, Amounts(0, 0)), (held, Amounts(10**9, GIB * 10**9))):
        samples = [
            sample.value
            for family in FleetMetrics(lambda d=decision, c=capacity: [(d, c, NOW_S)]).collect()
            for sample in family.samples
        ]
        assert samples
        assert all(abs(value) < float("inf") for value in samples)
        assert "NaN" not in json.dumps(as_log(decision))
    assert not empty.shortages
    assert held.shortages[0].missing == Offer(500, GIB)
    assert account_of(held, Amounts(10**9, GIB * 10**9)).violated == Offer(500, GIB)


def test_unchanged_objects_are_written_every_few_seconds() -> None:
    """Case 100: two thousand nodes in a calm state, an hour of reports, each node written by a small drift at most
    once an update interval: far below nodes / 60 a second, and nothing at all while nothing differs."""
    on = node()
    want = wanted(derive(on), decided(on, metric()), NodeRatios())
    found = changes(derive(on), want, NEVER_WRITTEN)
    amounts = {**on.status.capacity, **found.amounts}
    document: dict[str, Any] = {
        "metadata": {"name": "n", "annotations": found.annotations},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    facts = derive(msgspec.convert(document, type(on)))
    writes, last_s = 0, 0.0
    for second in range(0, 3600, 60):
        drift = metric(system=(f"{1000 + second // 60}m", "1Gi"))
        verdict = judge(facts, wanted(facts, decided(on, drift), NodeRatios()), strategy().strategy, second - last_s)
        writes += verdict.write
        last_s = second if verdict.write else last_s
    assert 0 < writes <= 3600 / 300
    calm = judge(facts, wanted(facts, decided(on, metric()), NodeRatios()), strategy().strategy, 1e9)
    assert calm.reason is WriteReason.UNCHANGED


@pytest.mark.parametrize("age_s", [2 * 3600, 901])
def test_the_last_report_of_a_node_whose_agent_is_long_gone_still_counts(age_s: int) -> None:
    """Case 101: age is that of the report by the manager's clock; what is left before the end is what running pods
    hold (see test_limits); after it nothing is offered, and the decision names the age."""
    gone = decided(node(), metric(age_s=age_s), pod("be", "3000", "1Gi", 5500, BATCH))
    assert (gone.reason, gone.published) == (Reason.REPORT_EXPIRED, None)
    assert gone.report_age_s == age_s
    assert gone.shortages
    ahead = read_report(metric(age_s=-3600), received_s=NOW_S)
    assert ahead.updated_s == NOW_S
    assert any("ahead of the manager's clock" in problem for problem in ahead.problems)


@pytest.mark.parametrize(
    ("name", "extended", "native"),
    [
        ("kubernetes.io/batch-cpu", False, True),
        ("kubernetes.io/mid-memory", False, True),
        ("node.kubernetes.io/x", False, True),
        ("example.com/batch-cpu", True, False),
        ("cpu", False, True),
    ],
)
def test_names_under_kubernetes_io_are_taken_for_extended_resources(name: str, extended: bool, native: bool) -> None:
    """Case 115: so that batch resources may be requested with a limit above the request."""
    assert (is_extended(name), is_native(name), may_overcommit(name)) == (extended, native, native)


def test_mid_pods_count_by_their_native_request_and_reservations_twice() -> None:
    """Case 128: 64 Gi, 80 % sold, the kubelet keeps 2 Gi and the annotation 4 Gi: 51.2 - 4 - 10 - 8 = 29.2 Gi."""
    resolved = strategy(memoryReclaimThresholdPercent=80, memoryCalculatePolicy="request")
    reserved = {names.ANNOTATION_NODE_RESERVATION: '{"resources": {"memory": "4Gi"}}'}
    on = node(annotations=reserved)
    status = msgspec.structs.replace(on.status, allocatable={"cpu": "32", "memory": "62Gi"})
    on = msgspec.structs.replace(on, status=status)
    pods = [
        pod("prod", "1", "10Gi"),
        pod("mid", "1000", "8Gi", 7500, MID),
        pod("batch", "1000", "6Gi", 5500, BATCH),
    ]
    decision = decided(on, metric(), *pods, resolved=resolved)
    assert decision.calculated is not None
    assert decision.calculated.memory == pytest.approx(29.2 * GIB, abs=1)
    # Where usage equals the request, both policies agree.
    measured = metric({"prod": ("1", "10Gi"), "mid": ("1", "8Gi")}, system=("0", "0"))
    by_usage = decided(on, measured, *pods, resolved=strategy(memoryReclaimThresholdPercent=80))
    assert by_usage.calculated is not None
    assert by_usage.calculated.memory == decision.calculated.memory


def test_a_node_without_an_agent_is_an_error_every_cycle() -> None:
    """Case 129: nothing is published, nothing written, and the node is counted as one without a report."""
    plain = node()
    decision = decided(plain, None)
    assert (decision.reason, decision.published, decision.notes) == (Reason.NO_REPORT, None, ())
    want = wanted(derive(plain), decision, NodeRatios())
    assert judge(derive(plain), want, strategy().strategy, 1e9).reason is WriteReason.UNCHANGED
