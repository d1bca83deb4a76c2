"""What stays in force when a key of slo-controller-config breaks: in this process, and after a restart."""

import json
from typing import Any

import pytest

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config import loading, node_ratios
from koord.slo_config.loading import Configuration, load

REF = "ConfigMap/koordinator-system/slo-controller-config"
GOOD = {names.KEY_COLOCATION: '{"enable": true, "degradeTimeMinutes": 7}', names.KEY_CPU_NORMALIZATION: "{}"}
BROKEN = dict.fromkeys(loading.KEYS, "{")


def degrade_minutes(configuration: Configuration) -> int:
    assert configuration.colocation is not None
    minutes: int = configuration.colocation.cluster["degradeTimeMinutes"]
    return minutes


def test_what_is_in_force_is_known_as_text() -> None:
    assert load(None, GOOD, REF).texts == GOOD


def test_a_restart_beside_a_typo_goes_on_with_what_was_stored() -> None:
    restarted = load(None, BROKEN, REF, stored=load(None, GOOD, REF).texts)
    assert degrade_minutes(restarted) == 7
    assert restarted.texts == GOOD
    assert "stored before a restart" in str(restarted.faults[0].kept)
    assert restarted.normalization is not None
    assert restarted.amplification is None


def test_what_this_process_saw_wins_over_what_was_stored() -> None:
    seen = load(None, {names.KEY_COLOCATION: '{"enable": true, "degradeTimeMinutes": 3}'}, REF)
    assert degrade_minutes(load(seen, BROKEN, REF, stored=GOOD)) == 3


def test_a_stored_text_that_is_no_good_either_is_named_and_not_used() -> None:
    loaded = load(None, BROKEN, REF, stored={names.KEY_COLOCATION: '{"degradeTimeMinutes": 0}'})
    assert loaded.colocation is None
    assert any("degradeTimeMinutes" in fault.message for fault in loaded.faults)


def test_what_was_stored_can_come_after_what_is_broken() -> None:
    first = load(None, BROKEN, REF)
    assert first.colocation is None
    assert degrade_minutes(load(first, BROKEN, REF, stored=GOOD)) == 7


def test_a_key_that_was_removed_on_purpose_stays_removed_when_it_comes_back_broken() -> None:
    removed = load(load(None, GOOD, REF), {}, REF)
    again = load(removed, {names.KEY_COLOCATION: "{"}, REF, stored=GOOD)
    assert again.colocation is not None
    assert again.colocation.cluster["enable"] is False


def test_every_broken_key_has_its_own_fault_and_event_reason() -> None:
    reasons = {fault.key: fault.event_reason for fault in load(None, BROKEN, REF).faults}
    assert set(reasons) == set(loading.KEYS)
    assert reasons[names.KEY_CPU_NORMALIZATION] == "CPUNormalizationCfgUnmarshalFailed"
    assert reasons[names.KEY_RESOURCE_AMPLIFICATION] == "ResourceAmplificationCfgUnmarshalFailed"
    assert reasons[names.KEY_SYSTEM] == "SLOCfgUnmarshalFailed"


@pytest.mark.parametrize(
    ("key", "document", "says"),
    [
        (names.KEY_COLOCATION, {"resourceDiffThreshold": 1.5}, "resourceDiffThreshold: invalid value 1.5"),
        (
            names.KEY_THRESHOLD,
            {"clusterStrategy": {"memoryEvictThresholdPercent": 60, "memoryEvictLowerPercent": 70}},
            "clusterStrategy.memoryEvictThresholdPercent: invalid value 60: allowed: must be larger than",
        ),
        (
            names.KEY_CPU_BURST,
            {"nodeStrategies": [{"nodeSelector": {}, "cfsQuotaBurstPercent": 5}]},
            "nodeStrategies[0].cfsQuotaBurstPercent: invalid value 5: allowed: 100 or above",
        ),
        (names.KEY_CPU_NORMALIZATION, {"defaultRatio": 7}, "(cluster).defaultRatio: invalid value 7.0"),
        (
            names.KEY_RESOURCE_AMPLIFICATION,
            {"nodeConfigs": [{"nodeSelector": {}, "resourceAmplificationRatio": {"cpu": 0.5}}]},
            "nodeConfigs[0].resourceAmplificationRatio.cpu: invalid value 0.5",
        ),
    ],
)
def test_a_key_is_judged_on_load_as_admission_judges_it(key: str, document: dict[str, Any], says: str) -> None:
    (fault,) = load(None, {key: json.dumps(document)}, REF).faults
    assert fault.key == key
    assert says in fault.message


def test_strategies_that_can_meet_on_one_node_are_reported() -> None:
    entries = [{"nodeSelector": {"matchLabels": {"pool": "x"}}}, {"name": "all", "nodeSelector": {}}]
    loaded = load(None, {names.KEY_COLOCATION: json.dumps({"nodeConfigs": entries})}, REF)
    (warning,) = loaded.warnings
    assert "nodeConfigs[0] and nodeConfigs[1] (all) can match the same node; the first one wins" in warning


def test_ratios_of_an_entry_lie_over_those_of_the_cluster() -> None:
    document = {
        "enable": True,
        "ratioModel": {"a": {"baseRatio": 1.5}},
        "nodeConfigs": [{"nodeSelector": {"matchLabels": {"pool": "x"}}, "defaultRatio": 2, "unknown": 1}],
    }
    config = node_ratios.parse_normalization(json.dumps(document), REF)
    assert config.value_for({}) == {"enable": True, "ratioModel": {"a": {"baseRatio": 1.5}}}
    assert config.value_for({"pool": "x"})["defaultRatio"] == 2.0
    assert config.value_for({"pool": "x"})["ratioModel"] == {"a": {"baseRatio": 1.5}}
    assert config.warnings == ("nodeConfigs[0].unknown: unknown field, ignored",)


def test_an_empty_text_is_a_fault_of_the_ratio_keys_too() -> None:
    with pytest.raises(InvalidInput):
        node_ratios.parse_amplification("", REF)
