"""A place for pods on this machine: real cgroups below a parent of the test's own, and proof that none is left."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest

from sandbox.node import cgroup_dirs, identity, kubelet_rules
from sandbox.node.cgroups import CgroupsUnavailable, CgroupTree, find_hierarchies
from sandbox.node.confinement import CgroupConfinement, Confinement, MarkConfinement
from sandbox.node.context import NodeContext, PodContext
from sandbox.node.environment import Surroundings
from sandbox.node.leftovers import Journal
from sandbox.node.model import Pod
from sandbox.node.mounts import read_mounts
from sandbox.node.worker import PodWorker

_NUMBERS = itertools.count()


@pytest.fixture
def tree() -> Iterator[CgroupTree]:
    """A claimed tree below a parent of its own; skipped where cgroups cannot be written."""
    parent = PurePosixPath(f"koord-test-{os.getpid()}-{next(_NUMBERS)}")
    claimed = CgroupTree(find_hierarchies(read_mounts(Path("/proc"))), parent)
    try:
        claimed.claim(lambda directory: None)
    except CgroupsUnavailable as error:
        pytest.skip(f"needs root and writable cgroups: {error}")
    yield claimed
    left = [str(h.root / parent) for h in claimed.hierarchies if cgroup_dirs.members(h.root / parent)]
    deadline = time.monotonic() + 5
    while not claimed.remove(PurePosixPath()) and time.monotonic() < deadline:
        claimed.kill(PurePosixPath())
        time.sleep(0.01)
    assert not left, f"processes are left in {left}"


@dataclass
class Place:
    """Runs pods without an API server and keeps what their workers say of them."""

    context: NodeContext
    root: Path
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    _workers: list[PodWorker] = field(default_factory=list)

    def start(self, name: str, container: dict[str, Any] | None = None, **spec: Any) -> PodWorker:
        """Start a pod of one container (or of what `spec` says)."""
        containers = [{"name": "main", **container}] if container is not None else []
        document = {
            "metadata": {"name": name, "namespace": "test", "uid": f"{name}-uid"},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": 5, **spec},
        }
        pod = msgspec.convert(document, Pod)
        around = Surroundings("here", "127.0.0.1", "127.0.0.1", {}, {"PATH": os.environ["PATH"]})
        context = PodContext(self.context, kubelet_rules.pod_cgroup(pod), around, self.root / "logs" / name)
        worker = PodWorker(pod, context, self._publish)
        self._workers.append(worker)
        self._tasks.append(asyncio.create_task(worker.run(), name=name))
        return worker

    async def _publish(self, pod: Pod, status: dict[str, Any]) -> None:
        self.statuses.setdefault(pod.metadata.name, []).append(status)
        self._changed.set()

    async def until(
        self, name: str, holds: Callable[[dict[str, Any]], bool], timeout_s: float = 15
    ) -> dict[str, Any]:
        """Wait for a status of the pod for which `holds`."""
        seen = 0
        async with asyncio.timeout(timeout_s):
            while True:
                self._changed.clear()
                known = self.statuses.get(name, [])
                for status in known[seen:]:
                    if holds(status):
                        return status
                seen = len(known)
                await self._changed.wait()

    async def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait for a phase."""
        return await self.until(name, lambda status: status["phase"] == phase)

    def log(self, name: str, container: str = "main", run: int = 0) -> str:
        """What a run of a container has written."""
        return (self.root / "logs" / name / container / f"{run}.log").read_text()

    async def until_logged(self, name: str, text: str) -> None:
        """Wait until the pod has written exactly `text`."""
        async with asyncio.timeout(10):
            while self.log(name) != text:  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.01)

    async def finish(self) -> None:
        """Wait for all pods to be over."""
        async with asyncio.timeout(15):
            await asyncio.gather(*self._tasks)


async def _open(root: Path, confinement: Confinement) -> AsyncIterator[Place]:
    run_id = f"test-{os.getpid()}-{next(_NUMBERS)}"
    events: list[tuple[str, str]] = []
    journal = Journal(root, run_id)

    def emit(pod: Pod, kind: str, reason: str, message: str) -> None:
        events.append((reason, message))

    place = Place(NodeContext(run_id, journal, confinement, 8 << 30, emit), root, events=events)
    yield place
    unfinished = [task.get_name() for task in place._tasks if not task.done()]
    for worker in place._workers:
        worker.stop(0)
    await place.finish()
    assert not unfinished, f"pods still ran: {unfinished}"
    journal.close()
    assert not list(identity.marked_pids(identity.RUN_VARIABLE, run_id))


@pytest.fixture
async def place(tree: CgroupTree, tmp_path: Path) -> AsyncIterator[Place]:
    """A node with cgroups."""
    confinement = CgroupConfinement(tree)
    confinement.prepare(kubelet_rules.CgroupSettings(2048, None, 4 << 30))
    async for opened in _open(tmp_path, confinement):
        yield opened


@pytest.fixture
async def unconfined_place(tmp_path: Path) -> AsyncIterator[Place]:
    """A node without cgroups."""
    async for opened in _open(tmp_path, MarkConfinement()):
        yield opened
