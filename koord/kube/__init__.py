"""Talking to a Kubernetes API server: connection, typed store, patches, eviction, leases, events."""
