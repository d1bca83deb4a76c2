"""What a NodeMetric says, as numbers; read once per report."""

from dataclasses import dataclass, field
from typing import NamedTuple

from koord.api.objects import ResourceList
from koord.api.priority import PriorityBand
from koord.api.quantity import InvalidQuantity
from koord.api.slo import NodeMetric, PodMetricInfo
from koord.api.timestamps import parse_rfc3339
from manager.overcommit.amounts import ZERO, Amounts, read_amounts, read_pair
from manager.overcommit.pod_share import UNPROTECTED, PodKey

_UNPROTECTED_NAMES = frozenset(str(band) for band in UNPROTECTED)
_NOTABLE_SKEW_S = 30.0
_PROTECTED_HOST_BANDS = frozenset({str(PriorityBand.PROD), str(PriorityBand.MID)})


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
    and mid). problems: entries that could not be read and were left out.
    """

    updated_s: float | None
    usable: bool
    system: Amounts = ZERO
    host_applications: Amounts = ZERO
    pods: dict[PodKey, PodUse] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


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
    applications = ZERO
    for application in status.host_application_metric:
        if application.priority in _PROTECTED_HOST_BANDS:
            used = _use(application.usage.resources, f"{where}.hostApplicationMetric[{application.name}]", problems)
            applications = applications.plus(used or ZERO)
    pods = _read_pods(status.pods_metric, where, problems)
    usable = system is not None
    return UsageReport(updated_s, usable, system or ZERO, applications, pods, tuple(problems))


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
