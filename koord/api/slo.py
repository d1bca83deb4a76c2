"""slo.koordinator.sh/v1alpha1: what nodes report (NodeMetric) and what they are told (NodeSLO); colocation-config.

Units: ResourceMap.resources holds quantities, cpu in cores and memory in bytes. Percent fields are 0-100 of node
capacity. An absent optional field is None, which the merges treat as "not stated".
"""

import msgspec

from koord.api.objects import JsonObject, ObjectMeta, ResourceList, Struct
from koord.api.selectors import LabelSelector


class ResourceMap(Struct, frozen=True):
    """Amounts per resource name."""

    resources: ResourceList = {}


class AggregatedUsage(Struct, frozen=True):
    """Percentiles over one window; keys avg, p50, p90, p95, p99. Empty while the window is too little sampled."""

    usage: dict[str, ResourceMap] = {}
    duration: str = ""


class NodeMetricInfo(Struct, frozen=True):
    """Usage of the node and of what runs outside pods."""

    node_usage: ResourceMap = ResourceMap()
    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    system_usage: ResourceMap | None = None
    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()


class PodMetricInfo(Struct, frozen=True):
    """Average usage of one pod over the aggregate window."""

    name: str = ""
    namespace: str = ""
    pod_usage: ResourceMap = ResourceMap()
    priority: str = ""
    qos: str = ""


class HostApplicationMetricInfo(Struct, frozen=True):
    """Usage of a process group outside Kubernetes that the operator declared."""

    name: str = ""
    usage: ResourceMap = ResourceMap()
    priority: str = ""
    qos: str = ""


class ProdReclaimableMetric(Struct, frozen=True):
    """An amount that the agent predicts: what production pods requested and will not need (prodReclaimableMetric),
    or what production and system will need at their peak (prodPeakMetric)."""

    resource: ResourceMap = ResourceMap()


class NodeMetricStatus(Struct, frozen=True):
    """The report; `update_time` is the agent's clock, None before the first report."""

    update_time: str | None = None
    node_metric: NodeMetricInfo | None = None
    pods_metric: tuple[PodMetricInfo, ...] = ()
    host_application_metric: tuple[HostApplicationMetricInfo, ...] = ()
    prod_reclaimable_metric: ProdReclaimableMetric | None = None
    prod_peak_metric: ProdReclaimableMetric | None = None


class AggregatePolicy(Struct, frozen=True):
    """Windows of the percentiles as Go durations ("5m0s")."""

    durations: tuple[str, ...] | None = None


class MetricCollectPolicy(Struct, frozen=True):
    """How the agent measures and reports; None takes the agent's default."""

    aggregate_duration_seconds: int | None = None
    report_interval_seconds: int | None = None
    node_aggregate_policy: AggregatePolicy | None = None
    node_memory_collect_policy: str | None = None


class NodeMetricSpec(Struct, frozen=True):
    """What the manager asks the agent for."""

    metric_collect_policy: MetricCollectPolicy | None = None


class NodeMetric(Struct, frozen=True):
    """One per node, named like it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeMetricSpec = NodeMetricSpec()
    status: NodeMetricStatus = NodeMetricStatus()


class ResourceThresholdStrategy(Struct, frozen=True):
    """spec.resourceUsedThresholdWithBE: when BE is suppressed or evicted. Percents are of node capacity."""

    enable: bool | None = None
    cpu_suppress_threshold_percent: int | None = None
    cpu_suppress_min_percent: int | None = None
    cpu_suppress_policy: str | None = None
    memory_evict_threshold_percent: int | None = None
    memory_evict_lower_percent: int | None = None
    memory_allocatable_evict_threshold_percent: int | None = None
    memory_allocatable_evict_lower_percent: int | None = None
    cpu_evict_be_satisfaction_upper_percent: int | None = msgspec.field(
        name="cpuEvictBESatisfactionUpperPercent", default=None
    )
    cpu_evict_be_satisfaction_lower_percent: int | None = msgspec.field(
        name="cpuEvictBESatisfactionLowerPercent", default=None
    )
    cpu_evict_be_usage_threshold_percent: int | None = msgspec.field(
        name="cpuEvictBEUsageThresholdPercent", default=None
    )
    cpu_evict_time_window_seconds: int | None = None
    cpu_evict_threshold_percent: int | None = None
    cpu_evict_lower_percent: int | None = None
    cpu_allocatable_evict_threshold_percent: int | None = None
    cpu_allocatable_evict_lower_percent: int | None = None
    cpu_evict_policy: str | None = None
    evict_enabled_priority_threshold: int | None = None
    allocatable_evict_priority_threshold: int | None = None


class NodeSLOSpec(Struct, frozen=True):
    """What the node agent is told; the blocks that Koord does not read typed stay raw objects."""

    resource_used_threshold_with_be: ResourceThresholdStrategy | None = msgspec.field(
        name="resourceUsedThresholdWithBE", default=None
    )
    resource_qos_strategy: JsonObject | None = msgspec.field(name="resourceQOSStrategy", default=None)
    cpu_burst_strategy: JsonObject | None = None
    system_strategy: JsonObject | None = None
    host_applications: tuple[JsonObject, ...] | None = None
    extensions: JsonObject | None = None


class NodeSLO(Struct, frozen=True):
    """One per node, named like it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSLOSpec = NodeSLOSpec()


class ColocationStrategy(Struct, frozen=True):
    """One fragment of colocation-config; None means not stated, and the merge takes the layer below."""

    enable: bool | None = None
    metric_aggregate_duration_seconds: int | None = None
    metric_report_interval_seconds: int | None = None
    metric_aggregate_policy: AggregatePolicy | None = None
    metric_memory_collect_policy: str | None = None
    cpu_reclaim_threshold_percent: int | None = None
    cpu_calculate_policy: str | None = None
    memory_reclaim_threshold_percent: int | None = None
    memory_calculate_policy: str | None = None
    degrade_time_minutes: int | None = None
    update_time_threshold_seconds: int | None = None
    resource_diff_threshold: float | None = None
    mid_reclaim_mode: str | None = None
    mid_cpu_threshold_percent: int | None = msgspec.field(name="midCPUThresholdPercent", default=None)
    mid_memory_threshold_percent: int | None = None
    mid_unallocated_percent: int | None = None
    mid_static_cpu_reserved_percent: int | None = msgspec.field(name="midStaticCPUReservedPercent", default=None)
    mid_static_memory_reserved_percent: int | None = None
    batch_cpu_threshold_percent: int | None = msgspec.field(name="batchCPUThresholdPercent", default=None)
    batch_memory_threshold_percent: int | None = None
    extensions: JsonObject | None = None


class NodeColocationStrategy(ColocationStrategy, frozen=True):
    """An entry of nodeConfigs: a selector and the fields it overrides."""

    name: str = ""
    node_selector: LabelSelector | None = None


class ColocationConfig(ColocationStrategy, frozen=True):
    """The JSON under the key colocation-config."""

    node_configs: tuple[NodeColocationStrategy, ...] = ()
