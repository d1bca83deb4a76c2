"""Replace native cpu and memory by the resources of the pod's priority band. Pure.

A pod in the batch or mid band asks for batch-cpu (milli-cores) and batch-memory (bytes) instead of cpu and
memory, in every init container, sidecar and container and in its overhead. Production pods and the free band,
which has no resources of its own, keep the native ones.
"""

from __future__ import annotations

from koord.api import names
from koord.api.objects import Container, PodSpec, ResourceRequirements
from koord.api.priority import TRANSLATED_RESOURCES, PriorityBand, class_by_qos, raw_class
from koord.api.qos import KubeQoS, QoSClass, computed_kube_qos, raw_qos
from webhook.draft import Draft
from webhook.texts import canonical_text, milli_count_text
from webhook.views import Resources, ResourcesView

_QOS_OF = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}


def band_of(draft: Draft) -> tuple[PriorityBand, str]:
    """The band of the drafted pod and what it was taken from; status.qosClass, a client's claim, is not asked.

    Raises InvalidQuantity.
    """
    band = raw_class(draft.labels, draft.priority)
    if band is not PriorityBand.NONE:
        by_label = names.LABEL_PRIORITY_CLASS in draft.labels
        return band, f"label {names.LABEL_PRIORITY_CLASS}" if by_label else f"spec.priority {draft.priority}"
    qos = raw_qos(draft.labels)
    if qos is not None:
        return class_by_qos(qos), f"label {names.LABEL_QOS} {qos}"
    kube_qos = computed_kube_qos(_spec_of(draft))
    return class_by_qos(_QOS_OF[kube_qos]), f"computed QoS {kube_qos}"


def _spec_of(draft: Draft) -> PodSpec:
    containers = [
        Container(resources=ResourceRequirements(block.requests or {}, block.limits or {})) for block in draft.blocks
    ]
    pod_level = draft.spec.resources
    return PodSpec(
        containers=tuple(containers),
        resources=None
        if pod_level is None
        else ResourceRequirements(pod_level.requests or {}, pod_level.limits or {}),
    )


def translate(draft: Draft, band: PriorityBand) -> tuple[bool, list[str]]:
    """Move the draft's resources to those of the band; (whether anything changed, warnings for the user).

    A request missing beside a limit is set to the limit, per resource. A target that the user wrote beside the
    native resource is overwritten, with a warning. Raises InvalidQuantity.
    """
    targets = TRANSLATED_RESOURCES.get(band)
    if targets is None:
        return False, []
    cpu, memory = targets[names.CPU], targets[names.MEMORY]
    changed = False
    warnings: list[str] = []
    for block in draft.blocks:
        requests, limits = block.requests, block.limits
        if requests:
            block.requests = _move(requests, cpu, memory)
        if limits:
            block.limits = _move(limits, cpu, memory)
            block.requests = _fill(block.requests, block.limits, cpu, memory)
        changed = changed or block.requests is not requests or block.limits is not limits
        for resources in (requests, limits):
            if resources and (cpu in resources or memory in resources):
                _warn_of_both(resources, cpu, memory, block.name, warnings)
    if draft.overhead:
        moved = _move(draft.overhead, cpu, memory)
        changed = changed or moved is not draft.overhead
        draft.overhead = moved
    _warn_of_pod_level(draft.spec.resources, band, warnings)
    return changed, warnings


def _move(resources: Resources, cpu: str, memory: str) -> Resources:
    """The same map when it holds nothing native, else a new one."""
    if names.CPU in resources:
        if len(resources) == 2 and names.MEMORY in resources:
            # Nearly every map there is.
            return {
                cpu: milli_count_text(resources[names.CPU]),
                memory: canonical_text(resources[names.MEMORY]),
            }
        moved = {name: amount for name, amount in resources.items() if name != names.CPU and name != cpu}
        moved[cpu] = milli_count_text(resources[names.CPU])
    elif names.MEMORY in resources:
        moved = dict(resources)
    else:
        return resources
    if names.MEMORY in moved:
        moved[memory] = canonical_text(moved.pop(names.MEMORY))
    return moved


def _fill(requests: Resources | None, limits: Resources, cpu: str, memory: str) -> Resources | None:
    for name in (cpu, memory):
        if name in limits and (requests is None or name not in requests):
            requests = {**(requests or {}), name: limits[name]}
    return requests


def _warn_of_both(resources: Resources, cpu: str, memory: str, container: str, warnings: list[str]) -> None:
    for native, target in ((names.CPU, cpu), (names.MEMORY, memory)):
        if native in resources and target in resources:
            warnings.append(
                f'container "{container}" names both {native} and {target}; the value of {native} is used'
            )


def _warn_of_pod_level(resources: ResourcesView | None, band: PriorityBand, warnings: list[str]) -> None:
    if resources is None:
        return
    for amounts in (resources.requests, resources.limits):
        if amounts and (names.CPU in amounts or names.MEMORY in amounts):
            warnings.append(
                f"spec.resources keeps its native cpu and memory: pod-level resources of a {band} pod are not"
                " translated, so they still count against the node's own capacity"
            )
            return
