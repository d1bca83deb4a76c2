"""The kubelet's side of cgroups: makes, fills, empties and removes the directories below one cgroup parent.

Every step is synchronous and short; waiting between steps (a killed process needs a moment to be gone) is the
caller's. Nothing outside the parent is ever written, but for enabling controllers on the way down in v2.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from sandbox.node.cgroup_dirs import kill_members, remove_tree, write_existing
from sandbox.node.kubelet_rules import KUBEPODS, PERIOD_US, CgroupSettings
from sandbox.node.mounts import USED_CONTROLLERS, CgroupMounts

log = logging.getLogger("koord.sandbox.cgroups")


class CgroupsUnavailable(Exception):  # noqa: N818 - what is the case
    """No hierarchy can be written; the message says why for each. Processes can still run, unconfined."""


class CgroupParentTaken(Exception):  # noqa: N818 - what is the case
    """The cgroup parent holds kubepods that are not ours; the person must choose another."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy and the controllers that it gives to pods (none: membership and PSI only)."""

    root: Path
    controllers: frozenset[str]
    version: int


def find_hierarchies(mounts: CgroupMounts) -> list[Hierarchy]:
    """The distinct hierarchies of the used controllers: v1 ones by mount point, then the unified one."""
    by_root: dict[Path, set[str]] = {}
    for controller, root in mounts.v1.items():
        by_root.setdefault(root.resolve(), set()).add(controller)
    found = [Hierarchy(root, frozenset(controllers), 1) for root, controllers in by_root.items()]
    if mounts.unified is not None:
        with suppress(OSError):
            listed = (mounts.unified / "cgroup.controllers").read_text().split()
            usable = frozenset(listed) & frozenset(USED_CONTROLLERS) - frozenset(mounts.v1)
            found.append(Hierarchy(mounts.unified, usable, 2))
    return found


class CgroupTree:
    """The directories below `parent` in every usable hierarchy. Paths given to methods are relative to it."""

    def __init__(self, hierarchies: Iterable[Hierarchy], parent: PurePosixPath) -> None:
        self.parent = parent
        self.hierarchies: list[Hierarchy] = list(hierarchies)
        self._made_parents: list[tuple[Hierarchy, Path]] = []

    def claim(self, announce: Callable[[Path], None]) -> None:
        """Make the parent in every hierarchy, leaving out those that refuse.

        `announce` is told each directory just before it is made, and again after, so that a journal can hold
        it. Raises CgroupsUnavailable when no hierarchy is left, CgroupParentTaken when kubepods are there.
        """
        taken = [str(h.root / self.parent / KUBEPODS) for h in self.hierarchies]
        if present := [path for path in taken if Path(path).exists()]:
            raise CgroupParentTaken(f"{present[0]} exists already and is not ours: choose another cgroup parent")
        refusals: list[str] = []
        usable: list[Hierarchy] = []
        for hierarchy in self.hierarchies:
            try:
                usable.append(self._make_parent(hierarchy, announce))
            except OSError as error:
                refusals.append(f"{hierarchy.root} ({error.strerror})")
        if refusals:
            log.warning("cgroup hierarchies left out", extra={"refusals": refusals})
        self.hierarchies = usable
        if not usable:
            reason = ", ".join(refusals) if refusals else "no cgroup hierarchy is mounted"
            raise CgroupsUnavailable(f"no writable cgroup hierarchy: {reason}")
        missing = set(USED_CONTROLLERS) - set().union(*(h.controllers for h in usable))
        if missing - {"cpuacct"}:
            log.warning("cgroup controllers left out", extra={"controllers": sorted(missing)})

    def _make_parent(self, hierarchy: Hierarchy, announce: Callable[[Path], None]) -> Hierarchy:
        """Make the parent and kubepods; the hierarchy with the controllers that are really there."""
        directory, ours = hierarchy.root, False
        for part in (*self.parent.parts, KUBEPODS):
            _enable_below(directory, hierarchy)
            directory = directory / part
            if directory.is_dir():
                continue
            if not ours:  # what is below goes with it
                announce(directory)
            directory.mkdir()
            if not ours:
                announce(directory)
            ours = True
            _fill_cpuset(directory, hierarchy)
            if part != KUBEPODS:
                self._made_parents.append((hierarchy, directory))
        if hierarchy.version == 1:
            return hierarchy
        given = (directory / "cgroup.controllers").read_text().split()
        return replace(hierarchy, controllers=hierarchy.controllers & frozenset(given))

    def weigh_parents(self, shares: int) -> None:
        """Give the parents that were made here the weight of kubepods, so that they make it no lighter."""
        for hierarchy, directory in self._made_parents:
            if hierarchy.root in {usable.root for usable in self.hierarchies}:
                _write_settings(hierarchy, directory, CgroupSettings(shares))

    def create(self, path: PurePosixPath, settings: CgroupSettings, *, leaf: bool = False) -> None:
        """Make one directory below an existing one in every hierarchy and write its settings.

        A setting that the kernel refuses is logged and left. `leaf`: holds processes, so that v2 controllers
        must not be enabled below it. Raises OSError when the directory itself cannot be made.
        """
        for hierarchy in self.hierarchies:
            directory = self._directory(hierarchy, path)
            directory.mkdir(exist_ok=True)
            _fill_cpuset(directory, hierarchy)
            if not leaf:
                _enable_below(directory, hierarchy)
        self.apply(path, settings)

    def apply(self, path: PurePosixPath, settings: CgroupSettings) -> None:
        """Write the settings of an existing directory; refusals are logged."""
        for hierarchy in self.hierarchies:
            _write_settings(hierarchy, self._directory(hierarchy, path), settings)

    def procs_files(self, path: PurePosixPath) -> list[str]:
        """The files into which a process writes its pid to enter the directory."""
        return [str(self._directory(hierarchy, path) / "cgroup.procs") for hierarchy in self.hierarchies]

    def oom_kills(self, path: PurePosixPath) -> int:
        """How many processes of the directory the kernel killed for want of memory; 0 when it does not say."""
        for hierarchy in self.hierarchies:
            if "memory" in hierarchy.controllers:
                name = "memory.oom_control" if hierarchy.version == 1 else "memory.events"
                return _read_counter(self._directory(hierarchy, path) / name, "oom_kill")
        return 0

    def kill(self, path: PurePosixPath) -> int:
        """SIGKILL everything in the directory and below; how many processes were still seen there."""
        return sum(kill_members(self._directory(hierarchy, path)) for hierarchy in self.hierarchies)

    def remove(self, path: PurePosixPath) -> bool:
        """Remove the directory and what is below it; False while something in it is still alive."""
        removed = [remove_tree(self._directory(hierarchy, path)) for hierarchy in self.hierarchies]
        return all(removed)

    def _directory(self, hierarchy: Hierarchy, path: PurePosixPath) -> Path:
        return hierarchy.root / self.parent / path


