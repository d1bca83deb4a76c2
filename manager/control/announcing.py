"""Kubernetes Events: what an owner of the configuration or of a node should hear without reading logs."""

from typing import Final

from koord.api.objects import ConfigMap, Node
from koord.kube.events import EventRecorder, EventType, reference
from koord.kube.resources import CONFIGMAPS, NODES
from koord.slo_config.loading import KeyFault
from manager.overcommit.decision import BatchDecision, Reason

REASON_BATCH_REMOVED: Final = "BatchResourcesRemoved"
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

    def batch_removed(self, node: Node, decision: BatchDecision) -> None:
        """A node offers no batch resources any more; a Warning when nobody asked for that."""
        event_type: EventType = "Warning" if decision.reason.is_degraded else "Normal"
        message = f"Batch resources removed: {_WHY[decision.reason]}"
        self._recorder.emit(reference(NODES, node), event_type, REASON_BATCH_REMOVED, message)
