"""The agent's Prometheus metrics. Names with a Koordinator counterpart are Koordinator's."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

NODE_USED_CPU: Final = Gauge("koordlet_node_used_cpu_cores", "CPU in use on the node, in cores.", ["node"])
NODE_USED_MEMORY: Final = Gauge(
    "koordlet_node_used_memory_bytes", "Memory in use on the node without reclaimable cache, in bytes.", ["node"]
)
START_TIME: Final = Gauge("koordlet_start_time", "Start of the agent, seconds since the epoch.", ["node"])
BE_SUPPRESS_CPU: Final = Gauge(
    "koordlet_be_suppress_cpu_cores", "CPUs that best-effort work may use, in cores.", ["node", "type"]
)
BE_SUPPRESS_LS_USED: Final = Gauge(
    "koordlet_be_suppress_ls_used_cpu_cores", "CPU that production pods use, in cores.", ["node"]
)
BE_SUPPRESS_BE_USED: Final = Gauge(
    "koordlet_be_suppress_be_used_cpu_cores", "CPU that the best-effort group uses, in cores.", ["node"]
)
UPDATE_MILLISECONDS: Final = Histogram(
    "koordlet_resource_update_duration_milliseconds",
    "Time to bring control files to their values in one cycle, in milliseconds.",
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300),
)
CYCLE_SECONDS: Final = Histogram(
    "koordlet_cycle_duration_seconds",
    "Time one cycle took: measure, decide, apply.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1),
)
WRITES: Final = Counter("koordlet_control_file_writes_total", "Control files brought to another value.", ["owner"])
RESTORES: Final = Counter("koordlet_control_file_restores_total", "Control files given their original value back.")
WRITE_FAILURES: Final = Counter(
    "koordlet_control_file_failures_total", "Control files that refused a value.", ["knob"]
)
FOREIGN: Final = Counter(
    "koordlet_foreign_writes_total", "Control files of ours that somebody else had written.", ["owner"]
)
FAST_CUTS: Final = Counter("koordlet_fast_cuts_total", "Cuts of the quota between two cycles, on a step of load.")
STRATEGY_FAILURES: Final = Counter("koordlet_strategy_failures_total", "Cycles a strategy failed in.", ["strategy"])
STRATEGY_HEALTHY: Final = Gauge("koordlet_strategy_healthy", "1 while the strategy works, 0 while not.", ["strategy"])
SAMPLE_ERRORS: Final = Counter("koordlet_sample_errors_total", "Readings that failed.")
SAMPLE_AGE: Final = Gauge("koordlet_node_sample_age_seconds", "Age of the newest sample of the node.")
JOURNAL_ENTRIES: Final = Gauge("koordlet_journal_entries", "Control files that differ from their original now.")
LEAST_WEIGHT_RATIO: Final = Gauge(
    "koordlet_least_weight_ratio", "Weight of the weakest production pod over that of the best-effort group."
)
REPORTS: Final = Counter("koordlet_node_metric_reports_total", "NodeMetric reports by outcome.", ["outcome"])
