"""How each process of the demo's cluster is started. Pure but for finding free ports."""

import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.demo.supervisor import ChildSpec, answers_ready

NODE_NAME = "this-machine"
SANDBOX = "sandbox"
COMPONENTS = ("webhook", "manager", "koordlet")


@dataclass(frozen=True, slots=True)
class Workplace:
    """The directory of one demo and what lives in it."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """Written by the sandbox when its API server listens."""
        return self.root / "kubeconfig"

    @property
    def logs(self) -> Path:
        """A file per process."""
        return self.root / "logs"

    @property
    def work(self) -> Path:
        """The counters of the batch executors."""
        return self.root / "work"

    def folder(self, name: str) -> Path:
        """A folder of a component."""
        return self.root / name

    def prepare(self) -> None:
        """Make the folders that processes expect."""
        for path in (self.logs, self.work, *(self.folder(name) for name in (SANDBOX, *COMPONENTS))):
            path.mkdir(parents=True, exist_ok=True)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def python_module(name: str) -> tuple[str, ...]:
    """The command that runs a module with this Python, from this checkout."""
    return (sys.executable, "-m", name)


def sandbox_spec(place: Workplace, cgroup_parent: str, cpus: int, *, confined: bool) -> ChildSpec:
    """The cluster: with this machine as a node, or (not `confined`) with one simulated node of its size."""
    node = (
        ("--host-node", NODE_NAME, "--cgroup-parent", cgroup_parent)
        if confined
        else ("--no-host-node", "--simulated-nodes", "1", "--simulated-cpu", str(cpus))
    )
    log = place.logs / f"{SANDBOX}.log"

    async def ready() -> bool:
        return announcement(log) is not None

    command = (
        *python_module("sandbox"),
        "--kubeconfig",
        str(place.kubeconfig),
        "--state-dir",
        str(place.folder(SANDBOX)),
        *node,
    )
    return ChildSpec(SANDBOX, command, ready, essential=True, stop_deadline_s=40.0)


def announcement(log: Path) -> dict[str, object] | None:
    """The line with which the sandbox says that it is ready, or None so far."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    for line in lines:
        if line.startswith("{") and '"ready"' in line:
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if document.get("ready") is True:
                return dict(document)
    return None


def component_specs(place: Workplace, cgroup_parent: str, *, confined: bool) -> list[ChildSpec]:
    """Webhook and manager, and koordlet where this machine is a node."""
    specs = [_webhook_spec(place), _manager_spec(place)]
    if confined:
        specs.append(_koordlet_spec(place, cgroup_parent))
    return specs


def _webhook_spec(place: Workplace) -> ChildSpec:
    port = free_port()
    flags = (
        *("--bind-address", "127.0.0.1", "--port", str(port), "--cert-dir", str(place.folder("webhook"))),
        *("--host", "127.0.0.1", "--url", f"https://127.0.0.1:{port}", "--drain-s", "0"),
    )
    return _component("webhook", place, flags)


def _manager_spec(place: Workplace) -> ChildSpec:
    return _component("manager", place, ("--no-leader-elect",))


def _koordlet_spec(place: Workplace, cgroup_parent: str) -> ChildSpec:
    flags = (
        *("--node-name", NODE_NAME, "--cgroup-parent", f"/{cgroup_parent}"),
        *("--state-dir", str(place.folder("koordlet")), "--min-report-interval-s", "1"),
    )
    return _component("koordlet", place, flags)


def _component(name: str, place: Workplace, flags: tuple[str, ...]) -> ChildSpec:
    port = free_port()

    async def ready() -> bool:
        return await answers_ready(port)

    command = (
        *python_module(name),
        "--kubeconfig",
        str(place.kubeconfig),
        "--health-port",
        str(port),
        *flags,
    )
    return ChildSpec(name, command, ready)
