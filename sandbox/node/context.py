"""What the parts of a real node share: the node's own facts and, for each pod, where it lives and logs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from koord.kube.events import EventType
from sandbox.node import model
from sandbox.node.confinement import Confinement
from sandbox.node.environment import Surroundings
from sandbox.node.kubelet_rules import PodCgroup
from sandbox.node.leftovers import Journal

Emit = Callable[[model.Pod, EventType, str, str], None]
"""Records an event about a pod: (pod, type, reason, message)."""


@dataclass(frozen=True)
class NodeContext:
    """What every pod of the node shares. `run_id`: the mark in its processes' environment."""

    run_id: str
    journal: Journal
    confinement: Confinement
    memory_capacity_bytes: int
    emit: Emit


@dataclass(frozen=True)
class PodContext:
    """One pod's place: its cgroup, its directory of logs, and what it can learn of the node."""

    node: NodeContext
    cgroup: PodCgroup
    surroundings: Surroundings
    log_directory: Path
