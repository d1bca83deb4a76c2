"""Where the rows of `koordctl top` are from: a cluster that is watched, or files."""

import asyncio
import shutil
import time
from collections.abc import Callable

import click

from koord.api.objects import Pod
from koord.api.quantity import InvalidQuantity
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.errors import ApiError
from koord.kube.resources import DEVICES, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from koord.kube.store import Store
from koordctl.colocation_objects import ColocationObjects
from koordctl.usage_rows import NodeRow, Rows, cluster_rows, node_row
from manager.control.observations import Observations
from manager.overcommit import node_facts, pod_share
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import read_report

Show = Callable[[Rows, float, int | None], None]
FIRST_LIST_S = 60.0
_OTHER_LINES = 12
"""Lines of the terminal that are not nodes: the classes' table, headers, a prompt."""


def rows_of_dump(found: ColocationObjects, now_s: float) -> Rows:
    """The rows of objects read from files; a node that cannot be read is left out and noted."""
    on_node: dict[str, list[PodShare]] = {}
    for pod in found.pods:
        share = pod_share.derive(pod)
        on_node.setdefault(share.node, []).append(share)
    rows: list[NodeRow] = []
    for name, node in found.nodes.items():
        metric = found.metrics.get(name)
        try:
            facts = node_facts.derive(node)
        except InvalidQuantity as error:
            click.echo(f"Node/{name}: {error}; it is left out", err=True)
            continue
        report = None if metric is None else read_report(metric, now_s)
        rows.append(node_row(facts, on_node.get(name, ()), report, now_s))
    return cluster_rows(rows, [share for share in on_node.get("", ()) if share.counted])


async def follow(
    kubeconfig: str | None, context: str | None, show: Show, interval_s: float | None, *, clears: bool
) -> None:
    """Watch and show: once when `interval_s` is None, else again and again. Raises ApiError and AccessError."""
    async with await connect(kubeconfig, context, user_agent="koordctl") as client:
        stores, observations = _watched(client)
        tasks = [asyncio.create_task(store.run()) for store in stores]
        try:
            await _first_lists(stores)
            while True:
                rows = _rows(observations, stores[1])
                if clears:
                    click.clear()
                show(rows, time.time(), _lines_left() if interval_s is not None else None)
                if interval_s is None:
                    return
                await asyncio.sleep(interval_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _watched(client: Client) -> tuple[tuple[Store[object], Store[Pod], Store[object]], Observations]:
    nodes, metrics = Store(client, NODES), Store(client, NODE_METRICS)
    pods = Store(client, PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
    # Neither topologies nor devices are shown: their stores stay empty.
    unused = Store(client, NODE_RESOURCE_TOPOLOGIES), Store(client, DEVICES)
    observations = Observations(nodes, pods, metrics, *unused, lambda _: None)
    return (nodes, pods, metrics), observations  # type: ignore[return-value]


async def _first_lists(stores: tuple[Store[object], Store[Pod], Store[object]]) -> None:
    """Wait for the first listings. Raises ApiError when the server refuses one or does not answer."""
    nodes, pods, metrics = stores
    try:
        async with asyncio.timeout(FIRST_LIST_S):
            await asyncio.gather(nodes.wait_answered(), pods.wait_answered(), metrics.wait_answered())
    except TimeoutError:
        errors = [store.statistics.last_error for store in stores if store.statistics.last_error]
        raise ApiError(0, "Timeout", "; ".join(errors) or f"no listing within {FIRST_LIST_S:.0f} s") from None
    for store in (nodes, pods):
        if store.statistics.refused:
            raise ApiError(0, "Refused", store.statistics.last_error)
    if metrics.statistics.refused:
        click.echo(f"no reports: {metrics.statistics.last_error}", err=True)


def _rows(observations: Observations, pods: Store[Pod]) -> Rows:
    now_s = time.time()
    rows = []
    for name in observations.node_names():
        facts = observations.facts(name)
        if facts is not None:
            rows.append(node_row(facts, observations.pods_on(name), observations.report(name), now_s))
    waiting = [pod_share.derive(pod) for pod in pods.values() if not pod.spec.node_name]
    return cluster_rows(rows, [share for share in waiting if share.counted])


def _lines_left() -> int:
    return max(3, shutil.get_terminal_size().lines - _OTHER_LINES)
