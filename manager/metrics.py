"""The manager's numbers. Label values are closed sets, and node names for gauges that describe one node.

Gauges about nodes and about the cluster as a whole are made when they are asked for: see `control.fleet_metrics`.
"""

from prometheus_client import Counter, Gauge, Histogram

DECISIONS = Counter("koord_manager_decisions_total", "Decisions about node resources, by reason.", ["reason"])
NODES = Gauge("koord_manager_nodes", "Nodes by the reason of their last decision.", ["reason"])
WRITES = Counter(
    "koord_manager_writes_total",
    "Objects written, by kind and operation (create, patch, delete).",
    ["kind", "operation"],
)
FAILURES = Counter(
    "koord_manager_failures_total", "Decisions or writes that failed, by loop and error.", ["loop", "error"]
)
QUEUE_LENGTH = Gauge(
    "koord_manager_queue_length", "Nodes waiting for a decision, timers included, by loop.", ["loop"]
)
DECIDE_SECONDS = Histogram(
    "koord_manager_decide_seconds",
    "Time of one decision without its write, by loop.",
    ["loop"],
    buckets=(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.005, 0.02, 0.1),
)
LAST_SUCCESS = Gauge(
    "koord_manager_last_success_timestamp_seconds", "When a loop last finished a decision and its write.", ["loop"]
)
CONFIG_FAULT = Gauge(
    "koord_manager_config_fault", "1 while a key of slo-controller-config cannot be used, by key.", ["key"]
)
CONFIG_MISSING = Gauge("koord_manager_config_missing", "1 while slo-controller-config does not exist.")
RECORDED = Counter(
    "koord_manager_recorded_total", "Lines of the recording of decisions, by outcome (written, dropped).", ["outcome"]
)
