"""The small cluster with all lifecycle loops."""

from typing import Any

import pytest

from sandbox.lifecycle.loops import LifecycleLoops


@pytest.fixture
async def cluster(small_cluster: Any) -> Any:
    """Loops that are listening."""
    loops = LifecycleLoops(small_cluster.client, small_cluster.storage, small_cluster.kinds, node_gone_grace_s=0.2)
    small_cluster.background(loops.run())
    return small_cluster