def _write_settings(hierarchy: Hierarchy, directory: Path, settings: CgroupSettings) -> None:
    for file_name, text in _knobs(hierarchy, settings):
        try:
            write_existing(directory / file_name, text)
        except OSError as error:
            refusal = {"file": str(directory / file_name), "value": text, "error": error.strerror}
            log.warning("the kernel refused a cgroup setting", extra=refusal)


def _knobs(hierarchy: Hierarchy, settings: CgroupSettings) -> list[tuple[str, str]]:
    v1 = hierarchy.version == 1
    knobs: list[tuple[str, str]] = []
    if "cpu" in hierarchy.controllers:
        knobs.append(("cpu.shares", str(settings.shares)) if v1 else ("cpu.weight", str(settings.weight)))
        if settings.quota_us is not None and v1:
            knobs.append(("cpu.cfs_period_us", str(PERIOD_US)))
            knobs.append(("cpu.cfs_quota_us", str(settings.quota_us)))
        elif settings.quota_us is not None:
            knobs.append(("cpu.max", f"{settings.quota_us} {PERIOD_US}"))
    if "memory" in hierarchy.controllers and settings.memory_bytes is not None:
        knobs.append(("memory.limit_in_bytes" if v1 else "memory.max", str(settings.memory_bytes)))
    return knobs


def _enable_below(directory: Path, hierarchy: Hierarchy) -> None:
    """v2: give the hierarchy's controllers to the children of a directory; ones it refuses are left out."""
    if hierarchy.version == 1:
        return
    for controller in hierarchy.controllers:
        try:
            write_existing(directory / "cgroup.subtree_control", f"+{controller}")
        except OSError as error:
            refusal = {"directory": str(directory), "controller": controller, "error": error.strerror}
            log.warning("a cgroup controller cannot be enabled", extra=refusal)


def _fill_cpuset(directory: Path, hierarchy: Hierarchy) -> None:
    """v1: a new cpuset is empty and takes no process until it has its parent's CPUs and memory nodes."""
    if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (directory / name).read_text().strip():
                write_existing(directory / name, (directory.parent / name).read_text().strip())


def _read_counter(file: Path, key: str) -> int:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == key:
                return int(number)
    return 0
