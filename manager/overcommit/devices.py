"""What a node offers of its accelerators, summed over the healthy ones that its Device object lists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api import names, quantity
from koord.api.devices import Device, DeviceInfo
from koord.api.quantity import NANO, Family, InvalidQuantity
from manager.overcommit.amounts import ceil_div

_GPU: Final = "gpu"
_RDMA: Final = "rdma"
_WHOLE_DEVICE: Final = 100
_NVIDIA: Final = "nvidia"
GPU_NAMES: Final = (
    names.GPU,
    names.GPU_CORE,
    names.GPU_MEMORY,
    names.GPU_MEMORY_RATIO,
    names.GPU_SHARED,
    names.HUAWEI_NPU_CORE,
    names.HUAWEI_NPU_CPU,
    names.HUAWEI_NPU_DVPP,
)
_LABELS: Final = (names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL, names.LABEL_GPU_DRIVER_VERSION)


@dataclass(frozen=True, slots=True)
class DeviceOffer:
    """resources: the amount of each name in its unit, None to remove it; a name that is absent is left as it is.
    families: how the amounts are written. labels: of the node, to set. problems: devices that could not be read."""

    resources: Mapping[str, int | None]
    families: Mapping[str, Family] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


NO_DEVICES: Final = DeviceOffer(dict.fromkeys((*GPU_NAMES, names.RDMA)))
"""Of a node without a Device object: nothing."""


def device_offer(device: Device | None) -> DeviceOffer:
    """The device resources of a node. Never raises: a device that cannot be read is left out and named."""
    if device is None:
        return NO_DEVICES
    resources: dict[str, int | None] = {}
    families: dict[str, Family] = {}
    labels: dict[str, str] = {}
    problems: list[str] = []
    healthy = [info for info in device.spec.devices if info.health]
    gpus = [info for info in healthy if info.type == _GPU]
    if gpus:
        vendor = device.metadata.labels.get(names.LABEL_GPU_VENDOR, "")
        resources |= _sum(gpus, vendor, families, problems)
        labels = {name: device.metadata.labels[name] for name in _LABELS if name in device.metadata.labels}
    else:
        resources |= dict.fromkeys(GPU_NAMES)
    rdma = sum(1 for info in healthy if info.type == _RDMA)
    resources[names.RDMA] = rdma * _WHOLE_DEVICE if rdma else None
    where = f"Device/{device.metadata.name}"
    return DeviceOffer(resources, families, labels, tuple(f"{where}: {problem}" for problem in problems))


def _sum(
    gpus: list[DeviceInfo], vendor: str, families: dict[str, Family], problems: list[str]
) -> dict[str, int | None]:
    nano: dict[str, int] = {}
    for info in gpus:
        try:
            read = {name: quantity.nano(text) for name, text in info.resources.items() if name in GPU_NAMES}
        except InvalidQuantity as error:
            problems.append(f"device {info.id or info.minor}: {error}; it is not offered")
            continue
        for name, amount in read.items():
            nano[name] = nano.get(name, 0) + amount
            families.setdefault(name, quantity.family(info.resources[name]))
    if vendor in ("", _NVIDIA):
        nano[names.GPU] = nano.get(names.GPU_CORE, 0)
    return {name: ceil_div(amount, NANO) for name, amount in nano.items()}
