"""What a NodeMetric says, as numbers; read once per report."""

from dataclasses import dataclass, field
from typing import NamedTuple

from koord.api import names
from koord.api.objects import ResourceList
from koord.api.priority import PriorityBand
from koord.api.quantity import InvalidQuantity
from koord.api.slo import AggregatedUsage, HostApplicationMetricInfo, NodeMetric, NodeMetricStatus, PodMetricInfo
from koord.api.timestamps import parse_rfc3339
from manager.overcommit.amounts import ZERO, Amounts, read_amounts, read_pair
from manager.overcommit.pod_share import UNPROTECTED, PodKey

_UNPROTECTED_NAMES = frozenset(str(band) for band in UNPROTECTED)
_NOTABLE_SKEW_S = 30.0
_PROD = str(PriorityBand.PROD)
_MID = str(PriorityBand.MID)


class PodUse(NamedTuple):
    """A pod's reported use in nano units. protected: by the priority stated in the report, for pods not listed."""

    cpu: int
    memory: int
    protected: bool


@dataclass(frozen=True, slots=True)
class UsageReport:
    """One report.

    updated_s: epoch seconds by the agent's clock, None when it never reported. usable: it carries node usage.
    system: what runs outside pods and declared host applications. host_applications: the protected ones (prod
    and mid), host_production: the prod ones alone. node_usage: of the whole node, None when it lacks cpu or memory.
    prod_reclaimable: what production asked for and is predicted not to need, zeros when not reported. prod_peak:
    predicted peak of production and system, None when not reported. windows: percentiles of node usage, unread.
    problems: entries that could not be read and were left out.
    """

    updated_s: float | None
    usable: bool
    system: Amounts = ZERO
    host_applications: Amounts = ZERO
    pods: dict[PodKey, PodUse] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    host_production: Amounts = ZERO
    node_usage: Amounts | None = None
    prod_reclaimable: Amounts = ZERO
    prod_peak: Amounts | None = None
    windows: tuple[AggregatedUsage, ...] = ()


def read_report(metric: NodeMetric, received_s: float | None = None) -> UsageReport:
    """Read a NodeMetric. Never raises.

    received_s: when it arrived, by the manager's clock. A report from the future counts as made then, so that an
    agent with a wrong clock that dies does not keep its node's numbers alive; None takes any time as it is.
    An unreadable pod is left out, so that the pod counts by its request; an unreadable time or system usage makes
    the report unusable, because without them nothing safe can be said.
    """
    status = metric.status
    where = f"NodeMetric/{metric.metadata.name}: status"
    problems: list[str] = []
    updated_s = _read_time(status.update_time, where, problems)
    if updated_s is not None and received_s is not None and updated_s > received_s:
        if updated_s > received_s + _NOTABLE_SKEW_S:
            problems.append(f"{where}.updateTime: {updated_s - received_s:.0f} s ahead of the manager's clock")
        updated_s = received_s
    if status.node_metric is None:
        return UsageReport(updated_s, False, problems=tuple(problems))
    system: Amounts | None = ZERO
    if status.node_metric.system_usage is not None:
        system = _use(status.node_metric.system_usage.resources, f"{where}.nodeMetric.systemUsage", problems)
    applications, production = _host_applications(status.host_application_metric, where, problems)
    pods = _read_pods(status.pods_metric, where, problems)
    reclaimable, peak = _predictions(status, where, problems)
    return UsageReport(
        updated_s,
        system is not None,
        system or ZERO,
        applications,
        pods,
        tuple(problems),
        production,
        _node_usage(status.node_metric.node_usage.resources, where, problems),
        reclaimable,
        peak,
        status.node_metric.aggregated_node_usages,
    )


def _node_usage(resources: ResourceList, where: str, problems: list[str]) -> Amounts | None:
    if names.CPU not in resources or names.MEMORY not in resources:
        return None
    return _use(resources, f"{where}.nodeMetric.nodeUsage", problems)


def _host_applications(
    listed: tuple[HostApplicationMetricInfo, ...], where: str, problems: list[str]
) -> tuple[Amounts, Amounts]:
    """Usage of prod and mid host applications, and of prod ones alone."""
    protected = production = ZERO
    for application in listed:
        if application.priority not in (_PROD, _MID):
            continue
        used = _use(application.usage.resources, f"{where}.hostApplicationMetric[{application.name}]", problems)
        protected = protected.plus(used or ZERO)
        if application.priority == _PROD:
            production = production.plus(used or ZERO)
    return protected, production


def _predictions(status: NodeMetricStatus, where: str, problems: list[str]) -> tuple[Amounts, Amounts | None]:
    reclaimable: Amounts | None = None
    peak: Amounts | None = None
    if (predicted := status.prod_reclaimable_metric) is not None:
        reclaimable = _use(predicted.resource.resources, f"{where}.prodReclaimableMetric", problems)
    if (predicted := status.prod_peak_metric) is not None and predicted.resource.resources:
        peak = _use(predicted.resource.resources, f"{where}.prodPeakMetric", problems)
    return reclaimable or ZERO, peak


def _read_pods(listed: tuple[PodMetricInfo, ...], where: str, problems: list[str]) -> dict[PodKey, PodUse]:
    pods: dict[PodKey, PodUse] = {}
    for pod in listed:
        try:
            cpu, memory = read_pair(pod.pod_usage.resources)
        except InvalidQuantity as error:
            problems.append(f"{where}.podsMetric[{pod.namespace}/{pod.name}]: {error}")
            continue
        protected = pod.priority not in _UNPROTECTED_NAMES
        pods[pod.namespace, pod.name] = PodUse(cpu if cpu > 0 else 0, memory if memory > 0 else 0, protected)
    return pods


def _use(resources: ResourceList, where: str, problems: list[str]) -> Amounts | None:
    try:
        return read_amounts(resources).at_least(ZERO)
    except InvalidQuantity as error:
        problems.append(f"{where}: {error}")
        return None


def _read_time(text: str | None, where: str, problems: list[str]) -> float | None:
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        problems.append(f'{where}.updateTime: invalid value "{text}": allowed: an RFC 3339 time')
        return None
