"""Recorded cases of suppression: budgets, quota steps, CPU counts, outcomes of a tick, choices of CPUs."""

from typing import Any

import pytest

from koord.api.qos import KubeQoS, QoSClass
from koordlet.suppress import cpuset
from koordlet.suppress.budget import HostApplicationUse, NodeCapacity, PodUse, compute_budget
from koordlet.suppress.quota import step_quota
from koordlet.suppress.tick import Action, Presence, TickInput, TickLimits, decide_tick
from koordlet.sysfs import cpulist
from koordlet.sysfs.knobs import Knob
from koordlet.sysfs.ordering import Change, order_writes

Case = dict[str, Any]
LIMITS = TickLimits(fresh_s=2.0, stale_s=10.0)


def budget(given: Case, expect: Case) -> None:
    node = given["node"]
    reservation = node.get("reservation_annotation", {})
    usage = dict(given.get("pod_usage_cores", {}))
    pods = [
        PodUse(
            pod["uid"],
            QoSClass(pod["qos_label"]) if pod["qos_label"] else None,
            KubeQoS(pod["kube_qos"]),
            usage.pop(pod["uid"], None),
        )
        for pod in given["pods"]
    ]
    apps_usage = given.get("host_app_usage_cores", {})
    apps = [
        HostApplicationUse(app["name"], app["qos"], app.get("cgroup_base", ""), apps_usage.get(app["name"]))
        for app in given.get("host_apps", [])
    ]
    found = compute_budget(
        NodeCapacity(node["capacity_milli"], node.get("allocatable_milli"), reservation.get("cpu_milli", 0)),
        given["node_usage_cores"],
        pods,
        apps,
        given["threshold_percent"],
        given.get("min_percent"),
        usage,
    )
    assert found.budget_milli == expect["budget_milli"]
    assert found.protected_pods_milli == expect["non_be_pods_milli"]
    assert found.protected_host_apps_milli == expect["non_be_host_apps_milli"]
    assert found.system_milli == expect["system_milli"]


def cfs_quota(given: Case, expect: Case) -> None:
    step = step_quota(given["budget_milli"], given["current_quota_us"], given["capacity_milli"])
    assert step.quota_us == expect["quota_us"]
    assert step.is_write == (expect["action"] == "write")


def cpuset_count(given: Case, expect: Case) -> None:
    found = cpuset.target_count(given["budget_milli"], given["processors"], given["current_count"])
    assert (found.count, found.max_rise) == (expect["count"], expect["max_rise"])


QUOTA_TEXT = {"restore -1 once": Action.RESTORE, "untouched": Action.KEEP, "suppress": Action.SUPPRESS}
CPUSET_TEXT = {
    "untouched": Action.KEEP,
    "suppress": Action.SUPPRESS,
    "restore to pool for root, pods, containers": Action.RESTORE,
    "restore root and pod level, and containers of pods without an allocated cpuset or NUMA node": (
        Action.RESTORE_BUT_ALLOCATED
    ),
    "root and pods restored to pool, containers suppressed": Action.SUPPRESS_CONTAINERS,
}


def decision(given: Case, expect: Case) -> None:
    tick = decide_tick(
        TickInput(
            slo=Presence.PRESENT if given["node_slo"] else Presence.UNKNOWN,
            is_enabled=given["enable"] and given["gate_suppress"],
            policy=given["policy"],
            has_node=given["node"],
            pod_count=given["pods"],
            sample_age_s=given["node_sample_age_seconds"],
            has_processors=given["processor_info"],
            is_static_cpu_manager=given.get("kubelet_policy") == "static",
            is_be_cpu_manager=given["gate_be_cpu_manager"],
        ),
        LIMITS,
    )
    assert tick.quota == QUOTA_TEXT[expect["quota_root"]]
    assert tick.cpuset == CPUSET_TEXT[expect["cpuset"]]


def processors(given: Case) -> list[cpuset.Cpu]:
    return [cpuset.Cpu(*row) for row in given["processors"]]


def excluded(given: Case) -> frozenset[int]:
    out = cpulist.parse(given.get("reserved_cpus", ""))
    return out | (cpulist.parse(given.get("system_qos_cpus", "")) if given.get("system_qos_exclusive") else out)


def pools(given: Case) -> cpuset.Pools:
    owners = [(QoSClass(pod["qos_label"]), cpulist.parse(pod["cpuset"])) for pod in given.get("pods", [])]
    return cpuset.split_pools(processors(given), owners, excluded(given))


def pick(given: Case, expect: Case) -> None:
    assert cpuset.pick(given["want"], processors(given)) == expect["cpus_in_order"]


def plan(given: Case, expect: Case) -> None:
    current = cpulist.parse(given["current_cpus"])
    step = cpuset.plan_cpus(given["budget_milli"], len(given["processors"]), current, pools(given))
    assert step.count == expect["target_count"]
    if expect.get("fault") == "division_by_zero":
        assert not step.is_write
        assert step.reason is cpuset.CpusetReason.NO_CANDIDATES
        return
    assert step.from_lsr == expect["from_lsr_pool"]
    assert cpulist.render(step.cpus) == expect["cpus"]
    assert step.is_write == (expect["action"] == "write")


def restore(given: Case, expect: Case) -> None:
    assert cpulist.render(cpuset.allowed_cpus(pools(given))) == expect["cpus"]


def apply_order(given: Case, expect: Case) -> None:
    current, target = cpulist.parse(given["current_cpus"]), cpulist.parse(given["target_cpus"])
    writes = order_writes([Change(group, Knob.CPUS, current, target) for group in given["tree"]])
    assert [[write.group, cpulist.render(frozenset(write.value))] for write in writes] == expect["writes"]  # type: ignore[arg-type]


RUNNERS = {
    "budget": budget,
    "cfs_quota": cfs_quota,
    "cpuset_count": cpuset_count,
    "decision": decision,
    "pick": pick,
    "plan": plan,
    "restore": restore,
    "apply_order": apply_order,
}


@pytest.mark.vectors("cpu_suppress")
def test_suppression_matches_the_recorded_case(vector: Case) -> None:
    RUNNERS[vector["kind"]](vector["input"], vector["expect"])


@pytest.mark.vectors("cpuset_select")
def test_choice_of_cpus_matches_the_recorded_case(vector: Case) -> None:
    RUNNERS[vector["kind"]](vector["input"], vector["expect"])
