"""The colocation strategy: its fields, built-in defaults and which values are usable."""

from typing import Any, Final

import msgspec

from koord.slo_config.options import KOORD, OPTIONS
from koord.slo_config.schema import Fragment, ListOf, MapOf, Record, Scalar, Schema

_INT = Scalar("int")

STRATEGY_FIELDS: Final[dict[str, Schema]] = {
    "enable": Scalar("bool"),
    "metricAggregateDurationSeconds": _INT,
    "metricReportIntervalSeconds": _INT,
    "metricAggregatePolicy": Record({"durations": ListOf(Scalar("duration"))}),
    "metricMemoryCollectPolicy": Scalar("string"),
    "cpuReclaimThresholdPercent": _INT,
    "cpuCalculatePolicy": Scalar("string"),
    "memoryReclaimThresholdPercent": _INT,
    "memoryCalculatePolicy": Scalar("string"),
    "degradeTimeMinutes": _INT,
    "updateTimeThresholdSeconds": _INT,
    "resourceDiffThreshold": Scalar("float"),
    "midReclaimMode": Scalar("string", empty_is_absent=True),
    "midCPUThresholdPercent": _INT,
    "midMemoryThresholdPercent": _INT,
    "midUnallocatedPercent": _INT,
    "midStaticCPUReservedPercent": _INT,
    "midStaticMemoryReservedPercent": _INT,
    "batchCPUThresholdPercent": _INT,
    "batchMemoryThresholdPercent": _INT,
    "extensions": MapOf(Scalar("any"), {KOORD: OPTIONS}),
}
STRATEGY_SCHEMA: Final = Record(STRATEGY_FIELDS)

DEFAULTS: Final[Fragment] = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60,
    "cpuCalculatePolicy": "usage",
    "memoryReclaimThresholdPercent": 65,
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0,
    "midStaticCPUReservedPercent": 0,
    "midStaticMemoryReservedPercent": 0,
}

# Field names with the closed range that is usable; None: no upper bound.
_RANGES: Final[dict[str, tuple[float, float | None]]] = {
    "metricAggregateDurationSeconds": (1, None),
    "metricReportIntervalSeconds": (1, None),
    "degradeTimeMinutes": (1, None),
    "updateTimeThresholdSeconds": (1, None),
    "resourceDiffThreshold": (5e-324, None),
    "cpuReclaimThresholdPercent": (0, None),
    "memoryReclaimThresholdPercent": (0, None),
    "midStaticCPUReservedPercent": (0, None),
    "midStaticMemoryReservedPercent": (0, None),
    "batchCPUThresholdPercent": (0, None),
    "batchMemoryThresholdPercent": (0, None),
    "midCPUThresholdPercent": (0, 100),
    "midMemoryThresholdPercent": (0, 100),
    "midUnallocatedPercent": (0, 100),
}


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    """The strategy in force for one node; every field stated. Percents are of capacity and may exceed 100."""

    enable: bool
    metric_aggregate_duration_seconds: int
    metric_report_interval_seconds: int
    metric_aggregate_policy: dict[str, Any]
    metric_memory_collect_policy: str
    cpu_reclaim_threshold_percent: int
    cpu_calculate_policy: str
    memory_reclaim_threshold_percent: int
    memory_calculate_policy: str
    degrade_time_minutes: int
    update_time_threshold_seconds: int
    resource_diff_threshold: float
    mid_cpu_threshold_percent: int = msgspec.field(name="midCPUThresholdPercent")
    mid_memory_threshold_percent: int
    mid_unallocated_percent: int
    mid_static_cpu_reserved_percent: int = msgspec.field(name="midStaticCPUReservedPercent")
    mid_static_memory_reserved_percent: int
    mid_reclaim_mode: str = ""
    batch_cpu_threshold_percent: int | None = msgspec.field(name="batchCPUThresholdPercent", default=None)
    batch_memory_threshold_percent: int | None = None
    extensions: dict[str, Any] = {}


def problem_with(merged: Fragment) -> str:
    """Why a merged strategy cannot be used, as `field: value: allowed`, or "" when it can."""
    for name, (lowest, highest) in _RANGES.items():
        number = merged.get(name)
        if number is not None and (number < lowest or (highest is not None and number > highest)):
            return f"{name}: invalid value {number}: allowed: {_in_words(lowest, highest)}"
    if not merged["metricMemoryCollectPolicy"]:
        return 'metricMemoryCollectPolicy: invalid value "": allowed: any name the NodeMetric CRD lists'
    return ""


def _in_words(lowest: float, highest: float | None) -> str:
    if highest is not None:
        return f"{lowest} to {highest}"
    return f"{lowest} or above" if lowest in (0, 1) else "above 0"


def typed(merged: Fragment) -> Strategy:
    """The merged strategy as a struct."""
    return msgspec.convert(merged, Strategy)
