"""topology.node.k8s.io/v1alpha1 NodeResourceTopology: a node's NUMA zones and what each of them holds."""

from koord.api.objects import ObjectMeta, Struct
from koord.api.quantity import QuantityText


class ZoneResource(Struct, frozen=True):
    """One resource of a zone; None where the object does not state an amount."""

    name: str = ""
    capacity: QuantityText | None = None
    allocatable: QuantityText | None = None
    available: QuantityText | None = None


class Zone(Struct, frozen=True):
    """One zone. Its position in the list is the NUMA node's number."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Struct, frozen=True):
    """One per node, named like it. The object has neither spec nor status."""

    metadata: ObjectMeta = ObjectMeta()
    zones: tuple[Zone, ...] = ()
