"""How kubelet names cgroups, for the cgroupfs and the systemd driver, under any cgroup root (pure).

cgroupfs:  <parent>/kubepods/{,burstable,besteffort}/pod<uid>/<container id>
systemd:   <parent slices>/<p>-kubepods.slice/<p>-kubepods-burstable.slice/<p>-kubepods-burstable-pod<uid>.slice/
           <runtime>-<container id>.scope, with "_" for "-" in the uid; a slice's path holds all its prefixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from koord.api.qos import KubeQoS

KUBEPODS = "kubepods"
_CLASS_DIRECTORY = {KubeQoS.BURSTABLE: "burstable", KubeQoS.BEST_EFFORT: "besteffort"}
_SCOPE_PREFIX = {"containerd": "cri-containerd-", "docker": "docker-", "cri-o": "crio-", "pouch": "pouch-"}
_POD = "pod"


class Driver(StrEnum):
    """kubelet's cgroupDriver."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True)
class Layout:
    """Paths relative to a hierarchy's top, without a leading slash; `parent` is kubelet's cgroupRoot ("": none)."""

    driver: Driver
    parent: str = ""

    def class_dir(self, qos: KubeQoS) -> str:
        """The directory that holds the pods of a kube class; Guaranteed is the kube root itself."""
        child = _CLASS_DIRECTORY.get(qos)
        names = [KUBEPODS] if child is None else [KUBEPODS, child]
        return self._path(names)

    def pod_dir(self, qos: KubeQoS, uid: str) -> str:
        """A pod's cgroup."""
        child = _CLASS_DIRECTORY.get(qos)
        if self.driver is Driver.CGROUPFS:
            return f"{self.class_dir(qos)}/{_POD}{uid}"
        names = [KUBEPODS] if child is None else [KUBEPODS, child]
        return self._path([*names, _POD + uid.replace("-", "_")])

    def container_dir(self, qos: KubeQoS, uid: str, container_id: str) -> str:
        """A container's cgroup; `container_id` is `<runtime>://<id>` as the pod's status has it."""
        runtime, _, bare = container_id.rpartition("://")
        name = bare if self.driver is Driver.CGROUPFS else f"{_SCOPE_PREFIX.get(runtime, '')}{bare}.scope"
        return f"{self.pod_dir(qos, uid)}/{name}"

    def pod_uid(self, directory_name: str) -> str | None:
        """The uid of a pod's directory, None for a directory that is no pod's."""
        name = directory_name
        if self.driver is Driver.SYSTEMD:
            if not name.endswith(".slice"):
                return None
            name = name.removesuffix(".slice").rpartition("-")[2].replace("_", "-")
        return name.removeprefix(_POD) if name.startswith(_POD) and len(name) > len(_POD) else None

    def container_id(self, directory_name: str) -> str | None:
        """The bare container id of a directory inside a pod's, None for what is no container's."""
        if self.driver is Driver.CGROUPFS:
            return directory_name
        if not directory_name.endswith(".scope"):
            return None
        return directory_name.removesuffix(".scope").rpartition("-")[2]

    def _path(self, names: Sequence[str]) -> str:
        parents = [part for part in self.parent.split("/") if part]
        if self.driver is Driver.CGROUPFS:
            return "/".join([*parents, *names])
        # kubelet's cgroupRoot may be named by slices already: a/a-b.slice means the names a, b.
        bare = [part.removesuffix(".slice") for part in parents]
        chain = bare[-1].split("-") if bare and parents[-1].endswith(".slice") else bare
        prefix, directories = "", []
        for name in [*chain, *names]:
            prefix = f"{prefix}-{name}" if prefix else name
            directories.append(f"{prefix}.slice")
        return "/".join(directories)
