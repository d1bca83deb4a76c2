"""Reads what the experiment needs to know of cgroups: CPU time used, weight and quota. Versions 1 and 2.

Paths are relative to the controller's mount. A directory that is gone reads as None: pods come and go.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sandbox.node.mounts import CgroupMounts, read_mounts

KUBEPODS = "kubepods"


@dataclass(frozen=True, slots=True)
class CgroupValues:
    """Where the cpu controller and its accounting are mounted; `version` is 1 or 2."""

    cpu: Path
    accounting: Path
    version: int

    def usage_s(self, path: PurePosixPath) -> float | None:
        """CPU seconds used by a cgroup and all below it since it was made."""
        if self.version == 1:
            text = _read(self.accounting / path / "cpuacct.usage")
            return None if text is None else int(text) / 1e9
        text = _read(self.accounting / path / "cpu.stat")
        return None if text is None else _usage_usec(text) / 1e6

    def weight(self, path: PurePosixPath) -> int | None:
        """cpu.shares (version 1) or cpu.weight (version 2)."""
        text = _read(self.cpu / path / ("cpu.shares" if self.version == 1 else "cpu.weight"))
        return None if text is None else int(text)

    def quota_file(self, path: PurePosixPath) -> Path:
        """The file whose first word is the quota."""
        return self.cpu / path / ("cpu.cfs_quota_us" if self.version == 1 else "cpu.max")

    def period_us(self, path: PurePosixPath) -> int:
        """The period of a version 1 quota; 0 for version 2, whose quota file holds it."""
        if self.version == 2:
            return 0
        return int(_read(self.cpu / path / "cpu.cfs_period_us") or 0)

    def quota_cpus(self, path: PurePosixPath) -> float | None:
        """The quota in CPUs; None when there is no limit or no such cgroup."""
        text = _read(self.quota_file(path))
        if text is None:
            return None
        if self.version == 1:
            return parse_quota(f"{text} {self.period_us(path) or ''}")
        return parse_quota(text)

    def root_procs(self) -> tuple[Path, ...]:
        """The `cgroup.procs` of the root of the hierarchy that schedules."""
        return (self.cpu / "cgroup.procs",)


def parse_quota(text: str) -> float | None:
    """ "150000 100000" as 1.5; "-1 100000" and "max 100000" as None."""
    words = text.split()
    if len(words) < 2 or words[0] in ("-1", "max"):
        return None
    return int(words[0]) / int(words[1])


def _usage_usec(stat: str) -> int:
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            return int(value)
    return 0


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except (FileNotFoundError, OSError):
        return None


def locate(mounts: CgroupMounts) -> CgroupValues | None:
    """The values of this machine, or None when no cpu controller is mounted."""
    if "cpu" in mounts.v1 and "cpuacct" in mounts.v1:
        return CgroupValues(mounts.v1["cpu"], mounts.v1["cpuacct"], 1)
    if mounts.unified is not None:
        controllers = _read(mounts.unified / "cgroup.controllers") or ""
        if "cpu" in controllers.split():
            return CgroupValues(mounts.unified, mounts.unified, 2)
    return None


def of_this_machine() -> CgroupValues | None:
    """The values of the machine that this process runs on."""
    return locate(read_mounts(Path("/proc")))


def why_not_writable(values: CgroupValues | None) -> str:
    """Why pods cannot be put into cgroups by this process; empty when they can."""
    if values is None:
        return "no cgroup hierarchy with the cpu controller is mounted"
    for mount in dict.fromkeys((values.cpu, values.accounting)):
        probe = mount / f"koord-demo-probe-{os.getpid()}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            return f"cannot make cgroups in {mount} ({error.strerror}); root can"
    return ""


def pod_path(cgroup_parent: str, kube_qos: str, uid: str) -> PurePosixPath:
    """Where the cgroupfs driver puts a pod. `kube_qos`: Guaranteed, Burstable or BestEffort."""
    base = qos_path(cgroup_parent, kube_qos)
    return base / f"pod{uid}"


def qos_path(cgroup_parent: str, kube_qos: str) -> PurePosixPath:
    """The directory of a QoS class below the parent of kubepods."""
    base = PurePosixPath(cgroup_parent.strip("/")) / KUBEPODS
    return base if kube_qos == "Guaranteed" else base / kube_qos.lower()
