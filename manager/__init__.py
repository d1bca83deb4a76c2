"""The manager: turns reports of use into batch resources on nodes, and configuration into NodeSLO objects.

`config` reads the ConfigMap, `overcommit` and `slo` decide (pure), `control` watches and writes.
"""
