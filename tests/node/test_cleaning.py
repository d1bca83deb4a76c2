"""What is left when the tests are killed: cgroups and a folder, which go at the next start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.control_plane import wait_until
from tests.node import cgroups, machine

_KEEPS_AN_ENCLOSURE = """
import signal, sys
from pathlib import Path
from tests.node.enclosure import Enclosure
enclosure = Enclosure(Path(sys.argv[1]))
enclosure.launch("program", ["sh", "-c", "mount -t tmpfs none /run; sleep 1000 & exec sleep 1001"], {})
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def free_machine(wanted: None) -> None:
    """No node is here, neither ours nor somebody's."""
    if machine.FOLDER.exists() or cgroups.roots():
        pytest.skip("this machine is a node now")


def inside(folder: Path) -> list[str]:
    """The processes whose files lie in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (process / "mountinfo").read_text():
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


def test_programs_and_mounts_end_with_the_process_that_keeps_them_even_when_it_is_killed(
    wanted: None, tmp_path: Path
) -> None:
    folder = tmp_path / "enclosure"
    folder.mkdir()
    mounts = Path("/proc/self/mounts").read_text()
    keeper = subprocess.Popen(
        [sys.executable, "-c", _KEEPS_AN_ENCLOSURE, str(folder)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert keeper.stdout is not None
    with keeper.stdout:
        assert keeper.stdout.readline() == b"up\n"
    wait_until(lambda: inside(folder).count("sleep") >= 2, "the programs run")
    keeper.send_signal(signal.SIGKILL)
    keeper.wait()
    wait_until(lambda: not inside(folder), "the programs have ended")
    assert Path("/proc/self/mounts").read_text() == mounts


def test_the_next_start_removes_the_cgroups_of_a_run_that_was_killed(free_machine: None) -> None:
    machine.claim()
    for controller in ("cpu", "memory"):
        (cgroups.MOUNTS / controller / "kubepods/besteffort/pod1/c1").mkdir(parents=True)
    machine.clean()
    assert not cgroups.roots()
    assert not machine.FOLDER.exists()


def test_cgroups_of_another_kubelet_are_left_alone(free_machine: None) -> None:
    foreign = cgroups.MOUNTS / "cpu/kubepods"
    foreign.mkdir()
    try:
        with pytest.raises(machine.CannotBeNode, match="is a Kubernetes node already"):
            machine.claim()
        machine.clean()
        assert foreign.exists()
    finally:
        foreign.rmdir()
