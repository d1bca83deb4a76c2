"""Workload controllers, written as ordinary clients of the API server."""
