"""The pure decisions of the controllers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.timestamps import format_rfc3339
from sandbox.controllers import job_plan, node_fit
from sandbox.controllers.daemon_plan import pin_to_node, target_of
from sandbox.controllers.replica_count import deletion_order
from sandbox.controllers.rollout import bounds_of, plan_rollout, split
from sandbox.controllers.templates import HASH_LABEL, template_hash, without_hash

JsonObject = dict[str, Any]
NOW_S = 1_700_000_000.0


def pod(name: str, phase: str = "Running", *, ready: bool = True, age_s: float = 100, **spec: Any) -> JsonObject:
    stamp = format_rfc3339(NOW_S - age_s)
    return {
        "metadata": {"name": name, "uid": name, "namespace": "n", "creationTimestamp": stamp},
        "spec": {"nodeName": "a", **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": stamp}],
        },
    }


def test_pods_whose_loss_matters_least_go_first() -> None:
    cheap = pod("cheap")
    cheap["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    ordered = [
        pod("unassigned", "Pending", ready=False, nodeName=""),
        pod("pending", "Pending", ready=False),
        pod("unready", ready=False),
        cheap,
        pod("crowded-young", age_s=10),
        pod("crowded-old", age_s=1000),
        pod("alone", nodeName="b", age_s=1),
    ]
    found = [entry["metadata"]["name"] for entry in deletion_order(list(reversed(ordered)))]
    assert found == [entry["metadata"]["name"] for entry in ordered]


def test_equal_templates_have_equal_hashes_whatever_order_and_hash_label_they_have() -> None:
    one = {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {"x": 1, "y": 2}}
    two = {"spec": {"y": 2, "x": 1}, "metadata": {"labels": {"c": "d", "a": "b", HASH_LABEL: "h"}, "annotations": {}}}
    assert template_hash(one) == template_hash(two)
    assert without_hash(one) == without_hash(two)
    assert template_hash(one) != template_hash({**one, "spec": {"x": 2, "y": 2}})
    assert len(template_hash(one)) == 10


# Deployments


def deployment(replicas: int, surge: int | str, unavailable: int | str, image: str = "2") -> JsonObject:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"image": image}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    }


def replica_set(name: str, replicas: int, available: int, image: str) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"spec": {"image": image}}},
        "status": {"replicas": replicas, "availableReplicas": available},
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (10, 13, 8)),
        (1, "25%", "25%", (1, 2, 1)),
        (4, 0, 0, (4, 4, 3)),
        (3, 1, 0, (3, 4, 3)),
        (3, 0, "100%", (3, 3, 0)),
        (0, "25%", "25%", (0, 0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailability_down(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int, int]
) -> None:
    bounds = bounds_of(deployment(replicas, surge, unavailable))
    assert (bounds.replicas, bounds.most, bounds.least_available) == expected


AMOUNT = st.one_of(st.integers(0, 4), st.integers(0, 100).map(lambda percent: f"{percent}%"))


@given(replicas=st.integers(0, 12), surge=AMOUNT, unavailable=AMOUNT, data=st.data())
def test_every_rollout_ends_and_never_leaves_its_bounds(
    replicas: int, surge: int | str, unavailable: int | str, data: st.DataObject
) -> None:
    wanted = deployment(replicas, surge, unavailable)
    bounds = bounds_of(wanted)
    sets = [replica_set("old", replicas, replicas, "1")]
    for _ in range(200):
        new, old = split(wanted, sets)
        plan = plan_rollout(wanted, new, old, [])
        if plan.create is not None:
            sets.append(replica_set("new", plan.create, 0, "2"))
        for entry in sets:
            name = entry["metadata"]["name"]
            if name in plan.scales:
                entry["spec"]["replicas"] = plan.scales[name]
        for entry in sets:  # pods of a smaller set go; some of a larger one become ready
            count = entry["spec"]["replicas"]
            status = entry["status"]
            status["replicas"] = count
            status["availableReplicas"] = min(status["availableReplicas"], count)
        assert sum(entry["spec"]["replicas"] for entry in sets) <= max(bounds.most, replicas)
        assert sum(entry["status"]["availableReplicas"] for entry in sets) >= min(bounds.least_available, replicas)
        coming = [entry for entry in sets if entry["status"]["availableReplicas"] < entry["spec"]["replicas"]]
        for entry in coming:
            missing = entry["spec"]["replicas"] - entry["status"]["availableReplicas"]
            entry["status"]["availableReplicas"] += data.draw(st.integers(1, missing))
        if not coming and plan.create is None and not plan.scales:
            break
    assert {entry["metadata"]["name"]: entry["spec"]["replicas"] for entry in sets} == {"old": 0, "new": replicas}


def test_pods_that_never_became_ready_are_replaced_before_serving_ones() -> None:
    wanted = deployment(4, 0, 1, "3")
    sets = [replica_set("good", 3, 3, "1"), replica_set("bad", 1, 0, "2"), replica_set("new", 0, 0, "3")]
    new, old = split(wanted, sets)
    assert plan_rollout(wanted, new, old, []).scales == {"bad": 0}


# Jobs


def job(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "j"}, "spec": {"parallelism": 2, "completions": 4, "backoffLimit": 6, **spec}}


def ended_pod(name: str, phase: str, seconds_ago: float, exit_code: int = 1, **condition: str) -> JsonObject:
    ended = pod(name, phase, ready=False)
    ended["metadata"]["finalizers"] = [job_plan.TRACKING]
    finished = format_rfc3339(NOW_S - seconds_ago)
    state = {"terminated": {"exitCode": exit_code, "finishedAt": finished}}
    ended["status"]["containerStatuses"] = [{"name": "c", "state": state}]
    if condition:
        ended["status"]["conditions"].append({"status": "True", **condition})
    return ended


def plan(owner: JsonObject, pods: list[JsonObject]) -> job_plan.JobPlan:
    return job_plan.plan_job(owner, pods, job_plan.count_pods(owner, pods), NOW_S)


def test_a_failed_pod_is_replaced_after_a_delay_that_doubles() -> None:
    assert plan(job(), [ended_pod("a", "Failed", 4)]).again_s == pytest.approx(6)
    assert plan(job(), [ended_pod("a", "Failed", 50), ended_pod("b", "Failed", 4)]).again_s == pytest.approx(16)
    late = plan(job(), [ended_pod("a", "Failed", 11)])
    assert (late.create, late.again_s) == ((None, None), None)


def test_a_success_in_between_resets_the_delay() -> None:
    pods = [ended_pod("a", "Failed", 50), ended_pod("ok", "Succeeded", 30, 0), ended_pod("b", "Failed", 4)]
    assert plan(job(), pods).again_s == pytest.approx(6)


def test_a_disrupted_pod_is_replaced_at_once() -> None:
    assert plan(job(), [ended_pod("a", "Failed", 1, type="DisruptionTarget")]).create == (None, None)


def test_a_failure_policy_may_ignore_disruptions_and_end_the_job_on_an_exit_code() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    owner = job(podFailurePolicy={"rules": rules}, backoffLimit=0)
    ignored = [ended_pod("a", "Failed", 100, type="DisruptionTarget")]
    assert job_plan.count_pods(owner, ignored).failed == 0
    assert plan(owner, ignored).ended is None
    verdict = plan(owner, [ended_pod("a", "Failed", 100, 42)]).ended
    assert verdict is not None
    assert verdict[:2] == ("Failed", "PodFailurePolicy")


def test_a_pod_is_counted_once_however_often_it_is_seen() -> None:
    owner = job()
    pods = [ended_pod("a", "Succeeded", 5, 0), ended_pod("b", "Failed", 5)]
    for _ in range(3):
        counted = job_plan.count_pods(owner, pods)
        owner = {**owner, "status": job_plan.job_status(owner, pods, counted, NOW_S)}
        assert (counted.succeeded, counted.failed) == (1, 1)
    for entry in pods:
        entry["metadata"]["finalizers"] = []
    counted = job_plan.count_pods(owner, pods)
    assert (counted.succeeded, counted.failed) == (1, 1)
    assert job_plan.job_status(owner, pods, counted, NOW_S)["uncountedTerminatedPods"] == {}


def test_a_decided_job_ends_only_when_no_pod_is_left_to_wait_for() -> None:
    now = format_rfc3339(NOW_S)
    decided = ("Failed", "BackoffLimitExceeded", "")
    waiting = {"active": 1, "terminating": 0, "uncountedTerminatedPods": {}}
    status = job_plan.finished_status(waiting, decided, now)
    assert [entry["type"] for entry in status["conditions"]] == ["FailureTarget"]
    status = job_plan.finished_status({**status, "active": 0}, decided, now)
    assert [entry["type"] for entry in status["conditions"]] == ["FailureTarget", "Failed"]
    assert job_plan.plan_job({**job(), "status": status}, [], job_plan.count_pods(job(), []), NOW_S).ended is not None


@given(st.frozensets(st.integers(0, 40)))
def test_indexes_survive_their_text_form(indexes: frozenset[int]) -> None:
    assert job_plan.parse_indexes(job_plan.format_indexes(indexes)) == indexes


# DaemonSets


def node(name: str = "a", labels: dict[str, str] | None = None, *taints: JsonObject) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}


def affinity(*terms: JsonObject) -> JsonObject:
    must = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": must}}}


def wants_label(key: str, operator: str, *values: str) -> JsonObject:
    return affinity({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


@pytest.mark.parametrize(
    ("spec", "found", "expected"),
    [
        ({}, node(), (True, True)),
        ({"nodeSelector": {"x": "y"}}, node(), (False, False)),
        ({"nodeSelector": {"x": "y"}}, node(labels={"x": "y"}), (True, True)),
        ({}, node("a", {}, {"key": "k", "effect": "NoSchedule"}), (False, True)),
        ({}, node("a", {}, {"key": "k", "effect": "NoExecute"}), (False, False)),
        ({}, node("a", {}, {"key": "k", "effect": "PreferNoSchedule"}), (True, True)),
        ({}, node("a", {}, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), (True, True)),
        ({"tolerations": [{"operator": "Exists"}]}, node("a", {}, {"key": "k", "effect": "NoExecute"}), (True, True)),
        (wants_label("size", "Gt", "4"), node(labels={"size": "8"}), (True, True)),
        (wants_label("size", "Lt", "4"), node(labels={"size": "8"}), (False, False)),
        (wants_label("x", "NotIn", "y"), node(labels={"x": "y"}), (False, False)),
        (wants_label("x", "DoesNotExist"), node(), (True, True)),
        (affinity({}), node(), (False, False)),
        (pin_to_node({}, "b"), node("a"), (False, False)),
        (pin_to_node({}, "a"), node("a"), (True, True)),
    ],
)
def test_a_daemon_set_wants_the_nodes_that_its_template_and_their_taints_allow(
    spec: JsonObject, found: JsonObject, expected: tuple[bool, bool]
) -> None:
    assert node_fit.wants_node(spec, found) == expected


def test_pinning_keeps_what_the_template_asks_for() -> None:
    spec = wants_label("x", "In", "y")
    pinned = pin_to_node(spec, "a")
    assert target_of({"spec": pinned}) == "a"
    (term,) = pinned["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "x", "operator": "In", "values": ["y"]}]
    assert spec == wants_label("x", "In", "y")
