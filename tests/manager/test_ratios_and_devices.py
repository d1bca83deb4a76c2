"""What a node's annotations and labels say beside its offers: ratios, accelerators; and when that is written."""

import json
from typing import Any

import msgspec
import pytest

from koord.api import names
from koord.api.devices import Device
from koord.api.objects import Node
from koord.slo_config import node_ratios as config
from koord.slo_config.node_ratios import NO_AMPLIFICATION, NO_NORMALIZATION
from manager.overcommit import ratios
from manager.overcommit.annotations import NEVER_WRITTEN
from manager.overcommit.devices import NO_DEVICES, DeviceOffer, device_offer
from manager.overcommit.node_facts import derive
from manager.overcommit.node_patch import NodeChanges, changes
from manager.overcommit.wanted import LEAVE, Annotation, NodeRatios, Wanted, node_ratios, wanted
from manager.overcommit.write_rule import WriteReason, judge
from tests.manager.cases import decided, metric, node, strategy

RATIO, AMPLIFIED = names.ANNOTATION_CPU_NORMALIZATION_RATIO, names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO
INFO = json.dumps({"cpuModel": "a", "hyperThreadEnabled": True, "turboEnabled": False})
NORMALIZE = config.parse_normalization(
    '{"enable": true, "ratioModel": {"a": {"hyperThreadEnabledRatio": 1.5}}}', "ConfigMap/x"
)
AMPLIFY = config.parse_amplification(
    '{"enable": true, "resourceAmplificationRatio": {"memory": 1.25, "cpu": 2}}', "ConfigMap/x"
)


def found(on: Node, info: str | None = INFO, *, enabled: bool = True) -> NodeRatios:
    return node_ratios(derive(on), NORMALIZE, AMPLIFY, info, enabled=enabled)


def test_both_ratios_change_in_the_same_pass_and_batch_cpu_with_them() -> None:
    ratio = found(node())
    assert ratio.normalization == Annotation("1.50")
    assert ratio.amplification.text == '{"cpu":3.00,"memory":1.25}'
    assert ratio.factor == 1.5
    decision = decided(node(), metric(), normalization=ratio.factor)
    assert decision.published is not None
    assert decision.published.cpu == 18200 * 1.5


def test_what_cannot_be_calculated_stays_as_it_is_and_is_named() -> None:
    on = node(annotations={RATIO: "1.20", AMPLIFIED: '{"cpu":1.20}'})
    ratio = found(on, info=None)
    assert ratio.normalization is LEAVE
    assert ratio.factor == 1.2
    assert "which CPU" in ratio.problems[0]
    assert "keeps 1.20" in ratio.problems[0]
    broken = node_ratios(derive(node(annotations={RATIO: "abc"})), None, AMPLIFY, INFO, enabled=True)
    assert broken.amplification is LEAVE
    assert "abc" in broken.problems[0]
    assert found(on, info="{").factor == 1.2


def test_with_colocation_off_normalization_stays_and_amplification_goes() -> None:
    ratio = found(node(annotations={RATIO: "1.20"}), enabled=False)
    assert (ratio.normalization, ratio.amplification) == (LEAVE, Annotation(None))


def test_a_configuration_that_is_not_known_touches_nothing() -> None:
    ratio = node_ratios(derive(node(annotations={RATIO: "1.20"})), None, None, INFO, enabled=True)
    assert (ratio.normalization, ratio.amplification, ratio.factor) == (LEAVE, LEAVE, 1.2)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "abc", ""])
def test_a_ratio_that_is_no_finite_number_is_never_a_factor(text: str) -> None:
    assert ratios.ratio_above_one(text) is None
    assert ratios.differs(text, "1.20")
    assert ratios.amplification({"enable": True}, text).problem


@pytest.mark.parametrize(
    ("current", "wanted_text", "differs"),
    [
        (None, "1.00", False),
        (None, "1.02", True),
        ("1.20", "1.21", False),
        ("1.20", "1.22", True),
        ("1.20", None, False),
    ],
)
def test_a_ratio_is_written_when_it_moves_by_more_than_a_hundredth(
    current: str | None, wanted_text: str | None, differs: bool
) -> None:
    assert ratios.differs(current, wanted_text) is differs


def want(on: Node, ratio: NodeRatios, devices: DeviceOffer = NO_DEVICES) -> Wanted:
    return wanted(derive(on), decided(on, metric()), ratio, devices)


def settled(on: Node) -> Node:
    """The node as it is once everything but the ratios and devices is written."""
    found = changes(derive(on), want(on, NodeRatios()), NEVER_WRITTEN)
    annotations = {**on.metadata.annotations, **found.annotations}
    amounts = {**on.status.capacity, **found.amounts}
    document: dict[str, Any] = {"metadata": {"name": "n", "annotations": annotations, "labels": on.metadata.labels}}
    return msgspec.convert({**document, "status": {"capacity": amounts, "allocatable": amounts}}, Node)


