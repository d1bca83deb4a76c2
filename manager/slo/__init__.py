"""What each node's agent is told: NodeSLO and NodeMetric specs, rendered from the configuration. Pure."""
