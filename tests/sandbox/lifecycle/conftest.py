"""The small cluster with all lifecycle loops."""

from typing import Any

import pytest

from koord.kube.resources import NODES
from sandbox.lifecycle.loops import LifecycleLoops


@pytest.fixture
async def cluster(small_cluster: Any) -> Any:
    """Loops that are listening, and the kubelet's node, without which its pods would be collected."""
    await small_cluster.client.create(NODES, {"metadata": {"name": "node-1"}})
    loops = LifecycleLoops(small_cluster.client, small_cluster.storage, small_cluster.kinds, node_gone_grace_s=0.2)
    small_cluster.background(loops.run())
    return small_cluster
