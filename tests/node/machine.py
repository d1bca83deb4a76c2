"""This machine as a node of a control plane: containerd and kubelet in an enclosure, images made here.

One at a time. Everything lies in one folder, which `stop` removes with the cgroups; the next start removes what a
run that was killed has left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.kubernetes.control_plane import ControlPlane, free_port, wait_until
from tests.node import archives, cgroups
from tests.node.enclosure import Enclosure, EnclosureImpossible
from tests.node.packages import Programs

NODE_NAME = "koord-test-node"
NODE_USER = f"system:node:{NODE_NAME}"
FOLDER = Path("/var/tmp/koord-test-node")
SOCKET = "/run/containerd/containerd.sock"
_LOCK = "\0koord-test-node"
"""An abstract socket's name: it can be bound once on this machine, and is free when its process has ended."""
LOCK_DEADLINE_S = 5.0
_CLAIM = "cgroups-are-ours"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CannotBeNode(Exception):  # noqa: N818 - what is the case
    """The machine is a Kubernetes node already, another run of these tests goes on, or it allows no namespaces."""


class Machine:
    """Starts, breaks and stops the node's programs. Raises CannotBeNode."""

    def __init__(self, plane: ControlPlane, programs: Programs) -> None:
        self._plane = plane
        self._programs = programs
        self._lock = _take_lock()
        try:
            clean()
            claim()
            self.enclosure = Enclosure(FOLDER)
        except EnclosureImpossible as error:
            clean()
            self._lock.close()
            raise CannotBeNode(str(error)) from error
        except BaseException:
            self._lock.close()
            raise

    def start(self) -> None:
        """containerd, images, kubelet; returns when the node is Ready. Raises TimeoutError and RuntimeError."""
        self._write_configuration()
        self.launch_containerd()
        self.launch_kubelet()
        self._import_images()
        self.wait_for(self.is_ready, "node Ready")

    def stop(self) -> None:
        """End everything, remove the cgroups and the folder."""
        try:
            self.enclosure.close()
            clean()
        finally:
            self._lock.close()

    def launch_containerd(self) -> None:
        """Start containerd and wait until it answers."""
        program = self._programs.path("containerd")
        self.enclosure.launch("containerd", [program, "--config", FOLDER / "containerd.toml"], self._environment)
        self.wait_for(self._containerd_answers, "containerd answers")

    def launch_kubelet(self) -> None:
        """Start kubelet as the node's user."""
        flags = [
            f"--config={FOLDER / 'kubelet.yaml'}",
            f"--kubeconfig={self._plane.folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={NODE_NAME}",
            "--v=2",
        ]
        self.enclosure.launch("kubelet", [self._plane.assets / "kubelet", *flags], self._environment)

    def is_ready(self) -> bool:
        """Whether the API server says that the node is Ready."""
        status, node = self._plane.api("GET", f"/api/v1/nodes/{NODE_NAME}")
        conditions = node["status"].get("conditions", ()) if status == 200 else ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def wait_for(self, condition: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
        """Wait; fails early when a program has ended. Raises TimeoutError and RuntimeError with the logs' ends."""

        def holds() -> bool:
            for name in self.enclosure.ended():
                raise RuntimeError(f"{name} has ended:\n{self.enclosure.tail_of(name)}")
            return condition()

        try:
            wait_until(holds, what, deadline_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\nkubelet:\n{self.enclosure.tail_of('kubelet')}") from error

    def restart_kubelet(self) -> None:
        """Kill kubelet and start it again; containers go on meanwhile."""
        self.enclosure.kill("kubelet")
        self.launch_kubelet()

    def kill_container(self, container_id: str) -> None:
        """Kill a container's processes behind kubelet's back, as the kernel does when memory runs out."""
        self._ctr("task", "kill", "--signal", "SIGKILL", container_id)

    def log_of(self, namespace: str, pod: str) -> str:
        """What a pod's containers have written, also of containers that ended."""
        folders = (FOLDER / "var/log/pods").glob(f"{namespace}_{pod}_*")
        return "\n".join(file.read_text(errors="replace") for folder in folders for file in folder.rglob("*.log"))

    def _ctr(self, *arguments: str | Path) -> str:
        command = [self._programs.path("ctr"), "--address", SOCKET, "--namespace", "k8s.io", *arguments]
        return self.enclosure.run(command, self._environment)

    def _containerd_answers(self) -> bool:
        if not (FOLDER / SOCKET.lstrip("/")).exists():
            return False
        with contextlib.suppress(RuntimeError):
            self._ctr("plugins", "list", "id==cri")
            return True
        return False

    def _import_images(self) -> None:
        archives.write_busybox(FOLDER / "busybox.tar", self._programs.path("busybox"))
        archives.write_koord(FOLDER / "koord.tar")
        for archive in (FOLDER / "busybox.tar", FOLDER / "koord.tar"):
            self._ctr("images", "import", "--snapshotter", "native", archive)
            archive.unlink()

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{self._programs.search_path}:{os.environ['PATH']}"}

    def _write_configuration(self) -> None:
        (FOLDER / "cni").mkdir()
        (FOLDER / "cni/10-koord.conf").write_text(
            '{"cniVersion": "0.4.0", "name": "koord", "type": "ptp", "ipam": {"type": "host-local", '
            '"subnet": "10.1.0.0/24"}}'
        )
        (FOLDER / "resolv.conf").touch()
        (FOLDER / "containerd.toml").write_text(_CONTAINERD.format(folder=FOLDER, plugins=self._programs.cni))
        (FOLDER / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_configuration()))


_CONTAINERD = f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{archives.PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{plugins}}"
    conf_dir = "{{folder}}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def _kubelet_configuration() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": free_port(),
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(FOLDER / "resolv.conf"),
        "volumePluginDir": str(FOLDER / "volume-plugins"),
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "serverTLSBootstrap": False,
    }


def claim() -> None:
    """Make the folder and note in it that kubelet's cgroups will be ours. Raises CannotBeNode, OSError."""
    if taken := cgroups.roots():
        raise CannotBeNode(f"this machine is a Kubernetes node already: it has {taken[0]}")
    FOLDER.mkdir(mode=0o700)
    (FOLDER / _CLAIM).write_text(_BOOT_ID.read_text())


def clean() -> None:
    """Remove what a run left. Its processes and mounts have ended with it.

    Raises CannotBeNode when the folder is somebody else's, TimeoutError, OSError.
    """
    if not FOLDER.exists():
        return
    if FOLDER.stat().st_uid != os.geteuid():
        raise CannotBeNode(f"{FOLDER} belongs to another user")
    noted = FOLDER / _CLAIM
    if noted.exists() and noted.read_text() == _BOOT_ID.read_text():
        cgroups.remove()
    shutil.rmtree(FOLDER)


def _take_lock() -> socket.socket:
    lock = socket.socket(socket.AF_UNIX)
    end = time.monotonic() + LOCK_DEADLINE_S
    while True:
        try:
            lock.bind(_LOCK)
        except OSError:
            if time.monotonic() > end:
                lock.close()
                raise CannotBeNode("another run of these tests has made this machine a node") from None
            time.sleep(0.1)
        else:
            return lock
