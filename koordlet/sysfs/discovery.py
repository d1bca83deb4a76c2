"""Which pods and containers have cgroups now.

A full scan costs milliseconds, so a cycle only compares link counts and times of the directories (10 µs) and
scans what changed. A cgroup that was replaced by another between two looks keeps the count: the sampler meets
ENODEV on its kept descriptor then and calls `invalidate`; besides, everything is scanned every few cycles.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from koord.api.qos import KubeQoS
from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.layout import Driver, Layout
from koordlet.sysfs.mounts import CgroupMounts

RESCAN_CYCLES = 30
YOUNG_CYCLES = 30
"""So long a pod's containers are looked for in every cycle, later in turns of LOOK_CYCLES."""
LOOK_CYCLES = 5
_Stamp = tuple[int, int]


@dataclass(frozen=True)
class ContainerGroup:
    """A container's cgroup; `group` is the path below the hierarchy's top."""

    container_id: str
    group: str


@dataclass(frozen=True)
class PodGroup:
    """A pod's cgroup as found on disk; `kube_qos` is the class directory it lies in."""

    uid: str
    kube_qos: KubeQoS
    group: str
    containers: tuple[ContainerGroup, ...]


@dataclass
class _Seen:
    stamp: _Stamp
    pod: PodGroup
    path: str
    since: int


@dataclass
class Discovery:
    """Keeps the list of pod cgroups up to date. The cpu hierarchy is the one that is listed."""

    mounts: CgroupMounts
    layout: Layout
    _class_stamps: dict[int, _Stamp] = field(default_factory=dict)
    """By descriptors of the class directories: looking through one costs a fifth of resolving the path."""
    _pods: dict[str, _Seen] = field(default_factory=dict)
    _age: int = 0
    _cycle: int = 0

    @property
    def root(self) -> str:
        """The top of the hierarchy that is listed."""
        return self.mounts.of("cpu").root

    def invalidate(self) -> None:
        """Scan everything at the next refresh."""
        self._age = RESCAN_CYCLES

    def is_changed(self) -> bool:
        """Whether a pod cgroup came or went since the last refresh: three fstat calls."""
        return any(_stamp(fd) != stamp for fd, stamp in self._class_stamps.items())

    def close(self) -> None:
        """Let go of the kept directories."""
        for fd in self._class_stamps:
            os.close(fd)
        self._class_stamps = {}

    def refresh(self) -> list[PodGroup]:
        """All pod cgroups. Raises Unsupported when the kube root is missing."""
        self._age += 1
        self._cycle += 1
        if not self._class_stamps or self._age >= RESCAN_CYCLES or self.is_changed():
            self._scan_pods()
        else:
            self._refresh_containers()
        return [seen.pod for seen in self._pods.values()]

    def _class_path(self, qos: KubeQoS) -> str:
        return f"{self.root}/{self.layout.class_dir(qos)}"

    def _scan_pods(self) -> None:
        root = self._class_path(KubeQoS.GUARANTEED)
        if _stamp(root) is None:
            raise Unsupported(f"{root}: kubelet's cgroup is missing; is --cgroup-parent right?")
        # Stamps before listing: a pod that appears between the two is seen by the next comparison.
        self._keep_classes()
        found: dict[str, _Seen] = {}
        for qos in KubeQoS:
            for name in _directories(self._class_path(qos)):
                uid = self.layout.pod_uid(name)
                if uid is not None:
                    group = f"{self.layout.class_dir(qos)}/{name}"
                    seen = self._scan_pod(uid, qos, group)
                    if seen is not None:
                        found[group] = seen
        self._pods = found
        self._age = 0

    def _keep_classes(self) -> None:
        self.close()
        for qos in KubeQoS:
            try:
                fd = os.open(self._class_path(qos), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue
            stamp = _stamp(fd)
            if stamp is None:
                os.close(fd)
            else:
                self._class_stamps[fd] = stamp

    def _scan_pod(self, uid: str, qos: KubeQoS, group: str) -> _Seen | None:
        path = f"{self.root}/{group}"
        stamp = _stamp(path)
        if stamp is None:
            return None
        containers = []
        for name in sorted(_directories(path)):
            container_id = self.layout.container_id(name)
            if container_id is not None:
                containers.append(ContainerGroup(container_id, f"{group}/{name}"))
        known = self._pods.get(group)
        since = self._cycle if known is None else known.since
        pod = PodGroup(uid, qos, group, tuple(containers))
        # The same object while nothing changed, so that what was derived from it can be kept.
        return _Seen(stamp, known.pod if known is not None and known.pod == pod else pod, path, since)

    def _refresh_containers(self) -> None:
        for number, (group, seen) in enumerate(list(self._pods.items())):
            is_old = self._cycle - seen.since > YOUNG_CYCLES
            if is_old and (self._cycle + number) % LOOK_CYCLES:
                continue
            if _stamp(seen.path) == seen.stamp:
                continue
            fresh = self._scan_pod(seen.pod.uid, seen.pod.kube_qos, group)
            if fresh is None:
                del self._pods[group]
            else:
                self._pods[group] = fresh


def _stamp(path: str | int) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - Path.stat costs twice as much, 110 times a second
    except OSError:
        return None
    return found.st_nlink, found.st_mtime_ns


def _directories(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            yield from [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return


def find_layout(mounts: CgroupMounts, parent: str, driver: str) -> Layout:
    """The layout that exists on disk; `driver` is cgroupfs, systemd or auto. Raises Unsupported when none does.

    Where both trees exist (a node that changed its driver keeps the old, empty one) the one with more pods is
    taken, systemd's on a tie.
    """
    wanted = [Driver.SYSTEMD, Driver.CGROUPFS] if driver == "auto" else [Driver(driver)]
    root = mounts.of("cpu").root
    layouts = [Layout(candidate, parent.strip("/")) for candidate in wanted]
    existing = [one for one in layouts if _stamp(f"{root}/{one.class_dir(KubeQoS.GUARANTEED)}") is not None]
    if not existing:
        looked = " and ".join(f"{root}/{one.class_dir(KubeQoS.GUARANTEED)}" for one in layouts)
        raise Unsupported(f"kubelet's cgroup is missing: looked at {looked}; is --cgroup-parent right?")
    return max(existing, key=lambda one: _count_pods(root, one))


def _count_pods(root: str, layout: Layout) -> int:
    return sum(
        layout.pod_uid(name) is not None
        for qos in KubeQoS
        for name in _directories(f"{root}/{layout.class_dir(qos)}")
    )
