"""Where cgroup hierarchies are found."""

from pathlib import Path

from sandbox.node.mounts import parse_mountinfo

SEPARATE = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_each_controller_in_a_hierarchy_of_its_own_beside_a_unified_one() -> None:
    mounts = parse_mountinfo(SEPARATE)
    assert mounts.v1 == {"cpu": Path("/sys/fs/cgroup/cpu"), "memory": Path("/sys/fs/cgroup/memory")}
    assert mounts.unified == Path("/sys/fs/cgroup/unified")


def test_controllers_mounted_together_share_a_root() -> None:
    mounts = parse_mountinfo("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n")
    assert mounts.v1["cpu"] == mounts.v1["cpuacct"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert len(mounts.roots()) == 1


def test_version_two_alone() -> None:
    mounts = parse_mountinfo("30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n")
    assert (mounts.v1, mounts.unified) == ({}, Path("/sys/fs/cgroup"))


def test_the_first_of_several_mounts_counts_and_escapes_are_undone() -> None:
    text = "1 1 0:1 / /a\\040b rw - cgroup c rw,cpu\n2 1 0:1 / /late rw - cgroup c rw,cpu\nnonsense\n3 1\n"
    assert parse_mountinfo(text).v1 == {"cpu": Path("/a b")}
