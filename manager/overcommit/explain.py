"""The decision about a node from the API objects alone, for a person who asks why (and for replays)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from koord.api import names
from koord.api.devices import Device
from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.topology import NodeResourceTopology
from koord.slo_config import colocation
from koord.slo_config.loading import Configuration, load
from koord.slo_config.resolve import Resolved, resolve
from manager.overcommit import node_facts, pod_share
from manager.overcommit.annotations import LastOffer
from manager.overcommit.decide import decide
from manager.overcommit.decision import NodeDecision
from manager.overcommit.devices import NO_DEVICES, device_offer
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import UsageReport, read_report
from manager.overcommit.wanted import NodeRatios, Wanted, node_ratios, wanted
from manager.overcommit.write_rule import WriteVerdict, judge

_OBJECT_REF = "ConfigMap"


@dataclass(frozen=True, slots=True)
class Objects:
    """What the API server knows that bears on one node. pods: those bound to it. config_data: data of
    slo-controller-config, None when there is none; stored_data: of the ConfigMap with the last good texts."""

    node: Node
    metric: NodeMetric | None
    pods: Collection[Pod]
    config_data: Mapping[str, str] | None
    stored_data: Mapping[str, str] | None = None
    topology: NodeResourceTopology | None = None
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with what it was made of, and what the write rule says to it."""

    decision: NodeDecision
    configuration: Configuration
    facts: NodeFacts
    report: UsageReport | None
    pods: tuple[PodShare, ...]
    ratios: NodeRatios
    wanted: Wanted
    verdict: WriteVerdict
    last_offer: LastOffer
    since_last_write_s: float | None

    @property
    def resolved(self) -> Resolved:
        """The strategy in force."""
        return self.decision.resolved


def explain(objects: Objects, now_s: float) -> Explanation:
    """What the manager decides for the node at `now_s`, and whether it would write it.

    With a broken colocation-config of which no last good text is stored, the built-in defaults explain, and the notes
    begin with the fault. Memory of the running manager (damping, history of reports) is not known here.
    Raises InvalidQuantity when the node's own cpu or memory cannot be read.
    """
    configuration = _configuration(objects)
    config = configuration.colocation or colocation.BUILT_IN
    node = objects.node
    shares = tuple(pod_share.derive(pod) for pod in objects.pods)
    resolved = resolve(config, node.metadata.labels, node.metadata.annotations)
    report = None if objects.metric is None else read_report(objects.metric, now_s)
    facts = node_facts.derive(node)
    info = None
    if objects.topology is not None:
        info = objects.topology.metadata.annotations.get(names.ANNOTATION_CPU_BASIC_INFO)
    found = node_ratios(
        facts, configuration.normalization, configuration.amplification, info, enabled=resolved.enabled
    )
    decision = decide(facts, report, shares, resolved, now_s, found.factor)
    faults = tuple(fault.message for fault in configuration.faults)
    decision = replace(decision, notes=(*faults, *decision.notes, *found.problems))
    devices = NO_DEVICES if objects.device is None else device_offer(objects.device)
    want = wanted(facts, decision, found, devices)
    at_s = facts.last_offer.at_s
    since_s = None if at_s is None else now_s - at_s
    verdict = judge(facts, want, resolved.strategy, float("inf") if since_s is None else since_s)
    return Explanation(
        decision, configuration, facts, report, shares, found, want, verdict, facts.last_offer, since_s
    )


def _configuration(objects: Objects) -> Configuration:
    stored = objects.stored_data or {}
    if objects.config_data is None:
        return load(None, stored, _OBJECT_REF)
    return load(None, objects.config_data, _OBJECT_REF, stored)


def bound_to(pods: Iterable[Pod], node: str) -> list[Pod]:
    """The pods that are bound to a node."""
    return [pod for pod in pods if pod.spec.node_name == node]
