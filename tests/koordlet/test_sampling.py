"""Counters into rates, rates into rings, rings into NodeMetric; a real cgroup against what a process really used."""

import resource
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.qos import KubeQoS
from koordlet.sampling.rates import MAX_GAP_S, CounterRate
from koordlet.sampling.sampler import Sampler, Windows
from koordlet.sampling.series import Series, wire_percentile
from koordlet.sysfs.discovery import Discovery
from koordlet.sysfs.errors import CgroupGone
from koordlet.sysfs.groupstats import GroupStats, number_after, parse_memory_stat
from koordlet.sysfs.proc import NodeFiles, parse_cpu_ticks, parse_meminfo, read_processors

Tree = Any  # RealTree of conftest, which importlib mode does not let us import


def test_rates_need_two_readings_and_survive_restarts_and_gaps() -> None:
    rate = CounterRate()
    assert rate.update(0.0, 1.0) is None
    assert rate.update(10.0, 6.0) == 0.5
    assert rate.update(20.0, 0.2) is None, "the counter began anew"
    assert rate.update(20.0, 0.3) is None, "no time passed"
    assert rate.update(21.0, 1.3) == 1.0
    assert rate.update(22.0 + MAX_GAP_S, 9.0) is None, "a gap"
    assert rate.update(23.0 + MAX_GAP_S, 9.5) == 0.5


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_percentiles_are_samples_ordered_and_never_above_the_exact_rank(values: list[float]) -> None:
    ordered = sorted(values)
    found = [wire_percentile(ordered, fraction) for fraction in (0.5, 0.9, 0.95, 0.99)]
    assert found == sorted(found)
    assert set(found) <= set(values)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 40), st.integers(1, 60))
def test_a_window_holds_exactly_the_samples_of_its_time(values: list[float], capacity: int, length: int) -> None:
    series = Series(capacity, 1.0)
    for second, value in enumerate(values):
        series.add(float(second), value)
    now = float(len(values) - 1)
    window = series.window(now, length)
    assert list(window.ordered) == sorted(values[-min(capacity, length) :])
    assert window.covered_s == len(window.ordered) - 1
    last = series.last()
    assert last == (now, values[-1])


def test_a_gap_is_not_covered() -> None:
    series = Series(400, 1.0)
    for second in [*range(10), *range(290, 300)]:
        series.add(float(second), 1.0)
    window = series.window(299.0, 300.0)
    assert window.covered_s == 9 + 1 + 9
    assert not window.is_reportable
    assert Series(4, 1.0).window(0.0, 10.0).average() is None


def test_proc_files_are_parsed_and_foreign_text_is_refused() -> None:
    assert parse_cpu_ticks(b"cpu  10 20 30 999 888 4 5 77 0 0\ncpu0 1 1 1\n") == 10 + 20 + 30 + 4 + 5
    with pytest.raises(ValueError, match="no cpu line"):
        parse_cpu_ticks(b"intr 1 2 3\n")
    memory = parse_meminfo(b"MemTotal:  64000000 kB\nMemFree: 2000000 kB\nMemAvailable: 40000000 kB\n")
    assert memory.used / memory.total == 0.375
    assert memory.with_cache == 62_000_000 * 1024
    with pytest.raises(ValueError, match="MemAvailable"):
        parse_meminfo(b"MemTotal: 1 kB\n")


def test_memory_of_a_group_counts_its_children_and_leaves_cache_out() -> None:
    stat = (
        b"cache 100\nrss 5\ninactive_anon 1\nactive_anon 2\ntotal_cache 5000\ntotal_rss 900\n"
        b"total_inactive_anon 300\ntotal_active_anon 600\ntotal_inactive_file 2000\ntotal_active_file 3000\n"
        b"total_unevictable 7\n"
    )
    memory = parse_memory_stat(stat, 1)
    assert (memory.without_cache, memory.with_cache, memory.working_set) == (907, 5907, 3900)
    assert parse_memory_stat(b"", 1).working_set == 0
    assert number_after(b"xnr_periods 9\nnr_periods 3", b"nr_periods ") == 3
    assert number_after(b"nothing", b"nr_periods ") == 0


