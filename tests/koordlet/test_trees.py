"""Where controllers and kubelet's cgroups are, over plain files: v1, co-mounted, v2, hybrid; both drivers."""

from pathlib import Path

import pytest

from koord.api.qos import KubeQoS
from koordlet.sysfs.discovery import Discovery, find_layout
from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.layout import Driver, Layout
from koordlet.sysfs.mounts import CgroupMounts, Hierarchy, find_mounts

UID = "2b43bd30-0b55-4452-9673-0ad6ef917c0a"
SLICE_UID = UID.replace("-", "_")


def mountinfo(root: Path, *mounts: tuple[str, str, str]) -> str:
    lines = [
        f"25 1 0:{number} / {root}/{path} rw - {fstype} cgroup {options}"
        for number, (path, fstype, options) in enumerate(mounts)
    ]
    return "\n".join(["20 1 0:19 / / rw - ext4 /dev/vda rw", "garbage", *lines])


def find(tmp_path: Path, *mounts: tuple[str, str, str], controllers: str = "") -> CgroupMounts:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    cgroups.mkdir()
    (proc / "self/mountinfo").write_text(mountinfo(cgroups, *mounts).replace(f"{cgroups}/ ", f"{cgroups} "))
    for path, fstype, _ in mounts:
        (cgroups / path).mkdir(exist_ok=True)
        if fstype == "cgroup2":
            (cgroups / path / "cgroup.controllers").write_text(controllers)
    return find_mounts(str(proc), str(cgroups))


def test_each_v1_controller_may_have_a_hierarchy_of_its_own(tmp_path: Path) -> None:
    found = find(
        tmp_path, ("cpu", "cgroup", "rw,cpu"), ("acct", "cgroup", "rw,cpuacct"), ("memory", "cgroup", "rw,memory")
    )
    assert found.of("cpu") == Hierarchy(1, f"{tmp_path}/cgroup/cpu")
    assert found.of("cpuacct").root.endswith("/acct")
    assert not found.is_v2
    with pytest.raises(Unsupported, match="cpuset"):
        found.of("cpuset")


def test_v1_controllers_may_be_mounted_together(tmp_path: Path) -> None:
    found = find(tmp_path, ("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct"))
    assert found.of("cpu") == found.of("cpuacct")


def test_one_v2_tree_serves_all_its_controllers(tmp_path: Path) -> None:
    found = find(tmp_path, ("", "cgroup2", "rw,nsdelegate"), controllers="cpuset cpu io memory pids\n")
    assert found.is_v2
    assert {found.of(name).version for name in ("cpu", "cpuacct", "cpuset", "memory")} == {2}


def test_v2_counts_cpu_time_even_without_its_cpu_controller(tmp_path: Path) -> None:
    found = find(tmp_path, ("", "cgroup2", "rw"), controllers="memory")
    assert found.of("cpuacct").version == 2
    with pytest.raises(Unsupported):
        found.of("cpu")


def test_on_a_hybrid_host_a_controller_mounted_as_v1_is_v1(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        ("unified", "cgroup2", "rw"),
        ("cpu", "cgroup", "rw,cpu"),
        ("cpuacct", "cgroup", "rw,cpuacct"),
        controllers="hugetlb memory",
    )
    assert (found.of("cpu").version, found.of("cpuacct").version, found.of("memory").version) == (1, 1, 2)
    assert found.unified == f"{tmp_path}/cgroup/unified"


def test_without_mount_entries_the_directory_itself_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "cgroup/cpu,cpuacct").mkdir(parents=True)
    (tmp_path / "cgroup/memory").mkdir()
    found = find_mounts(str(tmp_path / "none"), str(tmp_path / "cgroup"))
    assert found.of("cpu").root.endswith("cpu,cpuacct")
    assert found.of("memory").version == 1


def test_no_cgroup_file_system_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no cgroup file system"):
        find_mounts(str(tmp_path), str(tmp_path / "missing"))


def test_this_machines_own_mounts_are_understood() -> None:
    found = find_mounts("/proc", "/sys/fs/cgroup")
    assert Path(found.of("cpu").root).is_dir()


