"""Reports for a simulated node what koordlet reports for a real one: made-up usage, so that the loop can be seen.

Only where this machine cannot be the node. The usage is a steady fifth of the node's CPU and memory.
"""

import asyncio
import time
from typing import Any

from koord.api import objects, quantity
from koord.api.timestamps import format_rfc3339
from koord.kube import resources
from koord.kube.errors import ApiError
from sandbox.demo.cluster_view import ClusterView

PERIOD_S = 2.0
USED_PART = 5


def report(node: objects.Node, now_s: float) -> dict[str, Any]:
    """The NodeMetric status of a node of that size, a fifth of it in use. Pure."""
    usage = {
        name: quantity.format_nano(quantity.nano(amount) // USED_PART)
        for name, amount in node.status.capacity.items()
        if name in ("cpu", "memory")
    }
    return {"updateTime": format_rfc3339(now_s), "nodeMetric": {"nodeUsage": {"resources": usage}}, "podsMetric": []}


async def keep_reporting(view: ClusterView) -> None:
    """Report for every node until cancelled; what cannot be written yet is tried again with the next report."""
    while True:
        for node in view.nodes_store.values():
            body = {"status": report(node, time.time())}
            try:
                await view.client.patch(resources.NODE_METRICS, node.metadata.name, body, subresource="status")
            except ApiError:
                continue
        await asyncio.sleep(PERIOD_S)
