"""Reading slo-controller-config: what is refused and how it says so, what stays in force."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.errors import InvalidInput
from koord.slo_config import colocation, go_duration, loading, slo_fields
from koord.slo_config.resolve import resolve
from koord.slo_config.schema import combine
from koord.slo_config.strategy import DEFAULTS
from manager.slo.collect_policy import collect_policy
from manager.slo.render import merge_patch, render, spec_changes

REF = "ConfigMap/koordinator-system/slo-controller-config"


def load(before: loading.Configuration | None = None, **data: Any) -> loading.Configuration:
    texts = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value) for key, value in data.items()
    }
    return loading.load(before, texts, REF)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"enable": true, "cpuReclaimThresholdPercent": "sixty"', "JSON object"),
        ('{"cpuReclaimThresholdPercent": "sixty"}', "cpuReclaimThresholdPercent: invalid value 'sixty'"),
        ('{"cpuReclaimThresholdPercent": 60.0}', "a whole number"),
        ('{"enable": "yes"}', "enable: invalid value 'yes': allowed: true or false"),
        ('{"degradeTimeMinutes": 0}', "degradeTimeMinutes: invalid value 0: allowed: 1 or above"),
        ('{"resourceDiffThreshold": 0}', "resourceDiffThreshold"),
        ('{"midCPUThresholdPercent": 101}', "allowed: 0 to 100"),
        ('{"metricMemoryCollectPolicy": ""}', "metricMemoryCollectPolicy"),
        ('{"nodeConfigs": [{"degradeTimeMinutes": "x"}]}', r"nodeConfigs\[0\].degradeTimeMinutes"),
        ('{"nodeConfigs": {}}', "nodeConfigs: invalid value"),
        ('{"metricAggregatePolicy": {"durations": ["5 m"]}}', r"durations\[0\]"),
        ("[]", "an object"),
        ('{"cpuReclaimThresholdPercent": 99999999999999999999}', "whole number"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        colocation.parse(text, REF)
    assert REF in str(caught.value)


def test_field_names_count_in_any_case_and_null_means_not_stated() -> None:
    config = colocation.parse('{"ENABLE": true, "CpuReclaimThresholdPercent": 70, "degradeTimeMinutes": null}', REF)
    assert config.stated == {"enable": True, "cpuReclaimThresholdPercent": 70}


def test_an_unknown_field_is_a_warning() -> None:
    config = load(colocation_config={"cpuReclaimTresholdPercent": 70})
    assert config.warnings == ("colocation-config: cpuReclaimTresholdPercent: unknown field, ignored",)


def test_an_entry_out_of_range_leaves_its_nodes_to_the_cluster_strategy_with_a_warning() -> None:
    config = load(
        colocation_config={
            "enable": True,
            "nodeConfigs": [{"nodeSelector": {}, "degradeTimeMinutes": -1, "cpuReclaimThresholdPercent": 1}],
        }
    )
    assert config.colocation is not None
    assert resolve(config.colocation, {}, {}).strategy.cpu_reclaim_threshold_percent == 60
    assert "nodeConfigs[0].degradeTimeMinutes" in config.warnings[0]


def test_a_broken_key_keeps_its_last_good_value_and_the_others_advance() -> None:
    first = load(
        colocation_config={"enable": True, "degradeTimeMinutes": 7},
        resource_threshold_config={"clusterStrategy": {"enable": True}},
    )
    second = load(
        first,
        colocation_config='{"enable": tru',
        resource_threshold_config={"clusterStrategy": {"cpuSuppressThresholdPercent": 165}},
        cpu_burst_config={"clusterStrategy": {"policy": "auto"}},
    )
    assert second.colocation is first.colocation
    assert second.colocation_broken
    assert second.blocks["resource-threshold-config"].cluster["enable"] is True
    assert second.blocks["cpu-burst-config"].cluster["policy"] == "auto"
    assert {fault.key for fault in second.faults} == {"colocation-config", "resource-threshold-config"}
    assert "cpuSuppressThresholdPercent: invalid value 165: allowed: a whole number from 0 to 100" in str(
        second.faults
    )


def test_a_removed_key_means_its_default() -> None:
    second = load(load(colocation_config={"enable": True}))
    assert second.colocation is colocation.BUILT_IN


def test_colocation_is_unknown_while_a_broken_key_is_all_that_was_ever_seen() -> None:
    first = load(colocation_config="{")
    assert first.colocation is None
    assert load(first, colocation_config="{{").colocation is None
    assert load(first, colocation_config={"enable": True}).colocation is not None


def test_an_empty_key_and_null_state_nothing_for_colocation() -> None:
    for text in ("", "null"):
        config = load(load(colocation_config={"enable": True}), colocation_config=text)
        assert config.colocation is not None
        assert config.colocation.cluster == DEFAULTS
        assert not config.faults


def test_an_empty_text_is_a_fault_of_a_node_slo_key() -> None:
    assert [fault.key for fault in load(system_config="").faults] == ["system-config"]


@pytest.mark.parametrize("switch", ['{"enable": false}', '{"enable": true, "nodeConfigs": []}'])
def test_a_node_can_only_switch_off(switch: str) -> None:
    config = colocation.parse(switch, REF)
    on = {"node.koordinator.sh/colocation-strategy": '{"enable": true}'}
    off = {"node.koordinator.sh/colocation-strategy": '{"enable": false}'}
    assert resolve(config, {}, on).enabled is config.cluster["enable"]
    assert not resolve(config, {}, off).enabled


def test_small_intervals_reach_the_agent_as_they_are_and_only_while_colocation_is_on() -> None:
    stated = '"metricReportIntervalSeconds": 2, "metricAggregateDurationSeconds": 4'
    on = collect_policy(resolve(colocation.parse(f'{{"enable": true, {stated}}}', REF), {}, {}))
    off = collect_policy(resolve(colocation.parse(f"{{{stated}}}", REF), {}, {}))
    assert (on["reportIntervalSeconds"], on["aggregateDurationSeconds"]) == (2, 4)
    assert (off["reportIntervalSeconds"], off["aggregateDurationSeconds"]) == (60, 300)


def test_a_system_entry_without_bandwidth_resets_it_as_koordinator_does() -> None:
    config = load(
        system_config={
            "clusterStrategy": {"totalNetworkBandwidth": "10G"},
            "nodeStrategies": [{"nodeSelector": {}, "minFreeKbytesFactor": 5}],
        }
    )
    assert render(config, {}, {})["systemStrategy"] == {"totalNetworkBandwidth": "0", "minFreeKbytesFactor": 5}


def test_lists_combine_by_index_and_end_with_the_overlay() -> None:
    base = {"beClass": {"blkioQOS": {"blocks": [{"name": "a", "type": "device"}, {"name": "b"}]}}}
    overlay = {"beClass": {"blkioQOS": {"blocks": [{"name": "c"}]}}}
    combined = combine(slo_fields.QOS, base, overlay)
    assert combined["beClass"]["blkioQOS"]["blocks"] == [{"name": "c", "type": "device"}]
    assert base["beClass"]["blkioQOS"]["blocks"][0]["name"] == "a"


def test_extensions_of_others_and_equal_specs_need_no_change() -> None:
    wanted = render(load(), {}, {})
    stored = {**wanted, "extensions": {"Object": {"theirs": 1}}}
    assert spec_changes(stored, wanted) == {}
    assert spec_changes({}, wanted) == wanted
    assert spec_changes({**wanted, "hostApplications": []}, wanted) == {"hostApplications": None}


objects = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abcd"), objects, max_size=4)


@given(documents, documents)
def test_a_merge_patch_leads_from_source_to_target(source: dict[str, Any], target: dict[str, Any]) -> None:
    assert applied(source, merge_patch(source, target)) == target
    assert merge_patch(target, target) == {}


def applied(document: Any, patch: Any) -> Any:
    """RFC 7386, written down once more for the test."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("5m", "5m0s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("0", "0s"),
        ("300ms", "300ms"),
        ("1h", "1h0m0s"),
        ("1500us", "1.5ms"),
    ],
)
def test_durations_are_written_as_go_writes_them(written: str, canonical: str) -> None:
    assert go_duration.render(go_duration.parse_ns(written)) == canonical


@given(st.integers(-(2**62), 2**62))
def test_any_duration_survives_writing_and_reading(duration_ns: int) -> None:
    assert go_duration.parse_ns(go_duration.render(duration_ns)) == duration_ns


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5x", "--5m", "1e3s", "."])
def test_what_go_refuses_as_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        go_duration.parse_ns(text)
