"""What the node agent costs on a node full of pods, over real cgroups.

    python -m bench.koordlet [--pods 110] [--containers 2] [--seconds 20] [--json]

Makes the cgroups of that many pods (a fifth Guaranteed, two fifths Burstable, two fifths batch) under a parent of
its own, gives the agent facts about them with every strategy on, and measures cpu seconds of this process, so that
a busy machine does not blur them: one cycle, its parts, one turn of the fast path, and the two loops as they run.
The cgroups hold no processes, so that nothing but the agent is measured. Budgets (docs/koordlet.md): 1 % of a CPU,
80 MB resident. Exit code 1 when one is missed. Needs root.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import koordlet.__main__  # noqa: F401 - memory is measured with everything the process loads
from koord.api.priority import PriorityBand
from koord.api.qos import KubeQoS, QoSClass
from koordlet.agent import Agent
from koordlet.batch import BatchContainer
from koordlet.conditions import Conditions
from koordlet.node import open_executor, open_node
from koordlet.settings import parse
from koordlet.suppress.tick import Presence
from koordlet.sysfs.files import allow_many_files
from koordlet.sysfs.layout import Driver, Layout
from koordlet.sysfs.mounts import CgroupMounts, find_mounts
from koordlet.sysfs.proc import memory_of_process
from koordlet.views import NodeView, PodView, SuppressPolicy

BUDGET_CPU_PERCENT = 1.0
BUDGET_RSS_MB = 80.0
CLASSES = (
    (KubeQoS.GUARANTEED, QoSClass.LSR),
    (KubeQoS.BURSTABLE, QoSClass.LS),
    (KubeQoS.BEST_EFFORT, QoSClass.BE),
    (KubeQoS.BURSTABLE, QoSClass.LS),
    (KubeQoS.BEST_EFFORT, QoSClass.BE),
)


@dataclass
class Facts:
    """What the API server would have said."""

    known: dict[str, PodView] = field(default_factory=dict)
    node: NodeView | None = field(default_factory=lambda: NodeView(64_000, 64_000, 0, ""))
    slo: Presence = Presence.PRESENT
    policy: SuppressPolicy = field(default_factory=lambda: SuppressPolicy(True, 65, None, "cfsQuota"))

    def pods(self) -> list[PodView]:
        """All pods."""
        return list(self.known.values())

    def pod_of(self, cgroup_uid: str) -> PodView | None:
        """The pod of a cgroup."""
        return self.known.get(cgroup_uid)


def view(number: int, uid: str, containers: int) -> PodView:
    """One pod as the API knows it."""
    kube_qos, qos = CLASSES[number % len(CLASSES)]
    is_batch = qos is QoSClass.BE
    names = {f"{uid}-{index}": f"c{index}" for index in range(containers)}
    batch = {name: BatchContainer(name, 500, 1000, 1 << 30) for name in names.values()} if is_batch else {}
    band = PriorityBand.BATCH if is_batch else PriorityBand.PROD
    return PodView(uid, uid, "bench", uid, qos, qos, kube_qos, band, True, batch, names, "")


@contextlib.contextmanager
def node_of(pods: int, containers: int) -> Iterator[tuple[CgroupMounts, str, Facts]]:
    """Cgroups and facts of a full node; removes the cgroups."""
    mounts = find_mounts("/proc", "/sys/fs/cgroup")
    parent = f"koordlet-bench-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    layout, facts, groups = Layout(Driver.CGROUPFS, parent), Facts(), [parent]
    groups += [layout.class_dir(qos) for qos in KubeQoS]
    for number in range(pods):
        one = view(number, f"pod-{number:04d}", containers)
        facts.known[one.uid] = one
        groups.append(layout.pod_dir(one.kube_qos, one.uid))
        groups += [f"{groups[-1]}/{container}" for container in one.container_names]
    roots = {mounts.of(name).root for name in ("cpu", "cpuacct", "cpuset", "memory")}
    made: list[Path] = []
    try:
        for group in groups:
            for root in roots:
                path = Path(root, group)
                path.mkdir()
                made.append(path)
        yield mounts, parent, facts
    finally:
        for path in reversed(made):
            path.rmdir()


def cpu_ms(work: Callable[[], object], times: int) -> float:
    """Median cpu milliseconds of one call."""
    found = []
    for _ in range(times):
        began = time.process_time_ns()
        work()
        found.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(found)


async def loops_percent(agent: Agent, seconds: float) -> float:
    """Percent of one CPU that both loops take as they run."""
    tasks = [asyncio.create_task(agent.run_cycles()), asyncio.create_task(agent.run_fast())]
    await asyncio.sleep(1)
    began_cpu, began = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    percent = 100 * (time.process_time() - began_cpu) / (time.monotonic() - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return percent


def measure(pods: int, containers: int, seconds: float) -> dict[str, float]:
    """All figures for one size of node."""
    with node_of(pods, containers) as (mounts, parent, facts), tempfile.TemporaryDirectory() as state:
        settings = parse(["--cgroup-parent", parent, "--state-dir", state])
        executor = open_executor(settings, mounts)
        node = open_node(settings, mounts, executor)
        agent = Agent(settings, node, facts, Conditions())
        found: dict[str, float] = {"pods": pods, "containers": pods * containers}
        began = time.process_time()
        agent.cycle(time.monotonic())
        found["first_cycle_ms"] = 1000 * (time.process_time() - began)
        for _ in range(30):  # past the turns of memory and of files that are verified now and then
            agent.cycle(time.monotonic())
        found["cycle_ms"] = cpu_ms(lambda: agent.cycle(time.monotonic()), 60)
        found["discovery_ms"] = cpu_ms(node.discovery.refresh, 30)
        groups = node.discovery.refresh()
        best_effort = node.layout.class_dir(KubeQoS.BEST_EFFORT)
        found["sampling_ms"] = cpu_ms(lambda: node.sampler.sample(time.monotonic(), groups, best_effort), 60)
        found["fast_turn_ms"] = cpu_ms(lambda: agent.look(time.monotonic()), 300)
        found["loops_percent"] = asyncio.run(loops_percent(agent, seconds))
        found["files_owned"] = len(executor.journal.entries)
        found["rss_mb"] = memory_of_process() / 2**20
        executor.restore_all()
        executor.journal.close()
        node.close()
        return found


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="What the node agent costs.")
    parser.add_argument("--pods", type=int, action="append", help="pods on the node (110); repeatable")
    parser.add_argument("--containers", type=int, default=2, help="containers in each pod")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to run the loops")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, to make cgroups")
    allow_many_files()
    results = [measure(pods, arguments.containers, arguments.seconds) for pods in arguments.pods or [110]]
    if arguments.json:
        print(json.dumps(results))
    else:
        for name in results[0]:
            print(f"{name:16}" + "".join(f"{result[name]:12.2f}" for result in results))
    full = results[0]
    missed = [
        f"{name} {full[name]:.2f} > {budget}"
        for name, budget in (("loops_percent", BUDGET_CPU_PERCENT), ("rss_mb", BUDGET_RSS_MB))
        if full["pods"] <= 110 and full[name] > budget
    ]
    for text in missed:
        print(f"over budget: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
