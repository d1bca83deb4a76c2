"""How GPUs may be asked for (gate ValidatePodDeviceResource): app containers' requests only."""

from __future__ import annotations

from koord.api import names, quantity
from koord.api.objects import Pod, ResourceList
from webhook.judgement import FieldError, forbidden, invalid

FIELD = "pod.spec.containers[*].resources.requests"
_CARD_PERCENT = 100


def device_errors(pod: Pod) -> list[FieldError]:
    """What is wrong with the GPU requests of each container. Raises InvalidQuantity."""
    return [error for container in pod.spec.containers for error in _errors(container.resources.requests)]


def _errors(requests: ResourceList) -> list[FieldError]:
    if names.GPU in requests and names.GPU_SHARED in requests:
        return [forbidden(FIELD, "Forbidden declare GPU and GPU share at same time")]
    if names.GPU in requests:
        return _whole_gpu(requests)
    if names.GPU_SHARED in requests:
        return _shared_gpu(requests)
    return []


def _whole_gpu(requests: ResourceList) -> list[FieldError]:
    percent, shown = quantity.value(requests[names.GPU]), quantity.canonical(requests[names.GPU])
    if percent == 0:
        return [invalid(FIELD, shown, "the requested GPU must be greater than zero")]
    if percent > _CARD_PERCENT and percent % _CARD_PERCENT:
        return [invalid(FIELD, shown, "the requested GPU must be percentage of 100")]
    return []


def _shared_gpu(requests: ResourceList) -> list[FieldError]:
    def amount(name: str) -> int:
        return quantity.value(requests[name]) if name in requests else 0

    errors = []
    shared = amount(names.GPU_SHARED)
    if shared == 0:
        errors.append(
            invalid(
                FIELD, quantity.canonical(requests[names.GPU_SHARED]), "the requested GPU must be greater than zero"
            )
        )
    if amount(names.HUAWEI_NPU_CORE):
        return errors
    memory, ratio = amount(names.GPU_MEMORY), amount(names.GPU_MEMORY_RATIO)
    if not memory and not ratio:
        errors.append(forbidden(FIELD, "GPU memory and GPU memory ratio all is zero"))
    if memory and ratio:
        errors.append(forbidden(FIELD, "declare GPU memory and GPU memory ratio at same time"))
    if shared:
        for name, what in ((names.GPU_CORE, "gpuCore"), (names.GPU_MEMORY_RATIO, "gpuMemoryRatio")):
            if amount(name) % shared:
                detail = f"the requested {what} must multiple of shared"
                errors.append(invalid(FIELD, quantity.canonical(requests[name]), detail))
    return errors
