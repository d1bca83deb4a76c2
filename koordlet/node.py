"""This node's kernel side as one thing: found mounts and layout, the sampler, the executor and its journal."""

import logging
from dataclasses import dataclass

from koord.api.qos import KubeQoS
from koordlet.sampling.fast import FastSampler
from koordlet.sampling.sampler import Sampler, Windows
from koordlet.settings import Settings
from koordlet.suppress.cpuset import Cpu
from koordlet.sysfs.changes import Applied
from koordlet.sysfs.control import ControlFiles
from koordlet.sysfs.discovery import Discovery, find_layout
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.journal import Journal
from koordlet.sysfs.layout import Layout
from koordlet.sysfs.mounts import CgroupMounts, find_mounts
from koordlet.sysfs.proc import NodeFiles, boot_id, read_processors

logger = logging.getLogger("koord.koordlet.node")

LONGEST_WINDOW_S = 1800.0
"""Percentiles of the node over longer windows than twice this are never covered, and reported empty."""
POD_WINDOW_S = 900.0
"""Pods are averaged over this much at most."""


@dataclass
class KernelNode:
    """Opened by `open_node`; `close` lets go of every descriptor but leaves the control files as they are."""

    mounts: CgroupMounts
    layout: Layout
    discovery: Discovery
    sampler: Sampler
    fast: FastSampler
    executor: Executor
    files: NodeFiles
    processors: list[Cpu]

    def close(self) -> None:
        """Let go of every descriptor."""
        self.discovery.close()
        self.sampler.close()
        self.fast.close()
        self.files.close()


def open_executor(settings: Settings, mounts: CgroupMounts) -> Executor:
    """The writer with its journal. Raises JournalLocked, or OSError when the state directory cannot be used."""
    return Executor(ControlFiles(mounts), Journal(settings.state_dir, boot_id(settings.proc_root)))


def open_node(settings: Settings, mounts: CgroupMounts, executor: Executor) -> KernelNode:
    """Look around. Raises Unsupported while kubelet's cgroups are not there (yet)."""
    layout = find_layout(mounts, settings.cgroup_parent, settings.cgroup_driver)
    files = NodeFiles(settings.proc_root)
    windows = Windows(settings.cycle_s, LONGEST_WINDOW_S, POD_WINDOW_S)
    kube_root, best_effort = layout.class_dir(KubeQoS.GUARANTEED), layout.class_dir(KubeQoS.BEST_EFFORT)
    logger.info(
        "cgroups found",
        extra={"driver": str(layout.driver), "kube_root": kube_root, "cgroup_version": 2 if mounts.is_v2 else 1},
    )
    return KernelNode(
        mounts=mounts,
        layout=layout,
        discovery=Discovery(mounts, layout),
        sampler=Sampler(mounts, files, windows),
        fast=FastSampler(mounts, files, kube_root, best_effort),
        executor=executor,
        files=files,
        processors=online_cpus(settings.devices_root),
    )


def online_cpus(devices_root: str) -> list[Cpu]:
    """The CPUs that are online now."""
    return [Cpu(one.cpu, one.core, one.socket, one.numa) for one in read_processors(devices_root)]


def restore(settings: Settings) -> Applied:
    """Undo from the journal. Raises Unsupported, JournalLocked or OSError."""
    executor = open_executor(settings, find_mounts(settings.proc_root, settings.sys_root))
    try:
        return executor.restore_all()
    finally:
        executor.journal.close()
