"""How fast the manager decides: per report, per pod, and for a whole cluster at once.

    python -m bench.manager [--nodes 5000] [--pods-per-node 30] [--json]

Everything is real but the network: reports are decoded from JSON as a watch delivers them, derived, decided and
judged. Times are cpu seconds of this process, so that a busy machine does not blur them. Budgets
(docs/resource-model.md): 200 us per report, 2 s per full recomputation of 5,000 nodes with 150,000 pods, 1 GB of
memory. Exit code 1 when one is missed.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from koord.api.objects import Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import format_rfc3339
from koord.kube.changes import Change
from koord.slo_config import loading
from manager.control import garbage
from manager.control.node_resources import NodeResources
from manager.control.observations import Observations
from manager.control.strategies import Strategies

T = TypeVar("T")
OBJECT_REF = "ConfigMap/koordinator-system/slo-controller-config"
BUDGET_REPORT_US = 200.0
BUDGET_RECOMPUTE_S = 2.0
BUDGET_RSS_MB = 1024.0


class Feed(Generic[T]):
    """Stands where a watching store does: takes changes, keeps the newest object, tells subscribers."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], T] = {}
        self._subscribers: list[Callable[[Change[T]], None]] = []

    @property
    def statistics(self) -> Any:
        return self

    synced = True

    def subscribe(self, callback: Callable[[Change[T]], None]) -> None:
        self._subscribers.append(callback)

    def get(self, name: str, namespace: str = "") -> T | None:
        return self.objects.get((namespace, name))

    def values(self) -> list[T]:
        return list(self.objects.values())

    def put(self, new: Any) -> None:
        key = (new.metadata.namespace, new.metadata.name)
        old = self.objects.get(key)
        self.objects[key] = new
        change = Change[T]("added" if old is None else "updated", old, new)
        for subscriber in self._subscribers:
            subscriber(change)


def node_text(number: int) -> bytes:
    amounts = {"cpu": "64", "memory": "263856000Ki", "pods": "110", "ephemeral-storage": "1Ti"}
    labels = {f"label-{index}": f"value-{number % (index + 2)}" for index in range(12)}
    document = {
        "metadata": {"name": f"node-{number}", "labels": labels, "resourceVersion": "1"},
        "status": {"capacity": amounts, "allocatable": {**amounts, "cpu": "62500m"}},
    }
    return json.dumps(document).encode()


def pod_text(node: int, number: int, draw: random.Random) -> bytes:
    batch = number % 3 == 0
    names = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory") if batch else ("cpu", "memory")
    requests = dict(zip(names, (str(draw.randrange(100, 4000)) + "m" * (not batch), "2Gi"), strict=True))
    document = {
        "metadata": {
            "name": f"pod-{node}-{number}",
            "namespace": f"team-{number % 7}",
            "labels": {"koordinator.sh/qosClass": "BE" if batch else "LS", "app": "web"},
        },
        "spec": {
            "nodeName": f"node-{node}",
            "priority": 5500 if batch else 9500,
            "containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}],
        },
        "status": {"phase": "Running", "qosClass": "BestEffort" if batch else "Burstable"},
    }
    return json.dumps(document).encode()


def report_text(node: int, pods: int, draw: random.Random, updated_s: float) -> bytes:
    def use(cpu_milli: int, memory: int) -> dict[str, Any]:
        return {"resources": {"cpu": f"{draw.randrange(1, cpu_milli)}m", "memory": f"{draw.randrange(1, memory)}"}}

    windows = [
        {"duration": duration, "usage": {name: use(40000, 2**37) for name in ("avg", "p50", "p90", "p95", "p99")}}
        for duration in ("5m0s", "10m0s", "30m0s")
    ]
    document = {
        "metadata": {"name": f"node-{node}", "resourceVersion": str(draw.randrange(10**9))},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": format_rfc3339(updated_s),
            "nodeMetric": {
                "nodeUsage": use(40000, 2**37),
                "systemUsage": use(2000, 2**33),
                "aggregatedNodeUsages": windows,
                "aggregatedSystemUsages": windows,
            },
            "podsMetric": [
                {
                    "namespace": f"team-{number % 7}",
                    "name": f"pod-{node}-{number}",
                    "podUsage": use(1000, 2**31),
                    "priority": "koord-batch" if number % 3 == 0 else "koord-prod",
                    "qos": "LS",
                }
                for number in range(pods)
            ],
        },
    }
    return json.dumps(document).encode()


