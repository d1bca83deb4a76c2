"""This machine as a node: opens the run, claims cgroups, registers, runs pods, and leaves nothing behind."""

import asyncio
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from koord.api import names
from koord.api.objects import ResourceList
from koord.kube.events import EventRecorder, EventType, reference
from koord.kube.store import Store
from sandbox.node import addresses, kubelet_rules, machine, model, mounts, registration
from sandbox.node.agent import NodeAgent
from sandbox.node.cgroups import CgroupsUnavailable, CgroupTree, find_hierarchies
from sandbox.node.confinement import CgroupConfinement, Confinement, MarkConfinement
from sandbox.node.container_logs import ContainerLogs, keep_logs_short
from sandbox.node.context import NodeContext
from sandbox.node.registration import CONDITION_CGROUPS, NodeDescription
from sandbox.node.run import Run
from sandbox.node.status_writer import StatusWriter

log = logging.getLogger("koord.sandbox.node")

LOG_DIRECTORY = "pods"


@dataclass(frozen=True)
class RealNodeOptions:
    """name: of the node object. cgroup_parent: below every mount. proc_root: of the facts, not of processes."""

    name: str
    cgroup_parent: PurePosixPath
    state_dir: Path
    proc_root: Path = machine.PROC


class RealNode:
    """The node of this machine. Order of use: `open`, `start`, `run`, `end_pods`, `close`."""

    def __init__(
        self, options: RealNodeOptions, run: Run, facts: machine.Machine, confinement: Confinement, unconfined: str
    ) -> None:
        self.name = options.name
        self.unconfined_because = unconfined
        """Why pods run without cgroups; empty when they run in cgroups."""
        self._cgroup_parent = options.cgroup_parent
        self._run = run
        self._facts = facts
        self._confinement = confinement
        self._agent: NodeAgent | None = None
        self.logs = ContainerLogs(run.directory / LOG_DIRECTORY, self._is_running)

    @classmethod
    async def open(cls, options: RealNodeOptions) -> "RealNode":
        """Begin a run and claim its cgroups; without them the node works unconfined and says so.

        Raises RunIsAlive, CgroupParentTaken, OSError.
        """
        return await asyncio.to_thread(cls._open, options)

    @classmethod
    def _open(cls, options: RealNodeOptions) -> "RealNode":
        facts = machine.read_machine(options.proc_root)
        run = Run.open(options.state_dir, str(options.cgroup_parent))
        try:
            confinement, reason = _claim(options, run, facts)
        except BaseException:
            run.close()
            raise
        return cls(options, run, facts, confinement, reason)

    def describe(self) -> NodeDescription:
        """The node object."""
        capacity, info = registration.describe_machine(self._facts)
        disk = shutil.disk_usage(self._run.directory).total
        confined = not self.unconfined_because
        condition = {
            "type": CONDITION_CGROUPS,
            "status": "True" if confined else "False",
            "reason": "Confined" if confined else "Unavailable",
            "message": self.unconfined_because or f"pods run in cgroups below {self._cgroup_parent}",
        }
        return NodeDescription(
            self.name,
            addresses.HOST_ADDRESS,
            {**capacity, "ephemeral-storage": f"{disk // 1024}Ki"},
            info,
            {model.ANNOTATION_CGROUP_PARENT: str(self._cgroup_parent)} if confined else {},
            [condition],
        )

    def start(self, pods: Store[model.Pod], writer: StatusWriter, events: EventRecorder) -> None:
        """Run the pods of the store that are bound to this node."""

        def emit(pod: model.Pod, kind: EventType, reason: str, message: str) -> None:
            events.emit(reference(model.PODS, pod), kind, reason, message)

        memory = self._facts.memory_bytes
        context = NodeContext(self._run.id, self._run.journal, self._confinement, memory, emit)
        allocatable: ResourceList = {names.CPU: self._facts.cpus, names.MEMORY: memory}
        root = self._run.directory / LOG_DIRECTORY
        self._agent = NodeAgent(self.name, context, writer, root, allocatable, os.environ)
        self._agent.follow(pods)

    async def run(self) -> None:
        """Look after the node's files, for ever."""
        await keep_logs_short(self._run.directory / LOG_DIRECTORY)

    async def end_pods(self, grace_s: float) -> None:
        """End all pods within `grace_s` seconds and take no new ones."""
        if self._agent is not None:
            await self._agent.stop(grace_s)

    async def close(self) -> None:
        """Leave the machine as it was: no process, no cgroup, no file of the run is left."""
        await asyncio.to_thread(self._run.close)

    def _is_running(self, uid: str, container: str) -> bool:
        return self._agent is not None and self._agent.is_running(uid, container)


def _claim(options: RealNodeOptions, run: Run, facts: machine.Machine) -> tuple[Confinement, str]:
    """Cgroups for the node, or the reason why there are none. Raises CgroupParentTaken."""
    try:
        found = find_hierarchies(mounts.read_mounts(options.proc_root))
        tree = CgroupTree(found, options.cgroup_parent)
        tree.claim(run.journal.cgroup)
        confinement = CgroupConfinement(tree)
        shares = kubelet_rules.milli_to_shares(facts.cpus * 1000)
        confinement.prepare(kubelet_rules.CgroupSettings(shares, None, facts.memory_bytes))
    except (CgroupsUnavailable, OSError) as error:
        log.warning("pods run without cgroups", extra={"reason": str(error)})
        return MarkConfinement(), str(error)
    return confinement, ""