LAYOUTS = [
    (Driver.CGROUPFS, "", f"kubepods/besteffort/pod{UID}"),
    (Driver.SYSTEMD, "", f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice"),
    (
        Driver.SYSTEMD,
        "kubelet",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{SLICE_UID}.slice",
    ),
    (Driver.CGROUPFS, "kubelet/deep", f"kubelet/deep/kubepods/besteffort/pod{UID}"),
]


@pytest.mark.parametrize(("driver", "parent", "pod"), LAYOUTS)
def test_pod_paths_are_named_and_read_back(driver: Driver, parent: str, pod: str) -> None:
    layout = Layout(driver, parent)
    assert layout.pod_dir(KubeQoS.BEST_EFFORT, UID) == pod
    assert layout.pod_uid(Path(pod).name) == UID
    assert layout.pod_uid(Path(pod).parent.name) is None
    container = layout.container_dir(KubeQoS.BEST_EFFORT, UID, "containerd://abc123")
    assert container == f"{pod}/{'abc123' if driver is Driver.CGROUPFS else 'cri-containerd-abc123.scope'}"
    assert layout.container_id(Path(container).name) == "abc123"


def test_a_cgroup_root_given_as_a_slice_path_means_the_same() -> None:
    named, sliced = Layout(Driver.SYSTEMD, "a/b"), Layout(Driver.SYSTEMD, "a.slice/a-b.slice")
    assert named.class_dir(KubeQoS.BURSTABLE) == sliced.class_dir(KubeQoS.BURSTABLE)


def test_guaranteed_pods_lie_in_the_kube_root() -> None:
    assert Layout(Driver.CGROUPFS).pod_dir(KubeQoS.GUARANTEED, "u") == "kubepods/podu"
    assert Layout(Driver.SYSTEMD).pod_dir(KubeQoS.GUARANTEED, "u") == "kubepods.slice/kubepods-podu.slice"


@pytest.fixture
def mounts(tmp_path: Path) -> CgroupMounts:
    return CgroupMounts({"cpu": Hierarchy(1, str(tmp_path))}, None)


def make(tmp_path: Path, layout: Layout, qos: KubeQoS, uid: str, *containers: str) -> Path:
    path = tmp_path / layout.pod_dir(qos, uid)
    path.mkdir(parents=True)
    for container in containers:
        (tmp_path / layout.container_dir(qos, uid, container)).mkdir()
    return path


def test_the_driver_is_found_from_the_tree_with_pods(tmp_path: Path, mounts: CgroupMounts) -> None:
    with pytest.raises(Unsupported, match="--cgroup-parent"):
        find_layout(mounts, "/", "auto")
    make(tmp_path, Layout(Driver.CGROUPFS), KubeQoS.BURSTABLE, "one")
    (tmp_path / "kubepods.slice").mkdir()
    assert find_layout(mounts, "/", "auto").driver is Driver.CGROUPFS
    assert find_layout(mounts, "/", "systemd").driver is Driver.SYSTEMD


@pytest.mark.parametrize("driver", list(Driver))
def test_pods_and_containers_are_discovered_as_they_come_and_go(
    tmp_path: Path, mounts: CgroupMounts, driver: Driver
) -> None:
    layout = Layout(driver)
    first = make(tmp_path, layout, KubeQoS.BEST_EFFORT, "a-1", "containerd://c1")
    make(tmp_path, layout, KubeQoS.GUARANTEED, "g-1")
    (tmp_path / layout.class_dir(KubeQoS.BEST_EFFORT) / "stray").mkdir()
    discovery = Discovery(mounts, layout)
    found = {pod.uid: pod for pod in discovery.refresh()}
    assert found.keys() == {"a-1", "g-1"}
    assert found["a-1"].kube_qos is KubeQoS.BEST_EFFORT
    assert [one.container_id for one in found["a-1"].containers] == ["c1"]
    assert not discovery.is_changed()

    (tmp_path / layout.container_dir(KubeQoS.BEST_EFFORT, "a-1", "containerd://c2")).mkdir()
    assert len({pod.uid: pod for pod in discovery.refresh()}["a-1"].containers) == 2
    make(tmp_path, layout, KubeQoS.BURSTABLE, "b-1")
    assert discovery.is_changed()
    assert {pod.uid for pod in discovery.refresh()} == {"a-1", "g-1", "b-1"}
    for child in first.iterdir():
        child.rmdir()
    first.rmdir()
    assert {pod.uid for pod in discovery.refresh()} == {"g-1", "b-1"}


def test_a_missing_kube_root_is_said_with_its_path(tmp_path: Path, mounts: CgroupMounts) -> None:
    with pytest.raises(Unsupported, match=str(tmp_path)):
        Discovery(mounts, Layout(Driver.CGROUPFS)).refresh()
