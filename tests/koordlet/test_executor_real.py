"""Writing and undoing in the real cgroups of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.qos import KubeQoS
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.executor import VERIFY_CYCLES, Executor
from koordlet.sysfs.journal import Journal, JournalLocked
from koordlet.sysfs.knobs import UNLIMITED, Knob

Tree = Any  # RealTree of conftest, which importlib mode does not let us import


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(str(tmp_path), "boot-1")
    yield journal
    journal.close()


@pytest.fixture
def executor(tree: Tree, journal: Journal) -> Executor:
    return Executor(tree.control, journal)


def quota(tree: Tree, group: str) -> str:
    found: str = tree.get(group, "cpu", "cpu.cfs_quota_us")
    return found


def shares(tree: Tree, group: str) -> str:
    found: str = tree.get(group, "cpu", "cpu.shares")
    return found


def apply(executor: Executor, *wishes: Wish, owner: Owner = Owner.SUPPRESS) -> Any:
    executor.begin_cycle()
    return executor.apply({owner: wishes})


def test_a_wish_is_written_and_the_original_comes_back_when_it_is_dropped(tree: Tree, executor: Executor) -> None:
    group = tree.best_effort
    applied = apply(executor, Wish(group, Knob.QUOTA, 50_000))
    assert applied.is_clean
    assert [(one.before, one.after) for one in applied.changed] == [("-1", "50000")]
    assert quota(tree, group) == "50000"

    applied = apply(executor)
    assert applied.changed[0].is_restore
    assert quota(tree, group) == "-1"
    assert not executor.journal.entries


def test_a_value_that_is_there_already_is_neither_written_nor_owned(tree: Tree, executor: Executor) -> None:
    applied = apply(executor, Wish(tree.best_effort, Knob.WEIGHT, 2, vital=True))
    assert not applied.changed
    assert not executor.journal.entries


def test_owners_outside_the_plan_keep_their_files(tree: Tree, executor: Executor) -> None:
    apply(executor, Wish(tree.best_effort, Knob.QUOTA, 50_000))
    apply(executor, Wish(tree.burstable, Knob.WEIGHT, 4096), owner=Owner.WEIGHTS)
    assert quota(tree, tree.best_effort) == "50000"
    assert shares(tree, tree.burstable) == "4096"


def test_a_foreign_value_becomes_the_original_and_is_replaced_at_once(tree: Tree, executor: Executor) -> None:
    group, wish = tree.burstable, Wish(tree.burstable, Knob.WEIGHT, 4096, vital=True)
    apply(executor, wish)
    tree.put(group, "cpu", "cpu.shares", "333")
    applied = apply(executor, wish)
    assert [one.found for one in applied.foreign] == ["333"]
    assert shares(tree, group) == "4096"
    assert executor.base(group, Knob.WEIGHT) == 333
    apply(executor)
    # the plan that was empty belongs to the same owner, so the file went back to what kubelet wrote last
    assert shares(tree, group) == "333"


def test_a_foreign_value_stays_when_the_file_is_given_back(tree: Tree, executor: Executor) -> None:
    apply(executor, Wish(tree.best_effort, Knob.QUOTA, 50_000))
    tree.put(tree.best_effort, "cpu", "cpu.cfs_quota_us", "77000")
    applied = apply(executor)
    assert applied.foreign[0].left
    assert quota(tree, tree.best_effort) == "77000"
    assert not executor.journal.entries


def test_a_reset_of_a_file_that_is_not_vital_is_found_within_a_few_cycles(tree: Tree, executor: Executor) -> None:
    group, wish = tree.burstable, Wish(tree.burstable, Knob.WEIGHT, 4096)
    apply(executor, wish)
    tree.put(group, "cpu", "cpu.shares", "1024")
    for _ in range(VERIFY_CYCLES):
        apply(executor, wish)
    assert shares(tree, group) == "4096"


def test_the_whole_tree_tightens_and_loosens_without_a_refusal(tree: Tree, executor: Executor) -> None:
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    groups = [tree.best_effort, pod, f"{pod}/a-c0"]
    for value in (80_000, 20_000, 150_000, UNLIMITED, 30_000):
        applied = apply(executor, *(Wish(group, Knob.QUOTA, value) for group in groups))
        assert applied.is_clean, applied
        assert [quota(tree, group) for group in groups] == [str(value)] * 3
    apply(executor)
    assert [quota(tree, group) for group in groups] == ["-1"] * 3


def test_cpu_sets_move_through_their_union(tree: Tree, executor: Executor) -> None:
    online = tree.get(tree.best_effort, "cpuset", "cpuset.cpus")
    if online in ("", "0"):
        pytest.skip("needs two CPUs")
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    groups = [tree.best_effort, pod, f"{pod}/a-c0"]
    tree.run(groups[2])
    for cpus in ({0}, {1}, {0, 1}, {0}):
        applied = apply(executor, *(Wish(group, Knob.CPUS, frozenset(cpus)) for group in groups))
        assert applied.is_clean, applied
        assert {tree.get(group, "cpuset", "cpuset.effective_cpus") for group in groups} == {
            "0-1" if cpus == {0, 1} else str(min(cpus))
        }
    apply(executor)
    assert tree.get(groups[2], "cpuset", "cpuset.cpus") == online


def test_children_with_a_larger_quota_are_cleared_and_come_back(tree: Tree, executor: Executor) -> None:
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    for group in (pod, f"{pod}/a-c0"):
        tree.put(group, "cpu", "cpu.cfs_quota_us", "150000")
    wish = Wish(tree.best_effort, Knob.QUOTA, 50_000, vital=True)
    assert apply(executor, wish).is_clean
    assert [quota(tree, group) for group in (tree.best_effort, pod, f"{pod}/a-c0")] == ["50000", "-1", "-1"]
    assert apply(executor, wish).is_clean  # and they stay cleared while the quota is wished for
    assert quota(tree, pod) == "-1"
    assert apply(executor).is_clean
    assert [quota(tree, group) for group in (tree.best_effort, pod, f"{pod}/a-c0")] == ["-1", "150000", "150000"]


def test_burst_comes_down_before_the_quota_and_back_after_it(tree: Tree, executor: Executor) -> None:
    group = tree.best_effort
    tree.put(group, "cpu", "cpu.cfs_quota_us", "300000")
    tree.put(group, "cpu", "cpu.cfs_burst_us", "300000")
    wish = Wish(group, Knob.QUOTA, 200_000, vital=True)
    assert apply(executor, wish).is_clean
    assert tree.get(group, "cpu", "cpu.cfs_burst_us") == "200000"
    assert apply(executor, wish).is_clean
    assert apply(executor).is_clean
    assert (quota(tree, group), tree.get(group, "cpu", "cpu.cfs_burst_us")) == ("300000", "300000")


def test_a_quota_means_the_same_under_another_period(tree: Tree, executor: Executor) -> None:
    group = tree.best_effort
    tree.put(group, "cpu", "cpu.cfs_period_us", "50000")
    apply(executor, Wish(group, Knob.QUOTA, 80_000))
    assert quota(tree, group) == "40000"
    reading = executor.current(group, Knob.QUOTA, vital=True)
    assert reading is not None
    assert reading.value == 80_000


def test_a_weight_is_left_alone_while_the_group_is_idle(tree: Tree, executor: Executor) -> None:
    group = tree.burstable
    if not tree.path(group, "cpu", "cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle")
    tree.put(group, "cpu", "cpu.idle", "1")
    applied = apply(executor, Wish(group, Knob.WEIGHT, 4096))
    assert "cpu.idle" in applied.unsupported[0]
    assert not executor.journal.entries


def test_a_refused_value_is_reported_retried_with_pauses_and_leaves_no_trace(tree: Tree, tmp_path: Path) -> None:
    now = [0.0]
    journal = Journal(str(tmp_path), "b")
    executor = Executor(tree.control, journal, clock=lambda: now[0])
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    tree.put(tree.best_effort, "cpu", "cpu.cfs_quota_us", "50000")
    wish = Wish(pod, Knob.QUOTA, 90_000)  # larger than its parent's, which is not ours to change
    assert "wanted 90000" in apply(executor, wish).failed[0].error
    assert not journal.entries
    assert not apply(executor, wish).failed, "it pauses"
    now[0] = 1.5
    assert apply(executor, wish).failed, "it tries again"
    now[0] = 3.0
    assert not apply(executor, wish).failed, "and pauses longer"
    tree.put(tree.best_effort, "cpu", "cpu.cfs_quota_us", "-1")
    now[0] = 10.0
    assert apply(executor, wish).is_clean
    assert quota(tree, pod) == "90000"
    journal.close()


def test_a_cgroup_that_ended_is_forgotten(tree: Tree, executor: Executor) -> None:
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    wish = Wish(pod, Knob.QUOTA, 90_000, vital=True)
    apply(executor, wish)
    tree.remove(pod)
    applied = apply(executor, wish)
    assert applied.is_clean
    assert not executor.journal.entries


def test_a_missing_file_is_unsupported_not_an_error(tree: Tree, executor: Executor) -> None:
    applied = apply(executor, Wish(tree.burstable.removesuffix("burstable"), Knob.WEIGHT, 4096))
    assert applied.is_clean or applied.unsupported
    missing = Wish("", Knob.MEMORY, 1 << 30)  # the root has no limit that could be set
    applied = apply(executor, missing)
    assert applied.unsupported or applied.failed
    assert not executor.journal.entries or missing.key not in executor.journal.entries


def test_memory_limits_are_written_in_whole_pages_once(tree: Tree, executor: Executor) -> None:
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    wish = Wish(pod, Knob.MEMORY, (64 << 20) + 123, vital=True)
    assert len(apply(executor, wish).changed) == 1
    assert tree.get(pod, "memory", "memory.limit_in_bytes") == str(64 << 20)
    assert not apply(executor, wish).changed
    assert apply(executor).is_clean
    assert int(tree.get(pod, "memory", "memory.limit_in_bytes")) > 1 << 60


def test_everything_comes_back_after_a_kill(tree: Tree, tmp_path: Path) -> None:
    pod = tree.pod(KubeQoS.BEST_EFFORT, "a")
    code = f"""
