import os
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo import cgroup_values
from sandbox.demo.accounting import Accountant, CpuTimes, descendants, use_between
from sandbox.demo.cgroup_values import (
    CgroupValues,
    locate,
    of_this_machine,
    parse_quota,
    pod_path,
    qos_path,
    why_not_writable,
)
from sandbox.node.mounts import CgroupMounts

MACHINE = of_this_machine()
needs_cgroups = pytest.mark.skipif(bool(why_not_writable(MACHINE)), reason=why_not_writable(MACHINE) or "has cgroups")


def busy(seconds):
    return [sys.executable, "-S", "-c", f"import time\nwhile time.process_time() < {seconds}: pass"]


@pytest.fixture
def cgroup():
    """A cgroup of our own in the hierarchies that count CPU time; relative path."""
    path = PurePosixPath(f"koord-test-{os.getpid()}")
    mounts = dict.fromkeys((MACHINE.cpu, MACHINE.accounting))
    for mount in mounts:
        (mount / path).mkdir()
    yield path
    for mount in mounts:
        (mount / path).rmdir()


@needs_cgroups
def test_cpu_time_of_a_cgroup_is_seen_as_the_service_and_nowhere_else(cgroup):
    accountant = Accountant(MACHINE)
    accountant.service_path = cgroup
    before = accountant.take()
    worker = subprocess.Popen([*busy(1.0)], preexec_fn=lambda: enter(cgroup))
    worker.wait()
    use = use_between(before, accountant.take(), os.cpu_count())
    assert use.service * use.seconds == pytest.approx(1.0, rel=0.15)
    assert use.components == use.cluster == use.batch == 0


def enter(cgroup):
    for mount in dict.fromkeys((MACHINE.cpu, MACHINE.accounting)):
        (mount / cgroup / "cgroup.procs").write_text(str(os.getpid()))


def test_cpu_time_of_a_process_and_its_children_is_counted_once():
    accountant = Accountant(MACHINE or CgroupValues(Path("/nowhere"), Path("/nowhere"), 1))
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", f"import subprocess, time\nsubprocess.Popen({busy(0.6)!r})\ntime.sleep(30)"]
    )
    try:
        accountant.component_pids = (parent.pid,)
        accountant.cluster_pids = (parent.pid, os.getpid())
        before = accountant.take()
        deadline = time.monotonic() + 20
        used = 0.0
        while used < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
            use = use_between(before, accountant.take(), os.cpu_count())
            used = use.components * use.seconds
        assert used >= 0.5
        assert use.cluster * use.seconds < 0.5
    finally:
        parent.kill()
        parent.wait()


times = st.floats(0, 1000)


@given(idle=times, steal=st.floats(0, 10), service=times, seconds=st.floats(0.1, 100))
def test_parts_are_never_negative_and_add_up_when_they_can(idle, steal, service, seconds):
    before = CpuTimes(0.0, 0.0, 0.0, service={"a": 0.0})
    after = CpuTimes(seconds, idle, steal, service={"a": service})
    use = use_between(before, after, 2)
    assert min(use.idle, use.steal, use.service, use.outside) >= 0
    if idle + steal + service <= 2 * seconds:
        assert use.idle + use.steal + use.service + use.outside == pytest.approx(2, abs=1e-6)


def test_members_that_appear_count_from_zero_and_those_that_go_do_not_count():
    before = CpuTimes(0.0, 0.0, 0.0, batch={"gone": 5.0, "stays": 1.0})
    after = CpuTimes(10.0, 0.0, 0.0, batch={"stays": 3.0, "new": 4.0})
    assert use_between(before, after, 2).batch == pytest.approx(0.6)


def test_no_time_between_two_moments_is_refused():
    moment = CpuTimes(1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="no time"):
        use_between(moment, moment, 2)


def test_descendants_follow_children_of_children_and_survive_a_cycle():
    assert descendants({1: [2], 2: [3, 1], 9: [8]}, [1]) == {1, 2, 3}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("150000 100000", 1.5), ("-1 100000", None), ("max 100000", None), ("", None), ("2000", None)],
)
def test_quotas_read_as_cpus(text, cpus):
    assert parse_quota(text) == cpus


def test_version_2_files_are_read(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    values = locate(CgroupMounts({}, tmp_path))
    pod = tmp_path / "x"
    pod.mkdir()
    for name, text in {
        "cpu.stat": "nr_periods 0\nusage_usec 2500000\n",
        "cpu.weight": "39",
        "cpu.max": "50000 100000",
    }.items():
        (pod / name).write_text(text)
    path = PurePosixPath("x")
    assert (values.usage_s(path), values.weight(path), values.quota_cpus(path)) == (2.5, 39, 0.5)
    assert values.usage_s(PurePosixPath("gone")) is None


def test_without_a_cpu_controller_the_reason_is_told(tmp_path):
    assert locate(CgroupMounts({}, None)) is None
    assert "no cgroup hierarchy" in why_not_writable(None)
    told = why_not_writable(CgroupValues(tmp_path / "gone", tmp_path / "gone", 2))
    assert "cannot make cgroups" in told


def test_pods_are_where_the_kubelet_puts_them():
    assert str(pod_path("/a", "BestEffort", "u1")) == "a/kubepods/besteffort/podu1"
    assert str(qos_path("a", "Guaranteed")) == "a/kubepods"
    assert cgroup_values.KUBEPODS == "kubepods"
