"""Reading `slo-controller-config`: typed fragments, layering, keeping the last good value of each key. Pure."""
