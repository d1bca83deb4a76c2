"""NodeMetric's status from what was measured, in Koordinator's format (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from koord.api import quantity
from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339
from koordlet.sampling.series import WIRE_PERCENTILES, Series, Window
from koordlet.views import MetricPolicy, PodView


@dataclass(frozen=True)
class UsageSeries:
    """CPU in cores and memory in bytes over time."""

    cpu: Series
    memory: Series


@dataclass(frozen=True)
class PodUsageSeries:
    """A pod and its series."""

    pod: PodView
    usage: UsageSeries


def build_status(
    node: UsageSeries,
    system: UsageSeries,
    pods: Sequence[PodUsageSeries],
    policy: MetricPolicy,
    now_s: float,
    epoch_s: float,
) -> JsonObject | None:
    """The status to report, or None while there is nothing to say about the node.

    now_s is the clock of the series, epoch_s the wall clock for `updateTime`. A pod without samples is left
    out. Reclaimable production resources are not predicted, so the field is absent rather than zero.
    """
    node_usage = _average(node, policy.aggregate_s, now_s)
    if node_usage is None:
        return None
    system_usage = _average(system, policy.aggregate_s, now_s)
    info: JsonObject = {
        "nodeUsage": {"resources": node_usage},
        "systemUsage": None if system_usage is None else {"resources": system_usage},
        "aggregatedNodeUsages": _aggregate(node, policy, now_s),
        "aggregatedSystemUsages": _aggregate(system, policy, now_s),
    }
    entries = []
    for one in sorted(pods, key=lambda one: (one.pod.namespace, one.pod.name)):
        usage = _average(one.usage, policy.aggregate_s, now_s)
        if usage is not None:
            entries.append(_pod_entry(one.pod, usage))
    return {
        "updateTime": format_rfc3339(epoch_s),
        "nodeMetric": info,
        "podsMetric": entries,
        # Null removes in a merge patch: what an agent before this one left must not be taken for fresh.
        "hostApplicationMetric": None,
        "prodReclaimableMetric": None,
        "prodPeakMetric": None,
    }


def _pod_entry(pod: PodView, usage: JsonObject) -> JsonObject:
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "podUsage": {"resources": usage},
        "priority": str(pod.band),
        "qos": str(pod.reported_qos),
    }


def _average(usage: UsageSeries, window_s: float, now_s: float) -> JsonObject | None:
    cpu = usage.cpu.window(now_s, window_s).average()
    memory = usage.memory.window(now_s, window_s).average()
    if cpu is None or memory is None:
        return None
    return _resources(cpu, memory)


def _resources(cpu_cores: float, memory_bytes: float) -> JsonObject:
    return {
        "cpu": quantity.format_milli(round(1000 * cpu_cores)),
        "memory": quantity.format_value(round(memory_bytes), "binary"),
    }


def _aggregate(usage: UsageSeries, policy: MetricPolicy, now_s: float) -> list[JsonObject]:
    """One entry per duration; its map is empty while less than half of the window is covered by samples."""
    entries: list[JsonObject] = []
    for text, seconds in policy.durations:
        cpu, memory = usage.cpu.window(now_s, seconds), usage.memory.window(now_s, seconds)
        entries.append({"duration": text, "usage": _statistics(cpu, memory)})
    return entries


def _statistics(cpu: Window, memory: Window) -> JsonObject:
    if not (cpu.is_reportable and memory.is_reportable):
        return {}
    rows = [("avg", cpu.average(), memory.average())]
    rows += [(name, cpu.wire_percentile(p), memory.wire_percentile(p)) for name, p in WIRE_PERCENTILES]
    return {
        name: {"resources": _resources(cores, amount)}
        for name, cores, amount in rows
        if cores is not None and amount is not None
    }
