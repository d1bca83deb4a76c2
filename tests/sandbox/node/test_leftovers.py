"""A run that was killed is cleaned by its guardian or by the next start; nothing else is touched."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.node import identity, leftovers
from sandbox.node.cgroup_dirs import members
from sandbox.node.cgroups import CgroupTree
from sandbox.node.leftovers import Journal, RunIsAlive, RunLock

DYING_RUN = """
import os, signal, subprocess, sys
from pathlib import Path, PurePosixPath
from sandbox.node import cgroups, guardian, kubelet_rules, leftovers, mounts
run, parent, guarded = Path(sys.argv[1]), PurePosixPath(sys.argv[2]), sys.argv[3] == "guarded"
run.mkdir()
lock, journal = leftovers.RunLock(run), leftovers.Journal(run, sys.argv[2])
tree = cgroups.CgroupTree(cgroups.find_hierarchies(mounts.read_mounts(Path("/proc"))), parent)
if sys.argv[4] == "confined":
    tree.claim(journal.cgroup)
    tree.create(PurePosixPath("leaf"), kubelet_rules.CgroupSettings(), leaf=True)
    procs = tree.procs_files(PurePosixPath("leaf"))
else:
    procs = []
if guarded:
    guardian.Guardian(run)
enter = 'for file do echo $$ > "$file"; done; setsid sleep 1000 & echo $!; exec sleep 1000'
environment = {**os.environ, "KOORD_SANDBOX_RUN": sys.argv[2]}
process = subprocess.Popen(["sh", "-c", enter, "sh", *procs], env=environment, stdout=subprocess.PIPE)
journal.process(process.pid)
child = int(process.stdout.readline())
print(process.pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_run(state: Path, parent: str, guarded: bool, confined: bool) -> list[int]:
    """Let a run start two processes and kill itself; the pids of the processes."""
    arguments = [str(state / "run"), parent, "guarded" if guarded else "alone", "confined" if confined else "free"]
    done = subprocess.run(
        [sys.executable, "-c", DYING_RUN, *arguments], stdout=subprocess.PIPE, text=True, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return [int(word) for word in done.stdout.split()]


def until(holds: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


@pytest.fixture
def parent(tree: CgroupTree) -> str:
    """The name of a cgroup parent that can be made and is not there yet."""
    return f"{tree.parent}-dying"


def directories(tree: CgroupTree, parent: str) -> list[Path]:
    return [h.root / parent for h in tree.hierarchies if (h.root / parent).exists()]


def test_the_guardian_cleans_at_once(tree: CgroupTree, parent: str, tmp_path: Path) -> None:
    pids = killed_run(tmp_path, parent, guarded=True, confined=True)
    until(lambda: not (tmp_path / "run").exists())
    assert not directories(tree, parent)
    assert all(identity.start_ticks(pid) is None for pid in pids)


def test_the_next_start_cleans_what_nobody_guarded(tree: CgroupTree, parent: str, tmp_path: Path) -> None:
    pids = killed_run(tmp_path, parent, guarded=False, confined=True)
    assert all(identity.start_ticks(pid) is not None for pid in pids)
    assert len(directories(tree, parent)) == len(tree.hierarchies)
    (cleaned,) = leftovers.clean_dead_runs(tmp_path)
    assert (cleaned.processes, len(cleaned.cgroups), cleaned.stuck) == (2, len(tree.hierarchies), ())
    assert not directories(tree, parent)
    assert all(identity.start_ticks(pid) is None for pid in pids)
    assert leftovers.clean_dead_runs(tmp_path) == []


def test_without_cgroups_processes_are_known_by_their_mark(tmp_path: Path) -> None:
    pids = killed_run(tmp_path, f"koord-mark-{os.getpid()}", guarded=False, confined=False)
    (cleaned,) = leftovers.clean_dead_runs(tmp_path)
    assert (cleaned.processes, cleaned.cgroups) == (2, ())
    assert all(identity.start_ticks(pid) is None for pid in pids)


def test_a_live_run_is_not_touched(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    lock = RunLock(run)
    Journal(run, "alive").close()
    assert leftovers.clean_dead_runs(tmp_path) == []
    with pytest.raises(RunIsAlive, match="is alive"):
        RunLock(run)
    lock.release()
    assert [cleaned.run for cleaned in leftovers.clean_dead_runs(tmp_path)] == ["run"]
    assert not run.exists()


def test_a_pid_that_now_belongs_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    Journal(run, "other").close()
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        ticks = identity.start_ticks(bystander.pid)
        assert ticks is not None
        with (run / leftovers.JOURNAL).open("a") as journal:
            journal.write(f'{{"pid": {bystander.pid}, "start": {ticks - 1}}}\n')
            journal.write('{"pid": 1')  # cut short by the kill
        RunLock(run).release()
        (cleaned,) = leftovers.clean_dead_runs(tmp_path)
        assert cleaned.processes == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_cgroup_that_was_made_anew_by_somebody_else_is_left_alone(tree: CgroupTree, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    directory = tree.hierarchies[0].root / tree.parent
    Journal(run, "other").close()
    with (run / leftovers.JOURNAL).open("a") as journal:
        journal.write(f'{{"cgroup": "{directory}", "inode": {directory.stat().st_ino + 1}}}\n')
    RunLock(run).release()
    (cleaned,) = leftovers.clean_dead_runs(tmp_path)
    assert cleaned.cgroups == ()
    assert directory.exists()
    assert members(directory) == set()


def test_what_another_boot_left_is_gone_already(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / leftovers.LOCK).touch()
    (run / leftovers.JOURNAL).write_text(
        f'{{"run": "r", "boot": "another", "sandbox": 1}}\n{{"cgroup": "{tmp_path}", "inode": null}}\n'
    )
    (cleaned,) = leftovers.clean_dead_runs(tmp_path)
    assert (cleaned.processes, cleaned.cgroups) == (0, ())
    assert tmp_path.exists()


def test_directories_that_are_no_runs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "something").mkdir()
    assert leftovers.clean_dead_runs(tmp_path) == []
    assert leftovers.clean_dead_runs(tmp_path / "missing") == []
    assert (tmp_path / "something").exists()
