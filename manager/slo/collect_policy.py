"""The NodeMetric spec of one node: how its agent measures and how often it reports."""

from koord.slo_config.resolve import Resolved
from koord.slo_config.schema import Fragment
from koord.slo_config.strategy import DEFAULTS, problem_with


def collect_policy(resolved: Resolved) -> Fragment:
    """spec.metricCollectPolicy for the node.

    The built-in policy while colocation is off for the node, or when its annotation made the strategy unusable.
    No floor is put under the intervals: the agent has its own.
    """
    usable = resolved.enabled and not problem_with(resolved.effective)
    strategy = resolved.effective if usable else DEFAULTS
    return {
        "aggregateDurationSeconds": strategy["metricAggregateDurationSeconds"],
        "reportIntervalSeconds": strategy["metricReportIntervalSeconds"],
        "nodeAggregatePolicy": {"durations": strategy["metricAggregatePolicy"]["durations"]},
        "nodeMemoryCollectPolicy": strategy["metricMemoryCollectPolicy"],
    }
