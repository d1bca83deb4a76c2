"""The range of every field of slo-controller-config, and which of two fields must be the larger.

What is checked is the merged value: an entry over the cluster's strategy over the defaults, so that a threshold
given alone is held against the other's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config.schema import Fragment

_PERCENT = (0, 100)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Closed ranges by field path (None: no bound on that side; `open_below`: the lower bound is excluded), and
    pairs (upper, lower) of which the first must be larger."""

    ranges: dict[str, tuple[float | None, float | None]]
    pairs: tuple[tuple[str, str], ...] = ()
    open_below: frozenset[str] = frozenset()


_COLOCATION = Bounds(
    {
        "metricAggregateDurationSeconds": (1, None),
        "metricReportIntervalSeconds": (1, None),
        "degradeTimeMinutes": (1, None),
        "updateTimeThresholdSeconds": (1, None),
        "cpuReclaimThresholdPercent": (0, None),
        "memoryReclaimThresholdPercent": (0, None),
        "batchCPUThresholdPercent": (0, None),
        "batchMemoryThresholdPercent": (0, None),
        "resourceDiffThreshold": (0, 1),
        "midCPUThresholdPercent": _PERCENT,
        "midMemoryThresholdPercent": _PERCENT,
        "midUnallocatedPercent": _PERCENT,
        "midStaticCPUReservedPercent": _PERCENT,
        "midStaticMemoryReservedPercent": _PERCENT,
    },
    open_below=frozenset({"resourceDiffThreshold"}),
)
_THRESHOLD = Bounds(
    {
        "cpuSuppressThresholdPercent": _PERCENT,
        "cpuSuppressMinPercent": _PERCENT,
        "cpuEvictBEUsageThresholdPercent": _PERCENT,
        "cpuEvictTimeWindowSeconds": (1, None),
        "allocatableEvictPriorityThreshold": (0, 7999),
        "memoryEvictThresholdPercent": _PERCENT,
        "memoryEvictLowerPercent": _PERCENT,
        "cpuEvictBESatisfactionUpperPercent": _PERCENT,
        "cpuEvictBESatisfactionLowerPercent": _PERCENT,
        "cpuEvictThresholdPercent": _PERCENT,
        "cpuEvictLowerPercent": _PERCENT,
        "memoryAllocatableEvictThresholdPercent": (0, None),
        "memoryAllocatableEvictLowerPercent": (0, None),
        "cpuAllocatableEvictThresholdPercent": (0, None),
        "cpuAllocatableEvictLowerPercent": (0, None),
    },
    (
        ("memoryEvictThresholdPercent", "memoryEvictLowerPercent"),
        ("cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent"),
        ("cpuEvictThresholdPercent", "cpuEvictLowerPercent"),
        ("memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent"),
        ("cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent"),
    ),
)
_BURST = Bounds(
    {
        "cpuBurstPercent": (1, 10000),
        "cfsQuotaBurstPercent": (100, None),
        "cfsQuotaBurstPeriodSeconds": (-1, None),
        "sharePoolThresholdPercent": _PERCENT,
    }
)
_SYSTEM = Bounds(
    {
        "minFreeKbytesFactor": (1, None),
        "watermarkScaleFactor": (1, 400),
        "memcgReapBackGround": (0, 1),
        "pageCacheLimitEnabled": (0, 1),
    }
)
_CLASS_RANGES: Final[dict[str, tuple[float | None, float | None]]] = {
    "cpuQOS.groupIdentity": (-1, 2),
    "cpuQOS.schedIdle": (0, 1),
    "memoryQOS.minLimitPercent": _PERCENT,
    "memoryQOS.lowLimitPercent": _PERCENT,
    "memoryQOS.throttlingPercent": _PERCENT,
    "memoryQOS.wmarkRatio": _PERCENT,
    "memoryQOS.pageCacheLimitPercent": _PERCENT,
    "memoryQOS.wmarkScalePermill": (1, 1000),
    "memoryQOS.wmarkMinAdj": (-25, 50),
    "memoryQOS.priorityEnable": (0, 1),
    "memoryQOS.oomKillGroup": (0, 1),
    "memoryQOS.priority": (0, 12),
    "resctrlQOS.catRangeStartPercent": _PERCENT,
    "resctrlQOS.catRangeEndPercent": _PERCENT,
    "resctrlQOS.mbaPercent": _PERCENT,
}
QOS_CLASSES: Final = ("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot")
_QOS = Bounds(
    {f"{name}.{path}": bounds for name in QOS_CLASSES for path, bounds in _CLASS_RANGES.items()},
    tuple(
        (f"{name}.resctrlQOS.catRangeEndPercent", f"{name}.resctrlQOS.catRangeStartPercent") for name in QOS_CLASSES
    ),
)
BOUNDS: Final = {
    names.KEY_COLOCATION: _COLOCATION,
    names.KEY_THRESHOLD: _THRESHOLD,
    names.KEY_CPU_BURST: _BURST,
    names.KEY_SYSTEM: _SYSTEM,
    names.KEY_RESOURCE_QOS: _QOS,
}
_KINDS: Final = {
    names.KEY_COLOCATION: "ColocationStrategy",
    names.KEY_THRESHOLD: "ResourceThresholdStrategy",
    names.KEY_CPU_BURST: "CPUBurstStrategy",
    names.KEY_SYSTEM: "SystemStrategy",
    names.KEY_RESOURCE_QOS: "ResourceQOSStrategy",
}


