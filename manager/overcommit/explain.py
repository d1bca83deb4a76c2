"""The decision about a node from the API objects alone, for a person who asks why (and for replays)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from koord.api import names
from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.slo_config import colocation
from koord.slo_config.loading import load
from koord.slo_config.resolve import resolve
from manager.overcommit import node_facts, pod_share
from manager.overcommit.decide import decide
from manager.overcommit.decision import BatchDecision
from manager.overcommit.report import read_report

_OBJECT_REF = "ConfigMap"


def explain(
    node: Node, metric: NodeMetric | None, pods: Iterable[Pod], config_data: Mapping[str, str], now_s: float
) -> BatchDecision:
    """What the manager decides for the node now.

    pods: those bound to the node. config_data: data of slo-controller-config; with a broken colocation-config the
    built-in defaults explain (a running manager would keep its last good one), and the notes begin with the fault.
    Raises InvalidQuantity when the node's own cpu or memory cannot be read.
    """
    loaded = load(None, config_data, _OBJECT_REF)
    config = loaded.colocation or colocation.BUILT_IN
    shares = [pod_share.derive(pod) for pod in pods]
    resolved = resolve(config, node.metadata.labels, node.metadata.annotations)
    report = None if metric is None else read_report(metric, now_s)
    decision = decide(node_facts.derive(node), report, shares, resolved, now_s)
    faults = tuple(fault.message for fault in loaded.faults if fault.key == names.KEY_COLOCATION)
    return replace(decision, notes=(*faults, *decision.notes)) if faults else decision