import os, signal
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.control import ControlFiles
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.journal import Journal
from koordlet.sysfs.knobs import Knob
from koordlet.sysfs.mounts import find_mounts
executor = Executor(ControlFiles(find_mounts("/proc", "/sys/fs/cgroup")), Journal({str(tmp_path)!r}, "boot-1"))
be, pod = {tree.best_effort!r}, {pod!r}
for quota in (90_000, 60_000, 30_000):
    executor.begin_cycle()
    executor.apply({{Owner.SUPPRESS: [Wish(be, Knob.QUOTA, quota), Wish(pod, Knob.QUOTA, quota)],
                     Owner.WEIGHTS: [Wish({tree.burstable!r}, Knob.WEIGHT, 9999)],
                     Owner.BATCH: [Wish(pod, Knob.MEMORY, 64 << 20), Wish(pod, Knob.WEIGHT, 512)]}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    before = shares(tree, tree.burstable)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert quota(tree, tree.best_effort) == "30000"
    assert (shares(tree, tree.burstable), shares(tree, pod)) == ("9999", "512")

    journal = Journal(str(tmp_path), "boot-1")
    assert len(journal.entries) == 5
    applied = Executor(tree.control, journal).restore_all()
    assert applied.is_clean
    assert len(applied.changed) == 5
    assert (quota(tree, tree.best_effort), quota(tree, pod)) == ("-1", "-1")
    assert (shares(tree, tree.burstable), shares(tree, pod)) == (before, "2")
    journal.close()


def test_the_journal_of_another_boot_is_void(tree: Tree, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "boot-1")
    apply(Executor(tree.control, journal), Wish(tree.best_effort, Knob.QUOTA, 50_000))
    journal.close()
    later = Journal(str(tmp_path), "boot-2")
    assert not later.entries
    later.close()


def test_two_agents_cannot_share_a_state_directory(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(JournalLocked):
        Journal(str(tmp_path), "boot-1")


def test_two_owners_of_one_file_are_a_conflict_that_the_first_wins(tree: Tree, executor: Executor) -> None:
    group = tree.best_effort
    executor.begin_cycle()
    applied = executor.apply(
        {Owner.BATCH: [Wish(group, Knob.QUOTA, 10_000)], Owner.SUPPRESS: [Wish(group, Knob.QUOTA, 20_000)]}
    )
    assert applied.conflicts == [(group, Knob.QUOTA)]
    assert quota(tree, group) == "20000"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_nothing_is_written_when_the_journal_cannot_be(tree: Tree, executor: Executor) -> None:
    os.close(executor.journal._fd)
    executor.journal._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        apply(executor, Wish(tree.best_effort, Knob.QUOTA, 50_000))
    assert quota(tree, tree.best_effort) == "-1"
