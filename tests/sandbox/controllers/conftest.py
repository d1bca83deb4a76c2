"""The small cluster with all workload controllers."""

from typing import Any

import pytest

from sandbox.controllers.workloads import WorkloadControllers


@pytest.fixture
async def cluster(small_cluster: Any) -> Any:
    """Controllers that have seen everything and wait for changes."""
    controllers = WorkloadControllers(small_cluster.client)
    small_cluster.background(controllers.run())
    await controllers.wait_ready()
    return small_cluster
