"""scheduling.koordinator.sh/v1alpha1 Device: the accelerators of one node, named like it."""

import msgspec

from koord.api.objects import ObjectMeta, ResourceList, Struct


class DeviceInfo(Struct, frozen=True):
    """One device; `type` is gpu, rdma or fpga."""

    type: str = ""
    id: str = ""
    minor: int | None = None
    module_id: int | None = msgspec.field(name="moduleID", default=None)
    health: bool = False
    labels: dict[str, str] = {}
    resources: ResourceList = {}


class DeviceSpec(Struct, frozen=True):
    """All devices of the node."""

    devices: tuple[DeviceInfo, ...] = ()


class Device(Struct, frozen=True):
    """One per node that has any."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec = DeviceSpec()
