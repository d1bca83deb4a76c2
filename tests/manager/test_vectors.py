"""The manager's pure decisions against the recorded cases."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api import quantity
from koord.api.devices import Device
from koord.api.errors import InvalidInput
from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import parse_rfc3339
from koord.api.topology import NodeResourceTopology
from koord.slo_config import colocation, loading
from koord.slo_config.options import StaleReports
from koord.slo_config.resolve import resolve
from koord.slo_config.slo_fields import BURST_DEFAULTS, SYSTEM_DEFAULTS, THRESHOLD_DEFAULTS
from koord.slo_config.strategy import DEFAULTS
from manager.overcommit import node_facts, pod_share, ratios
from manager.overcommit.amounts import Offer
from manager.overcommit.decide import decide
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.devices import GPU_NAMES, device_offer
from manager.overcommit.report import read_report
from manager.overcommit.write_rule import differs
from manager.overcommit.zone_patch import read_zones
from manager.overcommit.zones import zone_amounts
from manager.slo.render import render

CONFIG_MAP = "ConfigMap/koordinator-system/slo-controller-config"


def colocation_text(case: dict[str, Any]) -> str:
    document = {"enable": True, **case["strategy"]}
    if "nodeConfigs" in case:
        document["nodeConfigs"] = case["nodeConfigs"]
    return json.dumps(document)


def as_numbers(offer: Offer | None, tier: str = "batch") -> dict[str, int | None]:
    return {f"{tier}-cpu": offer and offer.cpu, f"{tier}-memory": offer and offer.memory}


def decided(case: dict[str, Any]) -> NodeDecision:
    """The decision on a case's node. The cases are those of the cliff: full amounts until the report's last second,
    then none; how the graded end differs is a test of its own."""
    node = msgspec.convert(case["node"], Node)
    metric = case.get("nodeMetric")
    report = read_report(msgspec.convert(metric, NodeMetric)) if metric else None
    pods = [pod_share.derive(msgspec.convert(pod, Pod)) for pod in case.get("pods") or ()]
    config = colocation.parse(colocation_text(case), CONFIG_MAP)
    resolved = resolve(config, node.metadata.labels, node.metadata.annotations)
    options = msgspec.structs.replace(resolved.options, stale_reports=StaleReports("cliff"))
    ratio = case.get("cpuNormalizationRatio")
    now_s = parse_rfc3339(case["now"])
    return decide(
        node_facts.derive(node),
        report,
        pods,
        replace(resolved, options=options),
        now_s,
        float(ratio) if ratio else None,
    )


@pytest.mark.vectors("batch_resource")
def test_the_batch_resources_of_a_node(vector: dict[str, Any]) -> None:
    decision = decided(vector)
    expect = vector.get("preferred") or vector["expect"]
    found: dict[str, Any] = {
        "disabled": decision.reason in (Reason.CLUSTER_DISABLED, Reason.NODE_DISABLED),
        "degraded": decision.reason.is_degraded,
        **as_numbers(decision.calculated),
        "published": as_numbers(decision.published),
        "originExtendedAllocatable": as_numbers(decision.origin),
    }
    if "zones" in expect:
        found["zones"] = zones_of(vector, decision)
    assert found == expect


def zones_of(case: dict[str, Any], decision: NodeDecision) -> dict[str, dict[str, int | None]]:
    topology = msgspec.convert(case["nodeResourceTopology"], NodeResourceTopology)
    zones = read_zones(topology, [])
    facts = node_facts.derive(msgspec.convert(case["node"], Node))
    report = read_report(msgspec.convert(case["nodeMetric"], NodeMetric))
    pods = [pod_share.derive(msgspec.convert(pod, Pod)) for pod in case.get("pods") or ()]
    amounts = zone_amounts(zones, facts, report, pods, decision.resolved.strategy)
    return {zone.name: as_numbers(offer) for zone, offer in zip(zones, amounts, strict=True)}


@pytest.mark.vectors("mid_resource")
def test_the_mid_resources_of_a_node(vector: dict[str, Any]) -> None:
    decision = decided(vector)
    expect = vector.get("preferred") or vector["expect"]
    assert expect == {
        "disabled": decision.reason in (Reason.CLUSTER_DISABLED, Reason.NODE_DISABLED),
        "degraded": decision.reason.is_degraded,
        **as_numbers(decision.mid_published, "mid"),
    }


@pytest.mark.vectors("cpu_normalization", section="normalization")
def test_the_cpu_normalization_of_a_node(vector: dict[str, Any]) -> None:
    info = vector["cpuBasicInfo"]
    text = None if info is None else json.dumps(info)
    found = ratios.normalization(vector["strategy"], vector["enabledLabel"], text)
    expect = vector.get("preferred") or vector["expect"]
    assert bool(found.problem) is expect.get("error", False)
    assert found.text == expect.get("annotation")


@pytest.mark.vectors("cpu_normalization", section="amplification")
def test_the_resource_amplification_of_a_node(vector: dict[str, Any]) -> None:
    found = ratios.amplification(vector["strategy"], vector["currentNormalizationAnnotation"])
    expect = vector.get("preferred") or vector["expect"]
    assert bool(found.problem) is expect.get("error", False)
    if "annotation" in expect:
        assert (found.text and json.loads(found.text)) == expect["annotation"]


@pytest.mark.vectors("cpu_normalization", section="devices")
def test_the_devices_of_a_node(vector: dict[str, Any]) -> None:
    device = None
    if vector["devices"] is not None:
        metadata = {"name": "node-a", "labels": vector.get("labels", {})}
        device = msgspec.convert({"metadata": metadata, "spec": {"devices": vector["devices"]}}, Device)
    found = device_offer(device)
    expect = vector.get("preferred") or vector["expect"]
    if expect.get("reset"):
        assert all(found.resources[name] is None for name in GPU_NAMES)
        return
    shown = {
        name: quantity.format_value(amount, found.families.get(name, "decimal"))
        for name, amount in found.resources.items()
        if amount is not None
    }
    assert shown == expect["resources"]
    if expect.get("labelsCopied"):
        assert found.labels == vector["labels"]


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
