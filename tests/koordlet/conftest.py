"""A kubelet-like tree in the real cgroups of this machine, under a parent of its own, and processes in it."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from koord.api.qos import KubeQoS
from koordlet.sysfs.control import ControlFiles
from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.layout import Driver, Layout
from koordlet.sysfs.mounts import CgroupMounts, find_mounts

HOG = "while True: pass"


def wait_until(condition: Callable[[], bool], deadline_s: float = 10.0, step_s: float = 0.01) -> None:
    """Poll until true; fails the test after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "condition was not met in time"
        time.sleep(step_s)


class RealTree:
    """Makes pods' cgroups as kubelet would, in every v1 hierarchy, and removes them at the end."""

    def __init__(self, mounts: CgroupMounts) -> None:
        self.mounts = mounts
        self.parent = f"koordlet-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.layout = Layout(Driver.CGROUPFS, self.parent)
        self.control = ControlFiles(mounts)
        self.roots = sorted({hierarchy.root for hierarchy in mounts.by_controller.values()})
        self._made: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self.make(self.parent)
        for qos in KubeQoS:
            self.make(self.layout.class_dir(qos))
        self.put(self.best_effort, "cpu", "cpu.shares", "2")

    @property
    def best_effort(self) -> str:
        return self.layout.class_dir(KubeQoS.BEST_EFFORT)

    @property
    def burstable(self) -> str:
        return self.layout.class_dir(KubeQoS.BURSTABLE)

    def make(self, group: str) -> None:
        for root in self.roots:
            Path(root, group).mkdir(exist_ok=True)
        cpuset = self.mounts.by_controller.get("cpuset")
        if cpuset is not None:
            above = Path(cpuset.root, group).parent
            for name in ("cpuset.cpus", "cpuset.mems"):
                Path(cpuset.root, group, name).write_text((above / name).read_text())
        self._made.append(group)

    def pod(self, qos: KubeQoS, uid: str, containers: int = 1, shares: int = 2) -> str:
        group = self.layout.pod_dir(qos, uid)
        self.make(group)
        self.put(group, "cpu", "cpu.shares", str(shares))
        for number in range(containers):
            self.make(f"{group}/{uid}-c{number}")
        return group

    def remove(self, group: str) -> None:
        """Remove a group and what is below it."""
        for made in sorted((one for one in self._made if f"{one}/".startswith(f"{group}/")), reverse=True):
            self._made.remove(made)
            for root in self.roots:
                path = Path(root, made)
                wait_until(lambda path=path: _removed(path))  # type: ignore[misc]

    def path(self, group: str, controller: str, file: str) -> Path:
        return Path(self.mounts.of(controller).root, group, file)

    def get(self, group: str, controller: str, file: str) -> str:
        return self.path(group, controller, file).read_text().strip()

    def put(self, group: str, controller: str, file: str, text: str) -> None:
        self.path(group, controller, file).write_text(text)

    def run(self, group: str, code: str = HOG) -> subprocess.Popen[bytes]:
        """A Python process inside the group."""
        program = f"import sys; sys.stdin.readline()\n{code}"
        process = subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE)
        self._processes.append(process)
        for root in self.roots:
            Path(root, group, "cgroup.procs").write_text(str(process.pid))
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._processes.remove(process)

    def close(self) -> None:
        for process in list(self._processes):
            self.end(process)
        if self._made:
            self.remove(self.parent)


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def tree() -> Iterator[RealTree]:
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    try:
        mounts = find_mounts("/proc", "/sys/fs/cgroup")
        is_v1 = all(mounts.of(name).version == 1 for name in ("cpu", "cpuacct", "cpuset", "memory"))
    except Unsupported as error:
        pytest.skip(f"needs cgroups: {error}")
    if not is_v1:
        pytest.skip("needs the cgroup v1 controllers cpu, cpuacct, cpuset and memory")
    try:
        real = RealTree(mounts)
    except OSError as error:
        pytest.skip(f"needs writable cgroups: {error}")
    try:
        yield real
    finally:
        real.close()
