"""Cases of the batch decision that no recorded vector has: broken input, clocks, who counts."""

import copy
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest

from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import parse_rfc3339
from koord.slo_config import colocation
from koord.slo_config.resolve import Resolved, resolve
from manager.overcommit import node_facts, pod_share
from manager.overcommit.amounts import Offer
from manager.overcommit.annotations import LastOffer
from manager.overcommit.cpu_list import count_cpus
from manager.overcommit.decide import decide
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.explain import Objects, explain
from manager.overcommit.node_patch import changes, json_patch
from manager.overcommit.report import read_report
from manager.overcommit.wanted import NodeRatios, Wanted, wanted
from manager.overcommit.write_rule import WriteReason, WriteVerdict, judge

NOW = "2026-01-01T12:00:00Z"
NOW_S = parse_rfc3339(NOW)
ORIGIN = "node.koordinator.sh/originExtendedAllocatable"


def strategy(text: str = '{"enable": true}') -> Resolved:
    return resolve(colocation.parse(text, "ConfigMap/x"), {}, {})


def node(batch: tuple[str, str] | None = None, annotations: dict[str, str] | None = None, **capacity: str) -> Node:
    amounts: dict[str, Any] = {"cpu": "32", "memory": "64Gi", **capacity}
    if batch:
        amounts |= {"kubernetes.io/batch-cpu": batch[0], "kubernetes.io/batch-memory": batch[1]}
    document = {
        "metadata": {"name": "n", "annotations": annotations or {}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return msgspec.convert(document, Node)


def metric(*pods: tuple[str, str, str], system: Any = "1", updated: str | None = NOW, **more: Any) -> NodeMetric:
    status: dict[str, Any] = {
        "updateTime": updated,
        "nodeMetric": {"systemUsage": {"resources": {"cpu": system, "memory": "1Gi"}}},
        "podsMetric": [
            {"namespace": "default", "name": name, "podUsage": {"resources": {"cpu": cpu, "memory": memory}}}
            for name, cpu, memory in pods
        ],
        **more,
    }
    return msgspec.convert({"metadata": {"name": "n"}, "status": status}, NodeMetric)


def pod(
    name: str,
    cpu: Any = "10",
    priority: int = 9500,
    names: tuple[str, str] = ("cpu", "memory"),
    memory: str = "8Gi",
) -> Pod:
    requests = dict(zip(names, (cpu, memory), strict=True))
    document = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "n", "priority": priority, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(document, Pod)


def decided(
    on: Node, report: NodeMetric | None, *pods: Pod, resolved: Resolved | None = None, received_s: float | None = None
) -> NodeDecision:
    shares = [pod_share.derive(each) for each in pods]
    read = read_report(report, received_s) if report else None
    return decide(node_facts.derive(on), read, shares, resolved or strategy(), NOW_S)


def test_a_pod_without_sample_counts_by_its_request_and_is_named() -> None:
    decision = decided(node(), metric(("a", "7", "4Gi")), pod("a"), pod("new"))
    assert decision.calculated is not None
    assert decision.calculated.cpu == 32000 - 12800 - 1000 - 7000 - 10000
    assert decision.unmeasured == (("default", "new"),)


def test_a_batch_pod_that_just_ended_changes_nothing() -> None:
    report = msgspec.structs.replace(metric(("be", "1", "1Gi")))
    ended = msgspec.structs.replace(report.status.pods_metric[0], priority="koord-batch")
    status = msgspec.structs.replace(report.status, pods_metric=(ended,))
    report = msgspec.structs.replace(report, status=status)
    batch_pod = pod("be", priority=5500)
    assert decided(node(), report, batch_pod).calculated == decided(node(), report).calculated


def test_mid_pods_count_by_the_mid_names_that_admission_wrote() -> None:
    resolved = strategy('{"enable": true, "memoryCalculatePolicy": "request"}')
    mid = pod("m", "4000", 7500, ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"))
    decision = decided(node(), metric(), mid, resolved=resolved)
    assert decision.cpu is not None
    assert decision.memory is not None
    assert decision.cpu.protected_requests == 4 * 10**9
    assert decision.memory.protected_requests == 8 * 2**30 * 10**9


def test_reservations_count_once_by_the_larger_one() -> None:
    resolved = strategy('{"enable": true, "memoryCalculatePolicy": "request", "memoryReclaimThresholdPercent": 80}')
    reserved = {"node.koordinator.sh/reservation": '{"resources": {"memory": "4Gi"}}'}
    held_back = msgspec.structs.replace(
        node(annotations=reserved).status, allocatable={"cpu": "32", "memory": "62Gi"}
    )
    on = msgspec.structs.replace(node(annotations=reserved), status=held_back)
    decision = decided(on, metric(), resolved=resolved)
    assert decision.memory is not None
    assert decision.memory.reserved == 4 * 2**30 * 10**9


def test_a_report_without_node_usage_is_not_trusted() -> None:
    decision = decided(node(), metric(nodeMetric=None))
    assert (decision.reason, decision.published) == (Reason.REPORT_UNUSABLE, None)


@pytest.mark.parametrize("system", ["lots", "1.2.3"])
def test_an_unreadable_system_usage_makes_the_report_unusable_and_says_so(system: str) -> None:
    decision = decided(node(), metric(system=system))
    assert decision.reason is Reason.REPORT_UNUSABLE
    assert any("systemUsage" in note for note in decision.notes)


def test_an_unreadable_pod_usage_counts_the_pod_by_its_request() -> None:
    decision = decided(node(), metric(("a", "lots", "4Gi")), pod("a"))
    assert decision.unmeasured == (("default", "a"),)
    assert any("default/a" in note for note in decision.notes)


def test_an_unreadable_update_time_is_no_time() -> None:
    assert decided(node(), metric(updated="yesterday")).reason is Reason.REPORT_WITHOUT_TIME


def test_a_report_from_the_future_expires_as_if_it_were_from_now() -> None:
    decision = decided(node(), metric(updated="2026-01-01T20:00:00Z"), received_s=NOW_S)
    assert decision.expires_at_s == NOW_S + 15 * 60
    assert any("ahead" in note for note in decision.notes)


def test_negative_usage_is_no_gift() -> None:
    assert (
        decided(node(), metric(("a", "-5", "1Gi")), pod("a")).calculated
        == decided(node(), metric(("a", "0", "1Gi")), pod("a")).calculated
    )


def test_a_reclaim_percent_out_of_all_bounds_does_not_overflow() -> None:
    for percent in (-(2**63), 2**63 - 1):
        resolved = resolve(
            colocation.parse('{"enable": true}', "x"),
            {},
            {"node.koordinator.sh/colocation-strategy": f'{{"cpuReclaimThresholdPercent": {percent}}}'},
        )
        decision = decided(node(), metric(), resolved=resolved)
        assert decision.calculated is not None
        assert decision.calculated.cpu >= 0


@pytest.mark.parametrize("text", ["NaN", "inf", "-0.5", "1e400", "0x1p-2", "1_0", " 1", "", "half"])
def test_a_ratio_label_that_is_no_plain_number_is_ignored_and_noted(text: str) -> None:
    resolved = resolve(colocation.parse("{}", "x"), {"node.koordinator.sh/cpu-reclaim-ratio": text}, {})
    assert resolved.strategy.cpu_reclaim_threshold_percent == 60
    assert resolved.notes


def test_the_source_of_every_value_is_known() -> None:
    config = colocation.parse(
        '{"enable": true, "degradeTimeMinutes": 9, "nodeConfigs": [{"name": "gpu", "nodeSelector": {},'
        ' "memoryReclaimThresholdPercent": 50}]}',
        "x",
    )
    resolved = resolve(config, {"node.koordinator.sh/cpu-reclaim-ratio": "0.7"}, {})
    assert resolved.source_of("degradeTimeMinutes") == "cluster strategy"
    assert resolved.source_of("memoryReclaimThresholdPercent") == "nodeConfigs[0] (gpu)"
    assert resolved.source_of("cpuReclaimThresholdPercent") == "label node.koordinator.sh/cpu-reclaim-ratio"
    assert resolved.source_of("resourceDiffThreshold") == "built-in default"


@pytest.mark.parametrize(
    ("policy", "cpu", "memory"),
    [("usage", 4700, 14602888807), ("request", 4700, 12455405159), ("maxUsageRequest", 0, 12455405159)],
)
def test_the_worked_example_of_the_documentation_holds(policy: str, cpu: int, memory: int) -> None:
    held_back = msgspec.structs.replace(node().status, allocatable={"cpu": "31", "memory": "62Gi"})
    on = msgspec.structs.replace(node(), status=held_back)
    report = metric(("web", "6", "10Gi"), ("search", "5", "12Gi"), ("spark", "9", "16Gi"), system="1500m")
    pods = [
        pod("web", "16", memory="16Gi"),
        pod("search", "8"),
        pod("new", "2", memory="4Gi"),
        pod("spark", "0", 5500),
    ]
    both = f'"cpuCalculatePolicy": "{policy}", "memoryCalculatePolicy": "{policy}"'
    decision = decided(on, report, *pods, resolved=strategy(f'{{"enable": true, {both}}}'))
    assert decision.published == Offer(cpu, memory)


def test_a_person_gets_the_same_decision_from_the_objects_alone() -> None:
    report = metric(("a", "7", "4Gi"))
    objects = Objects(node(), report, [pod("a")], {"colocation-config": '{"enable": true}'})
    assert explain(objects, NOW_S).decision == decided(node(), report, pod("a"))
    broken = explain(replace(objects, config_data={"colocation-config": "{"}), NOW_S).decision
    assert broken.reason is Reason.CLUSTER_DISABLED
    assert "colocation-config" in broken.notes[0]
    stored = replace(objects, config_data={"colocation-config": "{"}, stored_data=objects.config_data)
    assert explain(stored, NOW_S).decision.published == decided(node(), report, pod("a")).published


# Writing

NOTE = LastOffer("2026-01-01T12:00:00Z", "moved", "me", NOW)


def verdict(on: Node, report: NodeMetric | None, since_s: float = 1.0) -> WriteVerdict:
    return judge(node_facts.derive(on), wants(on, report), strategy().strategy, since_s)


def wants(on: Node, report: NodeMetric | None) -> Wanted:
    return wanted(node_facts.derive(on), decided(on, report), NodeRatios())


def showing(on: Node, report: NodeMetric, **more: str) -> Node:
    """The node as it is after what was decided on the report is written."""
    found = changes(node_facts.derive(on), wants(on, report), NOTE)
    annotations = {**on.metadata.annotations, **found.annotations}
    amounts = {**on.status.capacity, **found.amounts, **more}
    document = {"metadata": {"name": "n", "annotations": annotations}}
    return msgspec.convert({**document, "status": {"capacity": amounts, "allocatable": amounts}}, Node)


def published(decision: NodeDecision) -> Offer:
    assert decision.published is not None
    return decision.published


CPU = "kubernetes.io/batch-cpu"
ALL = {CPU, "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"}


def test_a_node_that_shows_the_decision_is_not_written_however_old_the_write() -> None:
    assert verdict(showing(node(), metric()), metric(), 1e9) == WriteVerdict(False, WriteReason.UNCHANGED)


def test_a_node_that_never_took_part_is_never_touched() -> None:
    assert verdict(node(), None, 1e9).reason is WriteReason.UNCHANGED


def test_a_small_difference_waits_for_the_interval_and_says_when() -> None:
    wanted_cpu = published(decided(node(), metric())).cpu
    on = showing(node(), metric(), **{CPU: str(wanted_cpu + 100)})
    assert verdict(on, metric(), 100.0) == WriteVerdict(False, WriteReason.BELOW_THRESHOLD, 200.0)
    assert verdict(on, metric(), 301.0) == WriteVerdict(True, WriteReason.OVERDUE)


def test_a_large_difference_an_appearance_and_an_end_are_written_at_once() -> None:
    wanted_cpu = published(decided(node(), metric())).cpu
    moved = showing(node(), metric(), **{CPU: str(wanted_cpu * 2)})
    assert verdict(moved, metric()) == WriteVerdict(True, WriteReason.MOVED, resource=CPU)
    assert verdict(node(), metric()).reason is WriteReason.APPEARS
    assert verdict(moved, None).reason is WriteReason.DISAPPEARS
    assert verdict(showing(node(), metric(), **{CPU: "what"}), metric()).reason is WriteReason.MOVED


def test_only_one_of_capacity_and_allocatable_is_a_difference() -> None:
    whole = showing(node(), metric())
    status = msgspec.structs.replace(whole.status, allocatable=node().status.allocatable)
    assert verdict(msgspec.structs.replace(whole, status=status), metric()).reason is WriteReason.APPEARS


def patched(on: dict[str, Any], report: NodeMetric | None) -> dict[str, Any]:
    """A node after the API server has applied the manager's patch."""
    typed = msgspec.convert(on, Node)
    facts = node_facts.derive(typed)
    operations = json_patch(facts, typed.metadata.resource_version, changes(facts, wants(typed, report), NOTE))
    result: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(on), operations)
    return result


def raw(**metadata: Any) -> dict[str, Any]:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    status = {"capacity": dict(amounts), "allocatable": dict(amounts), "nodeInfo": {"architecture": "amd64"}}
    return {"metadata": {"name": "n", "resourceVersion": "7", **metadata}, "status": status}


@pytest.mark.parametrize(
    "metadata", [{}, {"annotations": {ORIGIN: '{"resources":{"kubernetes.io/mid-cpu":"5"}}', "theirs": "1"}}]
)
def test_the_patch_changes_owned_keys_only_and_keeps_what_others_recorded(metadata: dict[str, Any]) -> None:
    before = raw(**metadata)
    after = patched(before, metric())
    recorded = msgspec.json.decode(after["metadata"]["annotations"][ORIGIN])
    assert set(recorded["resources"]) >= {CPU, "kubernetes.io/batch-memory"}
    assert ("kubernetes.io/mid-cpu" in recorded["resources"]) == bool(metadata)
    for place in ("capacity", "allocatable"):
        assert after["status"][place].keys() - before["status"][place].keys() == ALL
        after["status"][place] = {name: text for name, text in after["status"][place].items() if name not in ALL}
    for name in (ORIGIN, "node.koordinator.sh/last-offer"):
        after["metadata"]["annotations"].pop(name)
        before["metadata"].setdefault("annotations", {}).pop(name, None)
    after["metadata"].pop("labels", None)
    assert after == before


def test_removing_takes_away_each_resource_and_leaves_zeros_in_the_annotation() -> None:
    shown = patched(raw(), metric())
    del shown["status"]["allocatable"][CPU]  # a kubelet that starts forgets it
    after = patched(shown, None)
    assert not ALL & (after["status"]["capacity"].keys() | after["status"]["allocatable"].keys())
    assert '"kubernetes.io/batch-cpu":"0"' in after["metadata"]["annotations"][ORIGIN]


def test_a_patch_that_comes_after_another_managers_changes_nothing() -> None:
    shown = patched(raw(), metric())
    typed = msgspec.convert(shown, Node)
    facts = node_facts.derive(typed)
    late = json_patch(facts, "7", changes(facts, wants(typed, None), NOTE))
    shown["metadata"]["annotations"]["node.koordinator.sh/last-offer"] = '{"by": "other"}'
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(shown, late)


def test_a_patch_does_not_mind_what_kubelets_write() -> None:
    shown = patched(raw(), metric())
    typed = msgspec.convert(shown, Node)
    facts = node_facts.derive(typed)
    operations = json_patch(facts, "7", changes(facts, wants(typed, None), NOTE))
    shown["metadata"]["resourceVersion"] = "8"
    shown["status"]["capacity"]["pods"] = "200"
    assert jsonpatch.apply_patch(shown, operations)["status"]["capacity"]["pods"] == "200"


@pytest.mark.parametrize(("text", "count"), [("0-3,8", 5), ("0", 1), ("1,1,0-1", 2), (" 2 , 3", 2)])
def test_cpu_lists_count_distinct_cpus(text: str, count: int) -> None:
    assert count_cpus(text) == count


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-99999999999"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid cpu list"):
        count_cpus(text)
