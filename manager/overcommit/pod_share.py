"""What the formula needs of a pod, derived once when the pod changes."""

from typing import Final, NamedTuple

import msgspec

from koord.api import names
from koord.api.objects import Pod
from koord.api.pod_resources import requests_nano
from koord.api.priority import PriorityBand, defaulted_class
from koord.api.qos import QoSClass, defaulted_qos
from koord.api.quantity import InvalidQuantity
from manager.overcommit.amounts import ZERO, Amounts

UNPROTECTED: Final = frozenset({PriorityBand.BATCH, PriorityBand.FREE})
_COUNTED_PHASES = frozenset({"Running", "Pending"})
_MILLI = 1000

PodKey = tuple[str, str]
"""(namespace, name)"""


class PodShare(NamedTuple):
    """A pod bound to a node.

    counted: Running or Pending, so it takes part. protected: production, mid or unclassed, so what it uses is not
    sold. exclusive: LSE, whose requested cores are never sold. zones: NUMA zones it is bound to, () for any.
    problem: why it could not be read; such a pod counts as protected and asking for nothing.
    """

    key: PodKey
    node: str
    counted: bool
    protected: bool
    exclusive: bool
    request: Amounts
    zones: tuple[int, ...] = ()
    problem: str = ""


class _ZoneShare(msgspec.Struct, frozen=True):
    node: int = -1


class _ResourceStatus(msgspec.Struct, frozen=True, rename="camel"):
    numa_node_resources: tuple[_ZoneShare, ...] = ()


_STATUS_DECODER = msgspec.json.Decoder(_ResourceStatus)


def derive(pod: Pod) -> PodShare:
    """The share of a pod. Never raises: an unreadable quantity is a problem of that pod alone."""
    key = (pod.metadata.namespace, pod.metadata.name)
    counted = pod.status.phase in _COUNTED_PHASES
    zones = _zones(pod.metadata.annotations.get(names.ANNOTATION_RESOURCE_STATUS))
    try:
        band = defaulted_class(pod)
        exclusive = defaulted_qos(pod) is QoSClass.LSE
        request = _request(pod, band)
    except InvalidQuantity as error:
        return PodShare(key, pod.spec.node_name, counted, True, False, ZERO, zones, f"Pod/{key[0]}/{key[1]}: {error}")
    return PodShare(key, pod.spec.node_name, counted, band not in UNPROTECTED, exclusive, request, zones)


def _request(pod: Pod, band: PriorityBand) -> Amounts:
    """cpu and memory requests; those of a mid pod may stand under the mid names, where admission put them."""
    asked = requests_nano(pod.spec)
    cpu, memory = asked.get(names.CPU, 0), asked.get(names.MEMORY, 0)
    if band is PriorityBand.MID:
        cpu = max(cpu, asked.get(names.MID_CPU, 0) // _MILLI)
        memory = max(memory, asked.get(names.MID_MEMORY, 0))
    return Amounts(cpu, memory)


def _zones(status_json: str | None) -> tuple[int, ...]:
    if status_json is None:
        return ()
    try:
        status = _STATUS_DECODER.decode(status_json)
    except msgspec.DecodeError:
        return ()
    return tuple(dict.fromkeys(share.node for share in status.numa_node_resources))