def test_a_ratio_that_differs_is_written_at_once() -> None:
    on = settled(node())
    rule = strategy().strategy
    assert judge(derive(on), want(on, NodeRatios()), rule, 0).reason is WriteReason.UNCHANGED
    assert judge(derive(on), want(on, NodeRatios(Annotation("1.20"))), rule, 0).reason is WriteReason.METADATA
    amplified = NodeRatios(LEAVE, Annotation('{"cpu":1.20}'))
    assert judge(derive(on), want(on, amplified), rule, 0).reason is WriteReason.METADATA
    assert changes(derive(on), want(on, amplified), NEVER_WRITTEN).annotations[AMPLIFIED] == '{"cpu":1.20}'


def test_a_node_without_any_ratio_is_not_told_1_00() -> None:
    on = settled(node())
    ratio = node_ratios(derive(on), NO_NORMALIZATION, NO_AMPLIFICATION, None, enabled=True)
    assert judge(derive(on), want(on, ratio), strategy().strategy, 0).reason is WriteReason.UNCHANGED
    assert RATIO not in changes(derive(on), want(on, ratio), NEVER_WRITTEN).annotations
    once = node(annotations={RATIO: "1.30"})
    reset = node_ratios(derive(once), NO_NORMALIZATION, NO_AMPLIFICATION, None, enabled=True)
    assert changes(derive(once), want(once, reset), NEVER_WRITTEN).annotations[RATIO] == "1.00"


def test_the_kubelets_reservation_is_taken_from_the_raw_amounts_of_an_amplified_node() -> None:
    raw = {names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "30", "memory": "60Gi"}'}
    assert derive(node(annotations=raw)).kubelet_reserved.cpu == 2 * 10**9
    broken = derive(node(annotations={names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "lots", "memory": "1"}'}))
    assert broken.kubelet_reserved.cpu == 0
    assert any("raw-allocatable" in problem for problem in broken.problems)


# Devices


def device(*devices: dict[str, Any], **labels: str) -> Device:
    return msgspec.convert({"metadata": {"name": "n", "labels": labels}, "spec": {"devices": devices}}, Device)


GPU = {
    "type": "gpu",
    "health": True,
    "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "8Gi"},
}


def test_healthy_accelerators_are_offered_and_labelled() -> None:
    offer = device_offer(device(GPU, GPU, {**GPU, "health": False}, **{names.LABEL_GPU_MODEL: "M"}))
    on = settled(node())
    found = changes(derive(on), want(on, NodeRatios(), offer), NEVER_WRITTEN)
    shown = found.amounts
    assert (shown[names.GPU], shown[names.GPU_CORE], shown[names.GPU_MEMORY]) == ("200", "200", "16Gi")
    assert names.RDMA not in shown
    assert found.labels == {names.LABEL_GPU_MODEL: "M"}
    assert judge(derive(on), want(on, NodeRatios(), offer), strategy().strategy, 0).reason is WriteReason.APPEARS


def test_a_vendors_own_cards_do_not_become_nvidias() -> None:
    card = {"type": "gpu", "health": True, "resources": {names.HUAWEI_NPU_CORE: 20, "other/x": 1}}
    offer = device_offer(device(card, **{names.LABEL_GPU_VENDOR: "huawei"}))
    assert {name for name, amount in offer.resources.items() if amount} == {names.HUAWEI_NPU_CORE}


def test_a_device_that_cannot_be_read_is_left_out_and_named() -> None:
    broken = {**GPU, "id": "GPU-1", "resources": {"koordinator.sh/gpu-core": "lots"}}
    offer = device_offer(device(GPU, broken))
    assert offer.resources[names.GPU_CORE] == 100
    assert "GPU-1" in offer.problems[0]


def test_devices_that_go_are_taken_away_and_a_node_without_any_is_left_alone() -> None:
    on = node(**{names.GPU: "100", names.RDMA: "100"})
    assert want(on, NodeRatios()).resources[names.GPU] is None
    amounts = changes(derive(on), want(on, NodeRatios()), NEVER_WRITTEN).amounts
    assert amounts[names.GPU] is None
    assert names.GPU_CORE not in amounts
    assert names.GPU not in want(node(), NodeRatios()).resources


def test_a_server_that_dropped_the_metadata_is_noticed() -> None:
    found = NodeChanges({}, {"a": "1", "b": None}, {"c": "2"})
    assert found.shown_by({"a": "1"}, {"c": "2"})
    assert not found.shown_by({}, {"c": "2"})
    assert not found.shown_by({"a": "1", "b": "0"}, {"c": "2"})
    assert not found.shown_by({"a": "1"}, {})
