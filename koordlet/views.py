"""The API's objects as the agent needs them: parsed once per change, not once per cycle (pure).

An object with an unreadable part still gives a view: the part counts as absent and is named in `problems`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from koord.api import names, quantity
from koord.api.errors import InvalidInput
from koord.api.objects import Container, Node, Pod, ResourceList, Struct
from koord.api.priority import PriorityBand, defaulted_class
from koord.api.qos import KubeQoS, QoSClass, defaulted_qos, kube_qos, raw_qos
from koord.api.slo import MetricCollectPolicy, NodeMetric, NodeSLO
from koordlet.batch import BatchContainer
from koordlet.suppress.tick import POLICY_CPUSET

ANNOTATION_CONFIG_HASH = "kubernetes.io/config.hash"
"""On a static pod's mirror: the uid that its cgroup carries."""
_ACTIVE_PHASES = ("", "Pending", "Running")
DEFAULT_THRESHOLD_PERCENT = 65
DEFAULT_AGGREGATE_S = 300
DEFAULT_REPORT_S = 60
MIN_AGGREGATE_S = 60
DEFAULT_DURATIONS = ("5m0s", "10m0s", "30m0s")

T = TypeVar("T")


class _Resources(Struct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class _ExtendedSpec(Struct, frozen=True):
    containers: dict[str, _Resources] = {}


class _ResourceStatus(Struct, frozen=True):
    cpuset: str = ""


class _Reservation(Struct, frozen=True):
    resources: ResourceList = {}
    reserved_cpus: str = msgspec.field(name="reservedCPUs", default="")


class _SystemResource(Struct, frozen=True):
    cpuset: str = ""
    cpuset_exclusive: bool = True


@dataclass(frozen=True)
class PodView:
    """A pod of this node. `cgroup_uid` names its cgroup; `container_names` maps bare container ids to names."""

    uid: str
    cgroup_uid: str
    namespace: str
    name: str
    qos: QoSClass | None
    reported_qos: QoSClass
    kube_qos: KubeQoS
    band: PriorityBand
    is_active: bool
    batch: Mapping[str, BatchContainer]
    container_names: Mapping[str, str]
    cpus: str
    """Allocated CPUs as the scheduler wrote them, "" for none."""
    problems: tuple[str, ...] = ()

    @property
    def is_best_effort(self) -> bool:
        """Whether the pod is on the side that gives way."""
        return self.qos is QoSClass.BE or (self.qos is None and self.kube_qos is KubeQoS.BEST_EFFORT)


@dataclass(frozen=True)
class NodeView:
    """Own node: milli-cores; CPUs in list format that best-effort work must not use."""

    capacity_milli: int
    allocatable_milli: int | None
    annotated_reserve_milli: int
    excluded_cpus: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class SuppressPolicy:
    """resourceUsedThresholdWithBE with the defaults filled in."""

    enable: bool = False
    threshold_percent: int = DEFAULT_THRESHOLD_PERCENT
    min_percent: int | None = None
    policy: str = POLICY_CPUSET


@dataclass(frozen=True)
class MetricPolicy:
    """How to measure and report. `durations` are (text as configured, seconds)."""

    aggregate_s: float = DEFAULT_AGGREGATE_S
    report_s: float = DEFAULT_REPORT_S
    durations: tuple[tuple[str, float], ...] = field(default=())
    counts_page_cache: bool = False


def view_pod(pod: Pod) -> PodView:
    """The view of a pod; never raises."""
    problems: list[str] = []
    meta, ref = pod.metadata, f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
    kube = _try(lambda: kube_qos(pod), KubeQoS.BURSTABLE, f"{ref}: spec.containers: ", problems)
    label = raw_qos(meta.labels)
    default_qos = QoSClass.BE if kube is KubeQoS.BEST_EFFORT else QoSClass.LS
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return PodView(
        uid=meta.uid,
        cgroup_uid=meta.annotations.get(ANNOTATION_CONFIG_HASH, meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        qos=label,
        reported_qos=label or _try(lambda: defaulted_qos(pod), default_qos, "", []),
        kube_qos=kube,
        band=_try(lambda: defaulted_class(pod), PriorityBand.PROD, "", []),
        is_active=pod.status.phase in _ACTIVE_PHASES,
        batch=_try(lambda: _batch_of(pod), {}, f"{ref}: batch resources: ", problems),
        container_names={s.container_id.rpartition("://")[2]: s.name for s in statuses if s.container_id},
        cpus=_annotation(meta.annotations, names.ANNOTATION_RESOURCE_STATUS, _ResourceStatus, ref, problems).cpuset,
        problems=tuple(problems),
    )


def _batch_of(pod: Pod) -> dict[str, BatchContainer]:
    text = pod.metadata.annotations.get(names.ANNOTATION_EXTENDED_RESOURCE_SPEC)
    if text is None:
        stated = {one.name: _Resources(one.resources.requests, one.resources.limits) for one in _running(pod)}
    else:
        stated = msgspec.json.decode(text, type=_ExtendedSpec).containers
    found = {}
    for name, resources in stated.items():
        container = BatchContainer(
            name,
            _amount(resources.requests, names.BATCH_CPU),
            _amount(resources.limits, names.BATCH_CPU),
            _amount(resources.limits, names.BATCH_MEMORY),
        )
        if container != BatchContainer(name):
            found[name] = container
    return found


def _running(pod: Pod) -> list[Container]:
    return [*pod.spec.containers, *(one for one in pod.spec.init_containers if one.is_sidecar)]


def _amount(resources: ResourceList, name: str) -> int | None:
    return quantity.value(resources[name]) if name in resources else None


def view_node(node: Node) -> NodeView:
    """The view of the node; never raises. A capacity that cannot be read is 0."""
    problems: list[str] = []
    ref = f"Node/{node.metadata.name}"
    annotations = node.metadata.annotations
    reservation = _annotation(annotations, names.ANNOTATION_NODE_RESERVATION, _Reservation, ref, problems)
    system = _annotation(annotations, names.ANNOTATION_SYSTEM_QOS_RESOURCE, _SystemResource, ref, problems)
    exclusive = system.cpuset if system.cpuset_exclusive else ""
    return NodeView(
        capacity_milli=_try(lambda: _milli(node.status.capacity) or 0, 0, f"{ref}: status.capacity: ", problems),
        allocatable_milli=_try(
            lambda: _milli(node.status.allocatable), None, f"{ref}: status.allocatable: ", problems
        ),
        annotated_reserve_milli=_try(
            lambda: _reserve_milli(reservation), 0, f"{ref}: {names.ANNOTATION_NODE_RESERVATION}: ", problems
        ),
        excluded_cpus=",".join(part for part in (reservation.reserved_cpus, exclusive) if part),
        problems=tuple(problems),
    )


def _milli(resources: ResourceList) -> int | None:
    return quantity.milli(resources[names.CPU]) if names.CPU in resources else None


def _reserve_milli(reservation: _Reservation) -> int:
    if reservation.reserved_cpus:
        return 1000 * _count_cpus(reservation.reserved_cpus)
    return _milli(reservation.resources) or 0


def _count_cpus(text: str) -> int:
    count = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        count += int(last) - int(first) + 1 if dash else 1
    return count


def suppress_policy(slo: NodeSLO) -> SuppressPolicy:
    """The strategy with Koordinator's defaults for what is absent or null. Raises InvalidInput."""
    block = slo.spec.resource_used_threshold_with_be
    if block is None:
        return SuppressPolicy()
    ref = f"NodeSLO/{slo.metadata.name}"
    threshold, floor = block.cpu_suppress_threshold_percent, block.cpu_suppress_min_percent
    for name, value in (("cpuSuppressThresholdPercent", threshold), ("cpuSuppressMinPercent", floor)):
        if value is not None and not 0 <= value <= 100:
            raise InvalidInput(ref, f"spec.resourceUsedThresholdWithBE.{name}", value, "0 to 100")
    return SuppressPolicy(
        enable=bool(block.enable),
        threshold_percent=DEFAULT_THRESHOLD_PERCENT if threshold is None else threshold,
        min_percent=floor,
        policy=block.cpu_suppress_policy or POLICY_CPUSET,
    )


def metric_policy(metric: NodeMetric | None, min_report_s: float) -> MetricPolicy:
    """How to report; durations that cannot be read are left out. `min_report_s` bounds the interval below."""
    policy = (metric.spec.metric_collect_policy if metric else None) or MetricCollectPolicy()
    durations: tuple[str, ...] = DEFAULT_DURATIONS
    if policy.node_aggregate_policy is not None and policy.node_aggregate_policy.durations is not None:
        durations = policy.node_aggregate_policy.durations
    parsed = ((text, parse_duration(text)) for text in durations)
    return MetricPolicy(
        aggregate_s=max(policy.aggregate_duration_seconds or DEFAULT_AGGREGATE_S, MIN_AGGREGATE_S),
        report_s=max(policy.report_interval_seconds or DEFAULT_REPORT_S, min_report_s),
        durations=tuple((text, seconds) for text, seconds in parsed if seconds),
        counts_page_cache=policy.node_memory_collect_policy == "usageWithPageCache",
    )


_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_duration(text: str) -> float | None:
    """Seconds of a Go duration ("5m0s", "1h30m", "1.5s"); None for anything else."""
    total, number = 0.0, ""
    rest = text
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        letters = len(rest) - len(rest.lstrip("hmsnuµ"))
        unit, rest = rest[:letters], rest[letters:]
        try:
            total += float(number) * _UNIT_S[unit]
        except (ValueError, KeyError):
            return None
    return total if text else None


def _annotation(annotations: Mapping[str, str], name: str, kind: type[T], ref: str, problems: list[str]) -> T:
    text = annotations.get(name)
    if text is None:
        return kind()
    return _try(lambda: msgspec.json.decode(text, type=kind), kind(), f"{ref}: {name}: ", problems)


def _try(read: Callable[[], T], default: T, prefix: str, problems: list[str]) -> T:
    try:
        return read()
    except (ValueError, msgspec.DecodeError) as error:
        problems.append(f"{prefix}{error}")
        return default
