"""cgroup v2 over plain files: names, units and undoing. What a real v2 kernel refuses is not to be seen here."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.control import ControlFiles
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.groupstats import GroupStats
from koordlet.sysfs.journal import Journal
from koordlet.sysfs.knobs import UNLIMITED, Knob
from koordlet.sysfs.mounts import CgroupMounts, Hierarchy

BE = "kubepods.slice/kubepods-besteffort.slice"
FILES = {
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.weight": "1\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\nsystem_usec 2\nnr_periods 10\nnr_throttled 4\nthrottled_usec 9\n",
    "cpuset.cpus": "\n",
    "memory.max": "max\n",
    "memory.stat": "anon 900\nfile 500\nkernel 50\nsock 0\ninactive_anon 300\nactive_anon 600\ninactive_file 200\n"
    "active_file 300\nunevictable 10\n",
}


@pytest.fixture
def mounts(tmp_path: Path) -> CgroupMounts:
    tree = Hierarchy(2, str(tmp_path / "cgroup"))
    group = tmp_path / "cgroup" / BE
    group.mkdir(parents=True)
    for name, text in FILES.items():
        (group / name).write_text(text)
    return CgroupMounts(dict.fromkeys(("cpu", "cpuacct", "cpuset", "memory"), tree), tree.root)


def content(tmp_path: Path, file: str) -> str:
    return (tmp_path / "cgroup" / BE / file).read_text().strip()


@pytest.mark.parametrize(
    ("knob", "value", "file", "text", "original"),
    [
        (Knob.QUOTA, 150_000, "cpu.max", "150000 100000", "max 100000"),
        (Knob.WEIGHT, 256, "cpu.weight", "256", "1"),
        (Knob.CPUS, frozenset({0, 1, 2, 8}), "cpuset.cpus", "0-2,8", ""),
        (Knob.MEMORY, 1 << 30, "memory.max", str(1 << 30), "max"),
    ],
)
def test_knobs_are_written_in_v2_terms_and_undone(
    tmp_path: Path, mounts: CgroupMounts, knob: Knob, value: int, file: str, text: str, original: str
) -> None:
    journal = Journal(str(tmp_path / "state"), "b")
    executor = Executor(ControlFiles(mounts), journal)
    executor.begin_cycle()
    assert executor.apply({Owner.SUPPRESS: [Wish(BE, knob, value)]}).is_clean
    assert content(tmp_path, file) == text
    executor.begin_cycle()
    executor.apply({Owner.SUPPRESS: []})
    assert content(tmp_path, file) == original
    assert not journal.entries
    journal.close()


def test_a_quota_follows_the_period_of_the_group(tmp_path: Path, mounts: CgroupMounts) -> None:
    control = ControlFiles(mounts)
    assert control.read(BE, Knob.QUOTA).value == UNLIMITED
    (tmp_path / "cgroup" / BE / "cpu.max").write_text("20000 50000\n")
    assert control.read(BE, Knob.QUOTA).value == 40_000
    assert control.render(BE, Knob.QUOTA, 60_000) == "30000 50000"
    assert control.same(Knob.QUOTA, "150000 100000", "150000")
    assert control.same(Knob.MEMORY, "max", "max\n")


def test_usage_is_read_in_v2_units(mounts: CgroupMounts) -> None:
    stats = GroupStats(mounts, BE)
    assert stats.usage_ns() == 2_500_000_000
    assert stats.throttling() == (10, 4)
    memory = stats.memory()
    assert memory is not None
    assert (memory.without_cache, memory.with_cache, memory.working_set) == (910, 1410, 1250)
    stats.close()


def test_files_that_may_not_be_opened_are_told_apart_from_files_that_are_missing() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody without rights")
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        group = Path(root, "be")
        group.mkdir(mode=0o755)
        for name, mode in (("cpu.weight", 0o600), ("cpu.max", 0o444)):
            (group / name).write_text(FILES[name])
            (group / name).chmod(mode)
        code = f"""
import os
from koordlet.sysfs import control, knobs
from koordlet.sysfs.mounts import CgroupMounts, Hierarchy
tree = Hierarchy(2, {root!r})
files = control.ControlFiles(CgroupMounts(dict.fromkeys(("cpu", "cpuset", "memory"), tree), tree.root))
os.setegid(65534), os.seteuid(65534)
def kind(work):
    try:
        work()
    except Exception as error:
        return type(error).__name__
print(kind(lambda: files.read("be", knobs.Knob.WEIGHT)), kind(lambda: files.read("be", knobs.Knob.MEMORY)),
      kind(lambda: files.write("be", knobs.Knob.QUOTA, "1")), kind(lambda: files.read("gone", knobs.Knob.QUOTA)))
"""
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["NotPermitted", "Unsupported", "NotPermitted", "CgroupGone"], found.stderr


def test_v2_weights_have_their_own_range(mounts: CgroupMounts) -> None:
    form = ControlFiles(mounts).form(Knob.WEIGHT)
    assert (form.lowest, form.highest) == (1, 10_000)
