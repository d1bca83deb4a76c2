"""What can be chosen about a sandbox cluster."""

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path

from koord.api import quantity
from sandbox.node import machine, run

MAX_SIMULATED_NODES = 10_000
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]+")


def default_node_name() -> str:
    """This machine's host name, as a legal node name."""
    name = _NOT_IN_A_NAME.sub("-", socket.gethostname().lower()).strip("-.")
    return name[:63] or "this-machine"


@dataclass(frozen=True)
class SandboxOptions:
    """Everything about one cluster.

    kubeconfig: file to write. port: 0 takes any free one. host_node: the name of this machine as a node, "" for
    none. simulated_*: how many nodes without a machine, each of that size (quantities). cgroup_parent: below every
    controller's mount, unique by default. state_dir: where runs keep their journals and logs; starts that share
    one clean what a killed run left. proc_root: where this machine's facts are read. stop_grace_s: what pods get
    to end by themselves when the sandbox stops.
    """

    kubeconfig: Path
    host: str = "127.0.0.1"
    port: int = 0
    host_node: str = ""
    simulated_nodes: int = 0
    simulated_cpu: str = "32"
    simulated_memory: str = "64Gi"
    cgroup_parent: str = field(default_factory=run.default_cgroup_parent)
    state_dir: Path = field(default_factory=run.default_state_dir)
    proc_root: Path = machine.PROC
    stop_grace_s: float = 3.0

    def __post_init__(self) -> None:
        """Raises ValueError naming the option, the value and what is allowed."""
        run.parse_cgroup_parent(self.cgroup_parent)
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"port {self.port}: allowed: 0 to 65535")
        if not 0 <= self.simulated_nodes <= MAX_SIMULATED_NODES:
            raise ValueError(f"simulated nodes {self.simulated_nodes}: allowed: 0 to {MAX_SIMULATED_NODES}")
        for name, text in (("simulated cpu", self.simulated_cpu), ("simulated memory", self.simulated_memory)):
            try:
                quantity.nano(text)
            except quantity.InvalidQuantity as error:
                raise ValueError(f"{name}: {error}") from error

    def simulated_names(self) -> list[str]:
        """The names of the simulated nodes."""
        width = len(str(self.simulated_nodes))
        return [f"simulated-{number:0{width}d}" for number in range(1, self.simulated_nodes + 1)]
