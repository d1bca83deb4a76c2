"""Where each cgroup controller lives: v1 (own hierarchy or co-mounted), v2, or both side by side.

Found from mountinfo, never from fixed names: distributions co-mount `cpu,cpuacct` or do not, and a hybrid host
has v1 controllers beside a unified tree that offers the rest. Where mountinfo shows no cgroup mount below the
given root (a bind mount of a parent, say) the directory itself is looked at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from koordlet.sysfs.errors import Unsupported

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree: `version` 1 or 2, `root` the absolute directory that holds its top cgroup."""

    version: int
    root: str


@dataclass(frozen=True)
class CgroupMounts:
    """The hierarchy of every controller that the kernel offers here; `unified` is the v2 tree, if mounted."""

    by_controller: Mapping[str, Hierarchy]
    unified: str | None

    def of(self, controller: str) -> Hierarchy:
        """The hierarchy of a controller. Raises Unsupported when it is not mounted."""
        found = self.by_controller.get(controller)
        if found is None:
            raise Unsupported(f"cgroup controller {controller} is not available")
        return found

    @property
    def is_v2(self) -> bool:
        """Whether the cpu controller, which decides all that matters here, is a v2 one."""
        cpu = self.by_controller.get("cpu")
        return cpu is not None and cpu.version == 2


@dataclass(frozen=True)
class _Mount:
    point: str
    fstype: str
    options: frozenset[str]


def find_mounts(proc_root: str, sys_root: str) -> CgroupMounts:
    """The cgroup mounts at or below `sys_root`. Raises Unsupported when there is none."""
    below = sys_root.rstrip("/") or "/"
    try:
        text = Path(proc_root, "self/mountinfo").read_text()
    except OSError:
        text = ""
    mounts = [mount for mount in _parse(text) if mount.point == below or mount.point.startswith(below + "/")]
    if not mounts:
        mounts = list(_look(below))
    found = _assign(mounts)
    if not found.by_controller and found.unified is None:
        raise Unsupported(f"no cgroup file system at {sys_root}")
    return found


def _parse(mountinfo: str) -> Iterator[_Mount]:
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) >= 6 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            yield _Mount(_unescape(fields[4]), tail[0], frozenset(tail[2].split(",")))


def _unescape(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path


def _look(root: str) -> Iterator[_Mount]:
    if Path(root, "cgroup.controllers").is_file():
        yield _Mount(root, "cgroup2", frozenset())
        return
    if not Path(root).is_dir():
        return
    for directory in sorted(Path(root).iterdir()):
        if (directory / "cgroup.controllers").is_file():
            yield _Mount(str(directory), "cgroup2", frozenset())
        elif directory.is_dir() and not directory.is_symlink():
            yield _Mount(str(directory), "cgroup", frozenset(directory.name.split(",")))


def _assign(mounts: list[_Mount]) -> CgroupMounts:
    by_controller: dict[str, Hierarchy] = {}
    for mount in mounts:
        if mount.fstype == "cgroup":
            for controller in mount.options.intersection(CONTROLLERS):
                by_controller.setdefault(controller, Hierarchy(1, mount.point))
    unified = next((mount.point for mount in mounts if mount.fstype == "cgroup2"), None)
    if unified is not None:
        tree = Hierarchy(2, unified)
        for controller in _offered(unified):
            by_controller.setdefault(controller, tree)
        # v2 counts CPU time in cpu.stat of every cgroup, with or without the cpu controller.
        if "cpuacct" not in by_controller and by_controller.get("cpu", tree).version == 2:
            by_controller["cpuacct"] = tree
    return CgroupMounts(MappingProxyType(by_controller), unified)


def _offered(unified: str) -> list[str]:
    try:
        offered = Path(unified, "cgroup.controllers").read_text().split()
    except OSError:
        return []
    return [controller for controller in offered if controller in CONTROLLERS]
