"""QoS classes: Koordinator's five by label, Kubernetes' three by requests and limits, and the defaulting between."""

from collections.abc import Mapping
from enum import StrEnum

from koord.api import names, quantity
from koord.api.objects import Pod, PodSpec, ResourceList, ResourceRequirements


class QoSClass(StrEnum):
    """koordinator.sh/qosClass; the spelling is case-sensitive on the wire."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


class KubeQoS(StrEnum):
    """status.qosClass of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


_BY_LABEL = {str(member): member for member in QoSClass}
_BY_STATUS = {str(member): member for member in KubeQoS}
_DEFAULT_OF = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}
_COUNTED = (names.CPU, names.MEMORY)


def raw_qos(labels: Mapping[str, str]) -> QoSClass | None:
    """The class that the label names; None when absent or not one of the five."""
    return _BY_LABEL.get(labels.get(names.LABEL_QOS, ""))


def computed_kube_qos(spec: PodSpec) -> KubeQoS:
    """Kubernetes' class from the spec alone: only positive cpu and memory count, batch resources never do.

    Pod-level resources, when present, are judged instead of the containers'. Raises InvalidQuantity.
    """
    blocks = [spec.resources] if spec.resources is not None else _container_blocks(spec)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for block in blocks:
        _add_positive(requests, block.requests)
        limited = _add_positive(limits, block.limits)
        all_limited = all_limited and limited == len(_COUNTED)
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    if all_limited and requests == limits:
        return KubeQoS.GUARANTEED
    return KubeQoS.BURSTABLE


def _container_blocks(spec: PodSpec) -> list[ResourceRequirements]:
    return [container.resources for group in (spec.containers, spec.init_containers) for container in group]


def _add_positive(totals: dict[str, int], resources: ResourceList) -> int:
    found = 0
    for name in _COUNTED:
        if name in resources and (amount := quantity.nano(resources[name])) > 0:
            totals[name] = totals.get(name, 0) + amount
            found += 1
    return found


def kube_qos(pod: Pod) -> KubeQoS:
    """Kubernetes' class of a pod: what its status says, else computed from the spec. Raises InvalidQuantity."""
    return _BY_STATUS.get(pod.status.qos_class) or computed_kube_qos(pod.spec)


def defaulted_qos(pod: Pod) -> QoSClass:
    """The labelled class, else Guaranteed→LSR, Burstable→LS, BestEffort→BE. Raises InvalidQuantity."""
    return raw_qos(pod.metadata.labels) or _DEFAULT_OF[kube_qos(pod)]