class Cluster:
    """The manager's own parts over feeds instead of watches."""

    def __init__(self, nodes: int, pods_per_node: int, draw: random.Random) -> None:
        self.nodes = nodes
        self.woken = 0
        self.node_feed, self.pod_feed, self.reports = Feed[Node](), Feed[Pod](), Feed[NodeMetric]()
        stores: Any = (self.node_feed, self.pod_feed, self.reports, Feed(), Feed())
        self.observations = Observations(*stores, self._wake)
        self.load({"colocation-config": '{"enable": true}'})
        unused: Any = None  # deciding never writes
        self.resources = NodeResources(
            unused, self.observations, lambda: self.configuration, Strategies(), unused, unused
        )
        decode_node, decode_pod = msgspec.json.Decoder(Node).decode, msgspec.json.Decoder(Pod).decode
        for node in range(nodes):
            self.node_feed.put(decode_node(node_text(node)))
            for number in range(pods_per_node):
                self.pod_feed.put(decode_pod(pod_text(node, number, draw)))

    def load(self, data: dict[str, str]) -> None:
        self.configuration = loading.load(None, data, OBJECT_REF)

    def _wake(self, _name: str) -> None:
        self.woken += 1


def measure(nodes: int, pods_per_node: int) -> dict[str, float]:
    garbage.collect_rarely()
    draw = random.Random(7)
    started = time.process_time()
    cluster = Cluster(nodes, pods_per_node, draw)
    ingest_s = time.process_time() - started
    now_s = time.time()
    texts = [report_text(node, pods_per_node, draw, now_s) for node in range(nodes)]
    decode = msgspec.json.Decoder(NodeMetric).decode
    for text in texts:
        cluster.reports.put(decode(text))

    garbage.spare_what_exists()
    sample = [report_text(node, pods_per_node, draw, now_s - 1) for node in range(min(nodes, 2000))]
    started = time.process_time()
    for node, text in enumerate(sample):
        cluster.reports.put(decode(text))
        cluster.resources.decide(f"node-{node}")
    report_us = (time.process_time() - started) / len(sample) * 1e6

    cluster.load({"colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 70}'})
    started = time.process_time()
    for node in range(nodes):
        cluster.resources.decide(f"node-{node}")
    recompute_s = time.process_time() - started
    return {
        "ingest_s": ingest_s,
        "report_us": report_us,
        "recompute_s": recompute_s,
        "recompute_us_per_node": recompute_s / nodes * 1e6,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the manager's decisions.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    found = measure(flags.nodes, flags.pods_per_node)
    if flags.json:
        print(json.dumps(found))
    else:
        print(f"nodes {flags.nodes}, pods {flags.nodes * flags.pods_per_node}")
        print(f"taking in nodes and pods   {found['ingest_s']:8.2f} s")
        print(f"one report, decided        {found['report_us']:8.0f} us   (budget {BUDGET_REPORT_US:.0f})")
        print(f"all nodes, decided again   {found['recompute_s']:8.2f} s    (budget {BUDGET_RECOMPUTE_S:.0f})")
        print(f"memory, at most            {found['rss_mb']:8.0f} MB   (budget {BUDGET_RSS_MB:.0f})")
    within = (
        found["report_us"] <= BUDGET_REPORT_US
        and found["recompute_s"] <= BUDGET_RECOMPUTE_S * max(1.0, flags.nodes / 5000)
        and found["rss_mb"] <= BUDGET_RSS_MB
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
