"""Koord's processes beside a real control plane, each started as an operator does and with its own rights only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.contract.api import Answer, Api, JsonObject, of_kubeconfig
from tests.kubernetes.control_plane import ROOT, ControlPlane, free_port
from tests.kubernetes.rights import NAMESPACE, documents

RECOVERY_S = 30.0
"""Within so long everything must have caught up after a fault."""

T = TypeVar("T")


def eventually(read: Callable[[], T], what: str, deadline_s: float = RECOVERY_S) -> T:
    """What `read` gives once it is true. Raises AssertionError naming what did not come, with the last answer."""
    end = time.monotonic() + deadline_s
    while not (found := read()):
        assert time.monotonic() < end, f"not within {deadline_s:.0f} s: {what}; last: {found!r}"
        time.sleep(0.05)
    return found


class Component:
    """A process of ours with its log."""

    def __init__(self, command: list[str], log: Path, port: int) -> None:
        self._log = log
        self._port = port
        with log.open("ab") as file:
            self.process = subprocess.Popen(command, stderr=file, stdout=file, cwd=ROOT)

    def is_ready(self) -> bool:
        """What /readyz says; raises AssertionError when the process has ended."""
        assert self.process.poll() is None, self.tail()
        return self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        """A page of the health port; status 0 when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def wait_ready(self, deadline_s: float = 60.0) -> None:
        """Wait for readiness."""
        eventually(self.is_ready, f"{self._log.stem} is ready: {self.get('/readyz')}{self.tail()}", deadline_s)

    def records(self, text: str = "") -> list[JsonObject]:
        """The log records whose message holds the text."""
        found = []
        for line in self._log.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if text in record.get("message", ""):
                found.append(record)
        return found

    def tail(self) -> str:
        """The end of the log."""
        return "\n" + "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Signal it and wait; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(40)


class Cluster:
    """A control plane with Koord's objects in it, and the processes that a test started."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.api: Api = of_kubeconfig(plane.kubeconfig)
        self._components: list[Component] = []
        self._logs = 0

    def install(self) -> None:
        """CRDs, namespace, priority classes and the components' accounts with their rights."""
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "koord" / "crds"))
        self.kubectl("create", "namespace", NAMESPACE)
        for name, value in (("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000)):
            self.kubectl("create", "priorityclass", name, f"--value={value}")
        for component in ("webhook", "manager", "koordlet"):
            self.apply(*documents(component, component))
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as the administrator."""
        binary = Path(sys.executable).with_name("kubectl")
        command = [str(binary), f"--kubeconfig={self.plane.kubeconfig}", *arguments]
        environment = {**os.environ, "HOME": str(self.folder), "KUBECACHEDIR": str(self.folder / "cache")}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=90, env=environment, check=False
        )
        assert not check or done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done

    def apply(self, *documents: JsonObject) -> None:
        """kubectl apply."""
        self.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(document) for document in documents))

    def get(self, *arguments: str) -> Any:
        """kubectl get -o json; None when there is no such object."""
        done = self.kubectl("get", *arguments, "-o", "json", "--ignore-not-found")
        return json.loads(done.stdout) if done.stdout else None

    def create_pod(self, pod: JsonObject, **parameters: Any) -> Answer:
        """POST a pod."""
        return self.api.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod, **parameters)

    def account_kubeconfig(self, component: str) -> Path:
        """A kubeconfig whose token, of the component's service account, is in a file beside it."""
        token = self.folder / f"{component}.token"
        token.write_text(self.plane.token_of_service_account(NAMESPACE, component))
        path = self.plane.kubeconfig_for(component, "unused")
        document = yaml.safe_load(path.read_text())
        document["users"][0]["user"] = {"tokenFile": str(token)}
        path.write_text(yaml.safe_dump(document))
        return path

    def start(self, component: str, *flags: str, kubeconfig: Path | None = None, ready: bool = True) -> Component:
        """Start a component with its service account's rights and wait until it is ready."""
        port = free_port()
        config = kubeconfig or self.account_kubeconfig(component)
        command = [sys.executable, "-m", component, "--kubeconfig", str(config), "--health-port", str(port), *flags]
        self._logs += 1
        started = Component(command, self.folder / f"{component}-{self._logs}.log", port)
        self._components.append(started)
        if ready:
            started.wait_ready()
        return started

    def start_webhook(self, *flags: str, port: int = 0) -> Component:
        """Start the webhook where the API server reaches it by URL, and wait until it is called."""
        port = port or free_port()
        where = ("--bind-address", "127.0.0.1", "--port", str(port), "--url", f"https://127.0.0.1:{port}")
        certificates = ("--host", "127.0.0.1", "--cert-dir", str(self.folder / "webhook-certs"))
        return self.start("webhook", *where, *certificates, "--drain-s", "0", *flags)

    def start_nodes(self, count: int, cpu: str = "8", memory: str = "16Gi") -> Component:
        """Nodes without machines; whoever asks for them ends the process, and the nodes go with it."""
        command = [sys.executable, "-m", "sandbox.node.fleet", "--kubeconfig", str(self.plane.kubeconfig)]
        command += ["--nodes", str(count), "--cpu", cpu, "--memory", memory, "--prefix", "node"]
        self._logs += 1
        fleet = Component(command, self.folder / f"fleet-{self._logs}.log", 0)
        eventually(lambda: "registered" in fleet.tail(), "nodes are registered" + fleet.tail(), 60)
        return fleet

    def end_components(self) -> None:
        """End whatever a test has started."""
        for component in reversed(self._components):
            component.end()
        self._components.clear()
