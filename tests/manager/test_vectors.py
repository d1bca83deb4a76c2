"""The manager's pure decisions against the recorded cases."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api.errors import InvalidInput
from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import parse_rfc3339
from koord.slo_config import colocation, loading
from koord.slo_config.resolve import resolve
from koord.slo_config.slo_fields import BURST_DEFAULTS, SYSTEM_DEFAULTS, THRESHOLD_DEFAULTS
from koord.slo_config.strategy import DEFAULTS
from manager.overcommit import node_facts, pod_share
from manager.overcommit.amounts import read_amounts
from manager.overcommit.decide import decide
from manager.overcommit.decision import Batch, Reason
from manager.overcommit.report import read_report
from manager.overcommit.write_rule import differs
from manager.overcommit.zones import Zone, zone_amounts
from manager.slo.render import render

CONFIG_MAP = "ConfigMap/koordinator-system/slo-controller-config"


def colocation_text(case: dict[str, Any]) -> str:
    document = {"enable": True, **case["strategy"]}
    if "nodeConfigs" in case:
        document["nodeConfigs"] = case["nodeConfigs"]
    return json.dumps(document)


def as_numbers(batch: Batch | None) -> dict[str, int | None]:
    return {"batch-cpu": batch and batch.cpu, "batch-memory": batch and batch.memory}


@pytest.mark.vectors("batch_resource")
def test_the_batch_resources_of_a_node(vector: dict[str, Any]) -> None:
    node = msgspec.convert(vector["node"], Node)
    metric = vector.get("nodeMetric")
    report = read_report(msgspec.convert(metric, NodeMetric)) if metric else None
    pods = [pod_share.derive(msgspec.convert(pod, Pod)) for pod in vector.get("pods") or ()]
    config = colocation.parse(colocation_text(vector), CONFIG_MAP)
    resolved = resolve(config, node.metadata.labels, node.metadata.annotations)
    ratio = vector.get("cpuNormalizationRatio")
    facts = node_facts.derive(node)

    decision = decide(facts, report, pods, resolved, parse_rfc3339(vector["now"]), float(ratio) if ratio else None)

    expect = vector.get("preferred") or vector["expect"]
    found: dict[str, Any] = {
        "disabled": decision.reason in (Reason.CLUSTER_DISABLED, Reason.NODE_DISABLED),
        "degraded": decision.reason.is_degraded,
        **as_numbers(decision.calculated),
        "published": as_numbers(decision.published),
        "originExtendedAllocatable": as_numbers(decision.origin),
    }
    if "zones" in expect:
        assert report is not None
        zones = [
            Zone(zone["name"], read_amounts({entry["name"]: entry["allocatable"] for entry in zone["resources"]}))
            for zone in vector["nodeResourceTopology"]["zones"]
        ]
        amounts = zone_amounts(zones, facts, report, pods, resolved.strategy)
        found["zones"] = {name: as_numbers(batch) for name, batch in amounts.items()}
    assert found == expect


@pytest.mark.vectors("colocation_strategy")
def test_the_strategy_in_force_for_a_node(vector: dict[str, Any]) -> None:
    text = colocation_text(vector)
    expect = vector.get("preferred") or vector["expect"]
    if not expect["clusterStrategyValid"]:
        with pytest.raises(InvalidInput):
            colocation.parse(text, CONFIG_MAP)
    config = colocation.read(text, CONFIG_MAP)
    metadata = vector["node"]["metadata"]
    resolved = resolve(config, metadata.get("labels", {}), metadata.get("annotations", {}))
    assert resolved.effective == expect["effective"]


@pytest.mark.vectors("resource_diff")
def test_a_difference_is_worth_a_write(vector: dict[str, Any]) -> None:
    expect = vector.get("preferred") or vector["expect"]
    assert differs(vector["old"], vector["new"], "r", vector["threshold"]) is expect["diff"]


@pytest.mark.vectors("node_slo")
def test_the_node_slo_of_a_node(vector: dict[str, Any]) -> None:
    previous = None
    if "previousConfigMapData" in vector:
        previous = loading.load(None, vector["previousConfigMapData"], CONFIG_MAP)
    loaded = loading.load(previous, vector["configMapData"], CONFIG_MAP)
    metadata = vector["node"]["metadata"]

    spec = render(loaded, metadata.get("labels", {}), metadata.get("annotations", {}))

    expect = vector.get("preferred") or vector["expect"]
    assert spec == expect["spec"]
    assert [fault.key for fault in loaded.faults] == expect["parseFailureEvents"]


def test_the_built_in_defaults_are_the_recorded_ones() -> None:
    recorded = json.loads((Path(__file__).parent / "vectors" / "node_slo_defaults.json").read_text())
    agent = recorded["agentDefaults"]
    assert recorded["colocationDefaults"] == DEFAULTS
    assert agent["resourceUsedThresholdWithBE"] == THRESHOLD_DEFAULTS
    assert agent["cpuBurstStrategy"] == BURST_DEFAULTS
    assert agent["systemStrategy"] == SYSTEM_DEFAULTS
