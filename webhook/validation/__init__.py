"""What is refused, and why: pods, profiles, slo-controller-config, nodes. Pure."""
