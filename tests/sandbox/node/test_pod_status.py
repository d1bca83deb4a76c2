"""Phases, conditions and documents of pods' statuses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sandbox.node import pod_status
from sandbox.node.model import Pod
from sandbox.node.pod_status import ContainerRecord, PodRecord, Running, State, Terminated, Waiting

RUNNING = Running(100.0)
DONE = Terminated(0, "Completed", 100.0, 101.0, "id")
FAILED = Terminated(1, "Error", 100.0, 101.0, "id")
FRESH = Waiting("ContainerCreating")


def record(states: Sequence[State], policy: str = "Always", inits: Sequence[State] = (), **more: Any) -> PodRecord:
    document = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": f"c{index}", "image": "i"} for index in range(len(states))],
            "initContainers": [{"name": f"i{index}"} for index in range(len(inits))],
        },
    }
    pod = msgspec.convert(document, Pod)
    containers = pod_status.initial_records(pod.spec)
    for prefix, group in (("c", states), ("i", inits)):
        for index, state in enumerate(group):
            name = f"{prefix}{index}"
            live = isinstance(state, Running)
            containers[name] = replace(containers[name], state=state, started=live, probed_ready=live)
    return PodRecord(pod, containers, "127.0.0.1", "127.64.0.1", 99.0, **more)


@pytest.mark.parametrize(
    ("states", "policy", "phase"),
    [
        ([FRESH], "Always", "Pending"),
        ([RUNNING, FRESH], "Always", "Pending"),
        ([RUNNING], "Never", "Running"),
        ([RUNNING, DONE], "Never", "Running"),
        ([DONE], "Always", "Running"),
        ([DONE, DONE], "Never", "Succeeded"),
        ([DONE], "OnFailure", "Succeeded"),
        ([FAILED], "OnFailure", "Running"),
        ([FAILED, DONE], "Never", "Failed"),
    ],
)
def test_phase_by_states_and_policy(states: list[State], policy: str, phase: str) -> None:
    assert pod_status.phase(record(states, policy)) == phase


def test_a_container_between_two_runs_leaves_the_pod_running() -> None:
    subject = record([Waiting("CrashLoopBackOff")])
    crashed = replace(subject.containers["c0"], last=FAILED)
    assert pod_status.phase(replace(subject, containers={"c0": crashed})) == "Running"


@pytest.mark.parametrize(
    ("inits", "policy", "phase"),
    [
        ([RUNNING], "Always", "Pending"),
        ([DONE], "Always", "Pending"),
        ([FAILED], "Never", "Failed"),
        ([FAILED], "Always", "Pending"),
    ],
)
def test_phase_while_initializing(inits: list[State], policy: str, phase: str) -> None:
    assert pod_status.phase(record([FRESH], policy, inits)) == phase


def test_a_pod_that_the_node_is_through_with_is_over_whatever_its_policy() -> None:
    assert pod_status.phase(record([DONE], "Always", ended=True)) == "Succeeded"
    assert pod_status.phase(record([FAILED], "Always", ended=True)) == "Failed"
    assert pod_status.phase(record([FRESH], "Always", ended=True)) == "Failed"
    assert pod_status.phase(record([DONE], "Never", reason="DeadlineExceeded")) == "Failed"


def test_no_final_phase_while_anything_runs() -> None:
    assert pod_status.phase(record([DONE, RUNNING], "Never", ended=True)) == "Running"
    assert pod_status.phase(record([RUNNING], "Never", reason="DeadlineExceeded")) == "Running"


def statuses(subject: PodRecord) -> dict[str, str]:
    return {kind: status for kind, (status, _, _) in pod_status.conditions(subject).items()}


def test_conditions_of_a_running_pod() -> None:
    assert set(statuses(record([RUNNING])).values()) == {"True"}
    unready = replace(record([RUNNING]).containers["c0"], probed_ready=False)
    found = pod_status.conditions(replace(record([RUNNING]), containers={"c0": unready}))
    assert found["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [c0]")
    assert found["Initialized"][0] == "True"


def test_conditions_of_a_pod_that_is_over() -> None:
    assert pod_status.conditions(record([DONE], "Never"))["Ready"] == ("False", "PodCompleted", "")
    assert pod_status.conditions(record([FAILED], "Never"))["Ready"] == ("False", "PodFailed", "")


def test_a_condition_keeps_its_time_for_as_long_as_it_keeps_its_status() -> None:
    subject = record([FRESH])
    subject = replace(subject, transitions=pod_status.advance(subject, 1.0))
    live = replace(subject.containers["c0"], state=RUNNING, started=True, probed_ready=True)
    later = pod_status.advance(replace(subject, containers={"c0": live}), 2.0)
    assert later["Ready"] == ("True", 2.0)
    assert later["PodScheduled"] == ("True", 1.0)


def test_the_document_of_a_running_pod() -> None:
    document = pod_status.status_document(record([RUNNING], inits=[DONE]), 102.0)
    assert document["phase"] == "Running"
    assert document["qosClass"] == "BestEffort"
    assert document["startTime"] == "1970-01-01T00:01:39Z"
    assert document["podIPs"] == [{"ip": "127.64.0.1"}]
    assert document["containerStatuses"][0]["state"] == {"running": {"startedAt": "1970-01-01T00:01:40Z"}}
    assert document["initContainerStatuses"][0]["state"]["terminated"]["containerID"] == "sandbox://id"
    assert "reason" not in document


def test_an_init_container_is_ready_when_it_has_succeeded() -> None:
    assert ContainerRecord("i", "", DONE, is_init=True).is_ready
    assert not ContainerRecord("i", "", FAILED, is_init=True).is_ready
    assert not ContainerRecord("i", "", RUNNING, is_init=True, started=True, probed_ready=True).is_ready
