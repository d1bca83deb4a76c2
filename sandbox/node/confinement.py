"""Where containers live and how all their processes are reached: in cgroups, or without them by a mark.

The waiting between killing and removing is here, so that cgroups.py stays synchronous.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Protocol

from koord.api.qos import KubeQoS
from sandbox.node import identity, kubelet_rules
from sandbox.node.cgroups import CgroupTree
from sandbox.node.kubelet_rules import CgroupSettings, PodCgroup

log = logging.getLogger("koord.sandbox.node")

REMOVE_DEADLINE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.2


class Confinement(Protocol):
    """The place of pods and containers on the node."""

    def add_pod(self, pod: PodCgroup) -> None:
        """Make the pod's place. Raises OSError."""

    def add_container(self, pod: PodCgroup, container_id: str, settings: CgroupSettings) -> list[str]:
        """Make the container's place; returns the files by which its process enters it. Raises OSError."""

    def oom_kills(self, pod: PodCgroup, container_id: str) -> int:
        """How many of the container's processes the kernel killed for want of memory."""

    async def end_container(self, pod: PodCgroup, container_id: str) -> None:
        """SIGKILL whatever lives in the container and remove its place; logs when that does not work."""

    async def remove_pod(self, pod: PodCgroup) -> None:
        """Remove the pod's place; its containers have ended."""


class CgroupConfinement:
    """Pods in cgroups. Keeps the weight of the burstable directory at the sum of its pods' requests."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._pods: dict[PurePosixPath, PodCgroup] = {}
        self._burstable_shares = 0

    def prepare(self, node: CgroupSettings) -> None:
        """Make kubepods and the directories of the classes. Raises OSError."""
        self._tree.weigh_parents(node.shares)
        self._tree.create(PurePosixPath(kubelet_rules.KUBEPODS), node)
        for kube_qos in (KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT):
            self._tree.create(kubelet_rules.qos_path(kube_qos), CgroupSettings())

    def add_pod(self, pod: PodCgroup) -> None:
        """See Confinement."""
        self._pods[pod.path] = pod
        self._weigh_burstable()
        self._tree.create(pod.path, pod.settings)

    def add_container(self, pod: PodCgroup, container_id: str, settings: CgroupSettings) -> list[str]:
        """See Confinement."""
        path = pod.path / container_id
        self._tree.create(path, settings, leaf=True)
        return self._tree.procs_files(path)

    def oom_kills(self, pod: PodCgroup, container_id: str) -> int:
        """See Confinement."""
        return self._tree.oom_kills(pod.path / container_id)

    async def end_container(self, pod: PodCgroup, container_id: str) -> None:
        """See Confinement."""
        await self._clear(pod.path / container_id)

    async def remove_pod(self, pod: PodCgroup) -> None:
        """See Confinement."""
        await self._clear(pod.path)
        if self._pods.pop(pod.path, None) is not None:
            self._weigh_burstable()

    def _weigh_burstable(self) -> None:
        shares = kubelet_rules.burstable_shares(self._pods.values())
        if shares != self._burstable_shares:
            self._burstable_shares = shares
            self._tree.apply(kubelet_rules.qos_path(KubeQoS.BURSTABLE), CgroupSettings(shares))

    async def _clear(self, path: PurePosixPath) -> None:
        for pause in _pauses():
            self._tree.kill(path)
            if self._tree.remove(path):
                return
            await asyncio.sleep(pause)
        log.error("a cgroup cannot be removed", extra={"cgroup": str(self._tree.parent / path)})


class MarkConfinement:
    """Pods without cgroups: processes are reached by the mark in their environment."""

    def add_pod(self, pod: PodCgroup) -> None:
        """See Confinement."""

    def add_container(self, pod: PodCgroup, container_id: str, settings: CgroupSettings) -> list[str]:
        """See Confinement."""
        return []

    def oom_kills(self, pod: PodCgroup, container_id: str) -> int:
        """See Confinement; unknown without cgroups."""
        return 0

    async def end_container(self, pod: PodCgroup, container_id: str) -> None:
        """See Confinement."""
        for pause in _pauses():
            if not identity.kill_marked(identity.CONTAINER_VARIABLE, container_id):
                return
            await asyncio.sleep(pause)
        log.error("a container's processes cannot be ended", extra={"container_id": container_id})

    async def remove_pod(self, pod: PodCgroup) -> None:
        """See Confinement."""


def _pauses() -> Iterable[float]:
    """Growing pauses whose sum is REMOVE_DEADLINE_S."""
    pause, total = FIRST_PAUSE_S, 0.0
    while total < REMOVE_DEADLINE_S:
        yield pause
        total += pause
        pause = min(2 * pause, LONGEST_PAUSE_S)
