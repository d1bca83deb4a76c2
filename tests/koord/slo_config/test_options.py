"""Koord's own options below `extensions.koord`: read strictly, layered by field, and out of others' way."""

import json
from typing import Any

import pytest

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config import colocation
from koord.slo_config.options import Options, Peak, StaleReports
from koord.slo_config.resolve import resolve

REF = "ConfigMap/x"


def config(koord: Any, **more: Any) -> colocation.ColocationConfig:
    return colocation.parse(json.dumps({"extensions": {"koord": koord}, **more}), REF)


def test_nothing_is_on_unless_it_is_stated() -> None:
    assert resolve(colocation.parse("{}", REF), {}, {}).options == Options()
    assert not Options().peak.is_on
    assert not Options().damping.is_on
    assert Options().stale_reports == StaleReports("graded", None)


def test_a_node_entry_overrides_single_options() -> None:
    entry = {"nodeSelector": {}, "extensions": {"koord": {"peak": {"sigmas": 5}}}}
    layered = config({"jointLedger": True, "peak": {"percentile": "p95"}}, nodeConfigs=[entry])
    options = resolve(layered, {}, {}).options
    assert options.joint_ledger
    assert options.peak == Peak("p95", 5.0)
    annotated = {names.ANNOTATION_COLOCATION_STRATEGY: '{"extensions": {"koord": {"jointLedger": false}}}'}
    assert not resolve(layered, {}, annotated).options.joint_ledger


def test_what_others_keep_in_the_extensions_is_left_as_it_is() -> None:
    parsed = colocation.parse('{"extensions": {"theirs": {"percentile": 7}, "koord": {}}}', REF)
    assert parsed.cluster["extensions"] == {"theirs": {"percentile": 7}, "koord": {}}


@pytest.mark.parametrize(
    ("koord", "says"),
    [
        (
            {"peak": {"percentile": "p42"}},
            "extensions.koord.peak.percentile: invalid value 'p42': allowed: one of p50",
        ),
        ({"peak": {"sigmas": 11}}, "extensions.koord.peak.sigmas: invalid value 11: allowed: a number from 0 to 10"),
        ({"peak": {"windowMinutes": 0}}, "extensions.koord.peak.windowMinutes"),
        ({"damping": {"growthPercentPerMinute": -1}}, "extensions.koord.damping.growthPercentPerMinute"),
        ({"staleReports": {"mode": "never"}}, "extensions.koord.staleReports.mode"),
        ({"jointLedger": "yes"}, "extensions.koord.jointLedger"),
        ([], "extensions.koord: invalid value []: allowed: an object"),
    ],
)
def test_a_wrong_option_is_refused_with_its_place(koord: Any, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        config(koord)
    assert says in str(caught.value)


def test_a_misspelt_option_is_a_warning() -> None:
    assert config({"jointLeger": True}).warnings == ("extensions.koord.jointLeger: unknown field, ignored",)
