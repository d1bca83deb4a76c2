"""Everything that a node should show of what the manager owns: resources, annotations, labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from koord.api import names
from koord.api.quantity import Family
from koord.slo_config.node_ratios import NO_AMPLIFICATION, NO_NORMALIZATION, RatioConfig
from manager.overcommit import ratios
from manager.overcommit.amounts import Offer
from manager.overcommit.decision import NodeDecision
from manager.overcommit.devices import NO_DEVICES, DeviceOffer
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.ratios import ratio_above_one

GPU_LABELS: Final = (names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL, names.LABEL_GPU_DRIVER_VERSION)


class Annotation(NamedTuple):
    """What one annotation should say: text None removes it. leave: it is nobody's business now."""

    text: str | None = None
    leave: bool = False


LEAVE: Final = Annotation(None, True)


@dataclass(frozen=True, slots=True)
class NodeRatios:
    """The two ratio annotations, and the factor for batch-cpu (None for none)."""

    normalization: Annotation = LEAVE
    amplification: Annotation = LEAVE
    factor: float | None = None
    problems: tuple[str, ...] = ()


_NO_RATIOS: Final = NodeRatios(Annotation(ratios.DISABLED), Annotation(None))
"""Of most nodes: nobody configured any."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """resources: the amount of each owned name in its unit (milli-cores, bytes, count), None to remove it; a name
    that is absent is left as it is. families: how an amount is written, decimal where not stated. origin: for the
    origin annotation. labels: to set."""

    resources: Mapping[str, int | None]
    families: Mapping[str, Family]
    origin: Offer
    normalization: Annotation = LEAVE
    amplification: Annotation = LEAVE
    labels: Mapping[str, str] = field(default_factory=dict)


def node_ratios(
    facts: NodeFacts,
    normalization: RatioConfig | None,
    amplification: RatioConfig | None,
    cpu_info: str | None,
    *,
    enabled: bool,
) -> NodeRatios:
    """The ratios of a node. A configuration of None is not known, cpu_info is the topology object's annotation.

    What cannot be calculated stays as it is: taking a ratio away shrinks a node under its running pods. With
    colocation off for the node, normalization stays and amplification goes, as in Koordinator.
    """
    label = facts.labels.get(names.LABEL_CPU_NORMALIZATION_ENABLED)
    if (
        enabled
        and normalization is NO_NORMALIZATION
        and amplification is NO_AMPLIFICATION
        and label is None
        and facts.normalization is None
    ):
        return _NO_RATIOS
    if not enabled:
        return NodeRatios(LEAVE, Annotation(None), ratio_above_one(facts.normalization))
    problems: list[str] = []
    shown: Annotation = LEAVE
    text = facts.normalization
    if normalization is not None:
        found = ratios.normalization(normalization.value_for(facts.labels), label, cpu_info)
        if found.problem:
            problems.append(f"{found.problem}; the node keeps {text or 'no ratio'}")
        else:
            text, shown = found.text, Annotation(found.text)
    amplified: Annotation = LEAVE
    if amplification is not None:
        found = ratios.amplification(amplification.value_for(facts.labels), text)
        if found.problem:
            problems.append(f"{found.problem}; the node keeps {facts.amplification or 'none'}")
        else:
            amplified = Annotation(found.text)
    return NodeRatios(shown, amplified, ratio_above_one(text), tuple(problems))


def wanted(facts: NodeFacts, decision: NodeDecision, found: NodeRatios, devices: DeviceOffer = NO_DEVICES) -> Wanted:
    """All of it for one decision."""
    resources = decision.resources()
    families: dict[str, Family] = {names.BATCH_MEMORY: facts.memory_family, names.MID_MEMORY: facts.memory_family}
    if devices is not NO_DEVICES or not facts.published.keys() <= resources.keys():
        resources |= devices.resources
        families |= devices.families
    return Wanted(
        resources=resources,
        families=families,
        origin=decision.origin,
        normalization=found.normalization,
        amplification=found.amplification,
        labels=devices.labels,
    )
