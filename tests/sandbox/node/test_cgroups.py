"""Cgroups of this machine, below a parent of the test's own."""

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from sandbox.node.cgroups import CgroupParentTaken, CgroupsUnavailable, CgroupTree, Hierarchy, find_hierarchies
from sandbox.node.kubelet_rules import CgroupSettings
from sandbox.node.mounts import CgroupMounts

LEAF = PurePosixPath("kubepods/leaf")


def knob(tree: CgroupTree, controller: str, path: PurePosixPath, v1: str, v2: str) -> str:
    for hierarchy in tree.hierarchies:
        if controller in hierarchy.controllers:
            name = v1 if hierarchy.version == 1 else v2
            return (hierarchy.root / tree.parent / path / name).read_text().strip()
    pytest.skip(f"no {controller} controller here")


def test_settings_are_written_in_every_hierarchy(tree: CgroupTree) -> None:
    tree.create(LEAF.parent, CgroupSettings(1024, 200_000, 1 << 30))
    tree.create(LEAF, CgroupSettings(512, 50_000, 1 << 26), leaf=True)
    assert knob(tree, "cpu", LEAF, "cpu.shares", "cpu.weight") in ("512", "20")
    assert knob(tree, "cpu", LEAF, "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    assert knob(tree, "memory", LEAF, "memory.limit_in_bytes", "memory.max") == str(1 << 26)


def test_without_limits_the_kernel_keeps_its_defaults(tree: CgroupTree) -> None:
    tree.create(LEAF.parent, CgroupSettings())
    assert knob(tree, "cpu", LEAF.parent, "cpu.shares", "cpu.weight") in ("2", "1")
    assert knob(tree, "cpu", LEAF.parent, "cpu.cfs_quota_us", "cpu.max").split()[0] in ("-1", "max")


def test_a_process_can_enter_every_hierarchy_and_is_killed_and_removed(tree: CgroupTree) -> None:
    tree.create(LEAF.parent, CgroupSettings())
    tree.create(LEAF, CgroupSettings(), leaf=True)
    enter = 'for file do echo $$ > "$file"; done; exec sleep 1000'
    process = subprocess.Popen(["sh", "-c", enter, "sh", *tree.procs_files(LEAF)], stdout=subprocess.PIPE)
    listed = f"/{tree.parent}/{LEAF}"
    cgroups = Path(f"/proc/{process.pid}/cgroup")
    while (
        cgroups.read_text().count(listed) < len(tree.hierarchies)
        or b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ):
        assert process.poll() is None
    assert not tree.remove(LEAF)
    assert tree.kill(LEAF) > 0
    assert process.wait(5) == -9
    assert tree.remove(LEAF)
    assert tree.kill(LEAF) == 0
    process.communicate()


def test_a_refused_setting_is_no_reason_to_stop(tree: CgroupTree, caplog: pytest.LogCaptureFixture) -> None:
    tree.create(LEAF.parent, CgroupSettings(2, 10_000))
    tree.create(LEAF, CgroupSettings(2, 20_000))  # v1: a child may not have more than its parent
    if any(h.version == 1 and "cpu" in h.controllers for h in tree.hierarchies):
        assert "the kernel refused a cgroup setting" in caplog.text


def test_kubepods_of_somebody_else_are_not_touched(tree: CgroupTree) -> None:
    tree.create(PurePosixPath("kubepods"), CgroupSettings())
    second = CgroupTree(tree.hierarchies, tree.parent)
    with pytest.raises(CgroupParentTaken, match="exists already and is not ours"):
        second.claim(lambda directory: None)


def test_a_hierarchy_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    missing = Hierarchy(tmp_path / "no such mount", frozenset({"cpu"}), 1)
    made: list[Path] = []
    with pytest.raises(CgroupsUnavailable, match=r"no writable cgroup hierarchy: .*no such mount"):
        CgroupTree([missing], PurePosixPath("p")).claim(made.append)
    assert made == [tmp_path / "no such mount" / "p"]
    with pytest.raises(CgroupsUnavailable, match="no cgroup hierarchy is mounted"):
        CgroupTree([], PurePosixPath("p")).claim(made.append)


def test_version_two_gives_its_controllers_to_the_children(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu io memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (found,) = find_hierarchies(CgroupMounts({"pids": tmp_path / "pids"}, tmp_path))[1:]
    assert found == Hierarchy(tmp_path, frozenset({"cpu", "memory"}), 2)


def test_what_is_made_below_a_parent_of_somebody_else_is_told_and_its_weight_left(tree: CgroupTree) -> None:
    made: list[Path] = []
    inner = CgroupTree(tree.hierarchies, tree.parent / "a" / "b")
    before = [knob(tree, "cpu", PurePosixPath(), "cpu.shares", "cpu.weight")]
    for hierarchy in tree.hierarchies:
        (hierarchy.root / tree.parent / "kubepods").rmdir()
    inner.claim(made.append)
    inner.weigh_parents(2048)
    assert set(made) == {h.root / tree.parent / "a" for h in tree.hierarchies}
    assert knob(inner, "cpu", PurePosixPath(".."), "cpu.shares", "cpu.weight") in ("2048", "79")
    assert knob(inner, "cpu", PurePosixPath(), "cpu.shares", "cpu.weight") in ("2048", "79")
    assert [knob(tree, "cpu", PurePosixPath(), "cpu.shares", "cpu.weight")] == before


def test_in_a_parent_that_was_there_before_only_kubepods_is_ours(tree: CgroupTree) -> None:
    made: list[Path] = []
    for hierarchy in tree.hierarchies:
        (hierarchy.root / tree.parent / "kubepods").rmdir()
    CgroupTree(tree.hierarchies, tree.parent).claim(made.append)
    assert set(made) == {h.root / tree.parent / "kubepods" for h in tree.hierarchies}
