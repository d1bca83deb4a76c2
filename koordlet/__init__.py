"""The node agent: measures the node, keeps best-effort work out of the way of services, reports what is used.

`koordlet.sysfs` is the only place that knows /proc and /sys; `suppress`, `weights` and `batch` decide without
any I/O; `agent` runs observe, decide, apply once a cycle.
"""