def test_offline_cpus_do_not_exist(tmp_path: Any) -> None:
    cpu = tmp_path / "system/cpu"
    for number in (1, 2, 8):
        topology = cpu / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number % 2}\n")
        (topology / "physical_package_id").write_text(f"{number // 8}\n")
    (cpu / "online").write_text("1-2,8\n")
    node = tmp_path / "system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("8-15\n")
    found = read_processors(str(tmp_path))
    assert [one.cpu for one in found] == [1, 2, 8]
    assert [one.numa for one in found] == [0, 0, 1]
    assert len({one.core for one in found}) == 3
    assert read_processors(str(tmp_path / "missing")) == []


def test_what_a_process_uses_is_what_is_sampled(tree: Tree) -> None:
    pod = tree.pod(KubeQoS.BURSTABLE, "a", containers=2)
    process = tree.run(f"{pod}/a-c0", "held = bytearray(50 << 20)\nwhile True: pass")
    files = NodeFiles("/proc")
    sampler = Sampler(tree.mounts, files, Windows(0.2, 60, 60))
    discovery = Discovery(tree.mounts, tree.layout)
    usage = GroupStats(tree.mounts, pod)
    before_ns, began = usage.usage_ns(), time.monotonic()
    first = sampler.sample(began, discovery.refresh(), tree.best_effort)
    assert first.node_cpu_cores is None
    assert first.pods[pod].cpu_cores is None
    while usage.usage_ns() - before_ns < 300_000_000:
        time.sleep(0.01)
    used_s, ended = (usage.usage_ns() - before_ns) * 1e-9, time.monotonic()
    second = sampler.sample(ended, discovery.refresh(), tree.best_effort)
    assert second.pods[pod].cpu_cores == pytest.approx(used_s / (ended - began), rel=0.1)
    assert second.containers[f"{pod}/a-c0"].cpu_cores == pytest.approx(second.pods[pod].cpu_cores, rel=0.1)
    assert second.containers[f"{pod}/a-c1"].cpu_cores == 0
    assert second.best_effort_cpu_cores == 0
    assert second.node_cpu_cores is not None
    extra, deadline = 0, time.monotonic() + 20
    # Memory comes in turns; the kernel sums its per-cpu counters up to two seconds late, and keeps a few pages back.
    while (second.pods[pod].memory_bytes or 0) <= 49 << 20:
        assert time.monotonic() < deadline, second.pods[pod].memory_bytes
        time.sleep(0.01)
        extra += 1
        second = sampler.sample(ended + extra, discovery.refresh(), tree.best_effort)
    tree.end(process)
    tree.remove(pod)
    assert not sampler.sample(ended + extra + 1, discovery.refresh(), tree.best_effort).pods
    with pytest.raises(CgroupGone):
        usage.usage_ns()
    usage.close()
    sampler.close()
    files.close()


def test_throttling_of_a_quota_is_seen(tree: Tree) -> None:
    pod = tree.pod(KubeQoS.BURSTABLE, "a")
    tree.put(pod, "cpu", "cpu.cfs_quota_us", "10000")
    tree.run(f"{pod}/a-c0")
    files = NodeFiles("/proc")
    sampler = Sampler(tree.mounts, files, Windows(0.5, 60, 60))
    discovery = Discovery(tree.mounts, tree.layout)
    while "nr_throttled 0" in tree.get(pod, "cpu", "cpu.stat"):
        time.sleep(0.01)
    for _ in range(2):
        sample = sampler.sample(time.monotonic(), discovery.refresh(), tree.best_effort)
        time.sleep(0.5)
    sample = sampler.sample(time.monotonic(), discovery.refresh(), tree.best_effort)
    ratio = sample.pods[pod].throttled_ratio
    assert ratio is not None
    assert ratio > 0.5
    sampler.close()
    files.close()


def test_descriptors_are_let_go(tree: Tree) -> None:
    files = NodeFiles("/proc")
    sampler = Sampler(tree.mounts, files, Windows(1, 60, 60))
    discovery = Discovery(tree.mounts, tree.layout)

    def lowest_free() -> int:
        import os

        fd = os.dup(0)
        os.close(fd)
        return fd

    sampler.sample(1.0, discovery.refresh(), tree.best_effort)
    before = lowest_free()
    for turn in range(3):
        pod = tree.pod(KubeQoS.BEST_EFFORT, f"p{turn}", containers=2)
        sampler.sample(2.0 + turn, discovery.refresh(), tree.best_effort)
        tree.remove(pod)
        sampler.sample(2.5 + turn, discovery.refresh(), tree.best_effort)
    assert lowest_free() == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
    sampler.close()
    files.close()
