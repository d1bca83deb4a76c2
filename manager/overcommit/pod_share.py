"""What the formula needs of a pod, derived once when the pod changes."""

from collections.abc import Mapping
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
    sold. exclusive: LSE, whose requested cores are never sold. request: native cpu and memory, of a mid pod also
    what it asks under the mid names. zones: NUMA zones it is bound to, () for any. problem: why it could not be
    read; such a pod counts as protected and asking for nothing. mid: of the mid band. held: what it holds of its
    tier's resources (mid names of a mid pod, batch names of any other).
    """

    key: PodKey
    node: str
    counted: bool
    protected: bool
    exclusive: bool
    request: Amounts
    zones: tuple[int, ...] = ()
    problem: str = ""
    mid: bool = False
    held: Amounts = ZERO


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
        asked = requests_nano(pod.spec)
    except InvalidQuantity as error:
        return PodShare(key, pod.spec.node_name, counted, True, False, ZERO, zones, f"Pod/{key[0]}/{key[1]}: {error}")
    mid = band is PriorityBand.MID
    cpu, memory = asked.get(names.CPU, 0), asked.get(names.MEMORY, 0)
    held = _held(asked, names.MID_CPU, names.MID_MEMORY) if mid else _held(asked, names.BATCH_CPU, names.BATCH_MEMORY)
    if mid:
        cpu, memory = max(cpu, held.cpu), max(memory, held.memory)
    protected = band not in UNPROTECTED
    return PodShare(
        key, pod.spec.node_name, counted, protected, exclusive, Amounts(cpu, memory), zones, "", mid, held
    )


def _held(asked: Mapping[str, int], cpu_name: str, memory_name: str) -> Amounts:
    """Amounts under a tier's names, whose cpu counts milli-cores. One object for the many that hold nothing."""
    cpu, memory = asked.get(cpu_name, 0), asked.get(memory_name, 0)
    return Amounts(cpu // _MILLI, memory) if cpu or memory else ZERO


def _zones(status_json: str | None) -> tuple[int, ...]:
    if status_json is None:
        return ()
    try:
        status = _STATUS_DECODER.decode(status_json)
    except msgspec.DecodeError:
        return ()
    return tuple(dict.fromkeys(share.node for share in status.numa_node_resources))
