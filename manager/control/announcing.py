"""Kubernetes Events: what an owner of the configuration or of a node should hear without reading logs."""

from typing import Final

from koord.api.objects import ConfigMap, Node
from koord.kube.events import EventRecorder, EventType, ObjectReference, reference
from koord.kube.resources import CONFIGMAPS, NODES
from koord.slo_config.loading import KeyFault
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.shortage import CONDITIONS, Shortage, TierName

REASON_BATCH_REMOVED: Final = "BatchResourcesRemoved"
REASON_COVERED: Final = "ResourcesCovered"
REASON_CONFIG_DELETED: Final = "ConfigurationDeleted"
REASON_RATIO: Final = "RatioNotCalculated"
_WHY = {
    Reason.CLUSTER_DISABLED: "colocation is off for the cluster",
    Reason.NODE_DISABLED: "colocation is off for this node",
    Reason.NO_REPORT: "there is no NodeMetric",
    Reason.REPORT_WITHOUT_TIME: "the NodeMetric holds no report yet",
    Reason.REPORT_EXPIRED: "the last report is too old",
    Reason.REPORT_UNUSABLE: "the last report lacks the node's usage",
}


class Announcer:
    """Turns what happened into Events."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def config_fault(self, config_map: ConfigMap, fault: KeyFault) -> None:
        """A key of the configuration cannot be used."""
        message = f"{fault.message}; {fault.kept} stays in force"
        self._recorder.emit(reference(CONFIGMAPS, config_map), "Warning", fault.event_reason, message)

    def config_deleted(self, namespace: str, name: str) -> None:
        """The ConfigMap is gone, and what it said stays in force."""
        about = ObjectReference(CONFIGMAPS.api_version, CONFIGMAPS.kind, name, namespace)
        message = "The ConfigMap is gone; the last good configuration stays in force until there is a new one"
        self._recorder.emit(about, "Warning", REASON_CONFIG_DELETED, message)

    def batch_removed(self, node: Node, decision: NodeDecision) -> None:
        """A node offers no batch resources any more; a Warning when nobody asked for that."""
        event_type: EventType = "Warning" if decision.reason.is_degraded else "Normal"
        message = f"Batch resources removed: {_WHY[decision.reason]}"
        if decision.reason is Reason.REPORT_EXPIRED and decision.report_age_s is not None:
            message += f" ({decision.report_age_s / 60:.0f} min)"
        self._recorder.emit(reference(NODES, node), event_type, REASON_BATCH_REMOVED, message)

    def shortage(self, node: Node, tier: TierName, short: Shortage | None) -> None:
        """A node began, or ceased, to offer less than its running pods hold."""
        if short is None:
            message = f"What running pods hold of the {tier} resources is offered again"
            self._recorder.emit(reference(NODES, node), "Normal", REASON_COVERED, message)
            return
        message = f"{short.message()}; pods run on, new ones are not placed"
        self._recorder.emit(reference(NODES, node), "Warning", CONDITIONS[tier], message)

    def ratio_problem(self, node: Node, problem: str) -> None:
        """A node's normalization or amplification ratio cannot be calculated."""
        self._recorder.emit(reference(NODES, node), "Warning", REASON_RATIO, problem)
