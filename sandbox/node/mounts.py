"""Where this machine's cgroup hierarchies are mounted, read from mountinfo.

Three layouts exist: v2 only; v1 with a hierarchy per controller (or several co-mounted, `cpu,cpuacct`); and
hybrid, v1 beside a cgroup2 mount that holds few controllers or none but still gives PSI and cgroup.kill.
Pure but for `read_mounts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

USED_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids")
"""The controllers that pods are placed in; others (blkio, devices, ...) stay as they are."""

_OCTAL_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


@dataclass(frozen=True)
class CgroupMounts:
    """Roots of the hierarchies.

    v1: controller to mount point; co-mounted controllers share one path. unified: the cgroup2 mount, if any.
    """

    v1: Mapping[str, Path]
    unified: Path | None

    def roots(self) -> tuple[Path, ...]:
        """Every distinct hierarchy a process must enter, unified last."""
        found = dict.fromkeys(self.v1[name].resolve() for name in USED_CONTROLLERS if name in self.v1)
        if self.unified is not None:
            found[self.unified.resolve()] = None
        return tuple(found)


def parse_mountinfo(text: str) -> CgroupMounts:
    """The cgroup mounts that a mountinfo document lists; the first of several mounts of one controller counts."""
    v1: dict[str, Path] = {}
    unified: Path | None = None
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if not separator or len(fields) < 5 or len(tail) < 3:
            continue
        mount_point, fs_type = Path(_unescape(fields[4])), tail[0]
        if fs_type == "cgroup2":
            unified = unified or mount_point
        elif fs_type == "cgroup":
            for option in tail[2].split(","):
                if option in USED_CONTROLLERS:
                    v1.setdefault(option, mount_point)
    return CgroupMounts(v1, unified)


def _unescape(text: str) -> str:
    for escape, plain in _OCTAL_ESCAPES.items():
        text = text.replace(escape, plain)
    return text


def read_mounts(proc_root: Path) -> CgroupMounts:
    """The cgroup mounts of this process's mount namespace. Raises OSError when mountinfo cannot be read."""
    return parse_mountinfo((proc_root / "self" / "mountinfo").read_text())