@dataclass(frozen=True, slots=True)
class BoundProblem:
    """A number that is out of bounds: where it stands, what it is, what would be allowed."""

    path: str
    number: float
    allowed: str


def bound_problems(key: str, merged: Fragment, stated: Fragment) -> Iterator[BoundProblem]:
    """What is out of bounds. Only what is stated here is judged, against the merged value: a default is never at
    fault, and the cluster's strategy is judged once."""
    bounds = BOUNDS.get(key)
    if bounds is None:
        return
    for path, (lowest, highest) in bounds.ranges.items():
        number = _at(stated, path)
        if number is None:
            continue
        too_low = lowest is not None and (number <= lowest if path in bounds.open_below else number < lowest)
        if too_low or (highest is not None and number > highest):
            yield BoundProblem(path, number, f"allowed: {_in_words(bounds, path)}")
    for upper, lower in bounds.pairs:
        high, low = _at(merged, upper), _at(merged, lower)
        is_stated = _at(stated, upper) is not None or _at(stated, lower) is not None
        if is_stated and high is not None and low is not None and high <= low:
            name = lower.rpartition(".")[2]
            yield BoundProblem(upper, high, f"must be larger than {name}, which is {low:g}")


def bound_errors(key: str, merged: Fragment, stated: Fragment) -> dict[str, str]:
    """The problems as admission shows them: `Type.path` to a sentence."""
    return {
        f"{_KINDS[key]}.{problem.path}": f"is {problem.number:g}: {problem.allowed}"
        for problem in bound_problems(key, merged, stated)
    }


def refuse_out_of_bounds(key: str, merged: Fragment, stated: Fragment, object_ref: str, path: str = "") -> None:
    """Raises InvalidInput for the first problem. path: where the fragment stands in its document."""
    for problem in bound_problems(key, merged, stated):
        field = f"{path}.{problem.path}" if path else problem.path
        number = int(problem.number) if problem.number.is_integer() else problem.number
        raise InvalidInput(object_ref, field, number, problem.allowed.removeprefix("allowed: "))


def _at(fragment: Fragment, path: str) -> float | None:
    value: Any = fragment
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return float(value)


def _in_words(bounds: Bounds, path: str) -> str:
    lowest, highest = bounds.ranges[path]
    if path in bounds.open_below:
        return f"above {lowest:g}, at most {highest:g}"
    return f"{lowest:g} to {highest:g}" if highest is not None else f"{lowest:g} or above"
