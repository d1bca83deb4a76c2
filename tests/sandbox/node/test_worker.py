"""Pods as real processes in real cgroups, from start to end."""

import asyncio
import os
import random
import signal
import sys
from typing import Any

import pytest

from sandbox.node import cgroup_dirs
from sandbox.node.cgroups import CgroupTree
from sandbox.node.identity import start_ticks

SLEEP = {"command": ["sleep", "1000"]}


def state(status: dict[str, Any], index: int = 0, field: str = "containerStatuses") -> dict[str, Any]:
    found: dict[str, Any] = status[field][index]["state"]
    return found


def shell(script: str, **more: Any) -> dict[str, Any]:
    return {"command": ["sh", "-c", script], **more}


async def test_a_pod_runs_in_its_cgroups_until_it_is_stopped(place: Any, tree: CgroupTree) -> None:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "128Mi"}}
    worker = place.start("p", {**SLEEP, "resources": resources})
    status = await place.until_phase("p", "Running")
    container_id = status["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
    for hierarchy in tree.hierarchies:
        pod = hierarchy.root / tree.parent / "kubepods/burstable/podp-uid"
        (pid,) = cgroup_dirs.members(pod / container_id)
        if "cpu" in hierarchy.controllers and hierarchy.version == 1:
            assert (pod.parent / "cpu.shares").read_text() == "512\n"
            assert (pod / "cpu.cfs_quota_us").read_text() == "100000\n"
    assert os.getsid(pid) == pid
    assert {item["type"]: item["status"] for item in status["conditions"]}["Ready"] == "True"
    worker.stop(5)
    await place.finish()
    assert start_ticks(pid) is None
    last = place.statuses["p"][-1]
    assert (last["phase"], state(last)["terminated"]["exitCode"]) == ("Failed", 128 + signal.SIGTERM)
    assert not any((h.root / tree.parent / "kubepods/burstable/podp-uid").exists() for h in tree.hierarchies)


async def test_output_goes_to_the_log_and_variables_are_set(place: Any) -> None:
    field = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    place.start(
        "p",
        shell('echo "$NODE $HOSTNAME $PWD"; echo oops >&2', env=[field], workingDir="/tmp"),
        restartPolicy="Never",
    )
    await place.until_phase("p", "Succeeded")
    await place.finish()
    assert place.log("p") == "here p /tmp\noops\n"


async def test_init_containers_run_in_order_before_the_containers(place: Any) -> None:
    trace = place.root / "trace"
    inits = [{"name": f"i{n}", **shell(f"sleep 0.05; echo i{n} >> {trace}")} for n in range(2)]
    place.start("p", shell(f"echo main >> {trace}"), initContainers=inits, restartPolicy="Never")
    await place.until_phase("p", "Succeeded")
    await place.finish()
    assert trace.read_text().split() == ["i0", "i1", "main"]


async def test_a_failed_init_container_fails_a_pod_that_never_restarts(place: Any) -> None:
    place.start("p", SLEEP, initContainers=[{"name": "i", **shell("exit 3")}], restartPolicy="Never")
    status = await place.until_phase("p", "Failed")
    assert state(status, field="initContainerStatuses")["terminated"]["exitCode"] == 3
    await place.finish()


async def test_a_sidecar_starts_first_and_ends_with_the_pod(place: Any) -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", **shell("echo up; sleep 1000")}
    place.start("p", shell("sleep 0.1"), initContainers=[sidecar], restartPolicy="Never")
    status = await place.until_phase("p", "Succeeded")
    await place.finish()
    assert place.log("p", "side") == "up\n"
    assert "terminated" in state(status, field="initContainerStatuses")


@pytest.mark.parametrize(("policy", "phase"), [("Never", "Failed"), ("OnFailure", "Running")])
async def test_a_failing_container_is_restarted_as_the_policy_says(place: Any, policy: str, phase: str) -> None:
    worker = place.start("p", shell("echo run; exit 7"), restartPolicy=policy)
    if policy == "Never":
        status = await place.until_phase("p", phase)
        assert state(status)["terminated"] | {"exitCode": 7, "reason": "Error"} == state(status)["terminated"]
    else:
        status = await place.until("p", lambda found: "waiting" in state(found) and found["phase"] == phase)
        container = status["containerStatuses"][0]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 7
        assert container["restartCount"] == 1  # the first restart was at once
        assert place.log("p", run=1) == "run\n"
        worker.stop(5)
    await place.finish()


async def test_a_command_that_does_not_exist_says_so(place: Any) -> None:
    place.start("p", {"command": ["no-such-command"]}, restartPolicy="Never")
    status = await place.until_phase("p", "Failed")
    found = state(status)["terminated"]
    assert (found["reason"], found["exitCode"]) == ("StartError", 128)
    assert found["message"] == 'exec: "no-such-command": executable file not found in $PATH'
    await place.finish()


async def test_a_command_that_no_kernel_takes_says_so(place: Any) -> None:
    place.start("p", {"command": ["echo", "a\0b"]}, restartPolicy="Never")
    status = await place.until_phase("p", "Failed")
    assert state(status)["terminated"]["message"] == "embedded null byte"
    await place.finish()


async def test_a_working_directory_that_is_missing_says_so(place: Any) -> None:
    place.start("p", {**SLEEP, "workingDir": "/no/such"}, restartPolicy="Never")
    status = await place.until_phase("p", "Failed")
    assert state(status)["terminated"]["message"] == 'chdir to workingDir "/no/such": No such file or directory'
    await place.finish()


async def test_a_probe_whose_command_cannot_start_has_failed(place: Any) -> None:
    probe = {"exec": {"command": ["no-such-command"]}, "periodSeconds": 1, "failureThreshold": 1}
    worker = place.start("p", {**SLEEP, "readinessProbe": probe})
    await place.until_phase("p", "Running")
    async with asyncio.timeout(10):
        while not any(reason == "Unhealthy" for reason, _ in place.events):  # noqa: ASYNC110 - told by no event
            await asyncio.sleep(0.01)
    worker.stop(5)
    await place.finish()


@pytest.mark.parametrize("seed", range(3))
async def test_pods_stopped_at_any_moment_leave_nothing(place: Any, tree: CgroupTree, seed: int) -> None:
    chance = random.Random(seed)
    scripts = ["exit 1", "exit 0", "sleep 1000", "setsid sleep 1000 & exec sleep 0.05", "trap '' TERM; sleep 1000"]
    for number in range(12):
        inits = [
            {"name": "init", **shell(chance.choice(scripts[:2]))},
            {"name": "side", "restartPolicy": "Always", **SLEEP},
        ]
        spec: dict[str, Any] = {"restartPolicy": chance.choice(["Always", "OnFailure", "Never"])}
        if chance.random() < 0.5:
            spec["initContainers"] = inits[: chance.randint(1, 2)]
        worker = place.start(f"p{number}", shell(chance.choice(scripts)), **spec)
        asyncio.get_running_loop().call_later(chance.uniform(0, 1), worker.stop, chance.choice([0, 0.05]))
    await place.finish()
    assert not any(cgroup_dirs.members(h.root / tree.parent) for h in tree.hierarchies)
    assert all(said[-1]["phase"] in ("Succeeded", "Failed") for said in place.statuses.values())


async def test_a_container_that_cannot_be_described_waits_with_the_reason(place: Any) -> None:
    worker = place.start("p", {"image": "nginx"})
    status = await place.until("p", lambda found: state(found)["waiting"]["reason"] == "CreateContainerConfigError")
    assert "images are not pulled" in state(status)["waiting"]["message"]
    assert status["phase"] == "Pending"
    worker.stop(5)
    await place.finish()


async def test_what_ignores_sigterm_is_killed_when_the_grace_period_is_over(place: Any, tree: CgroupTree) -> None:
    script = "trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000"
    worker = place.start("p", shell(script))
    await place.until_phase("p", "Running")
    await place.until_logged("p", "ready\n")
    worker.stop(0.2)
    await place.finish()
    assert state(place.statuses["p"][-1])["terminated"]["exitCode"] == 128 + signal.SIGKILL
    assert not any(cgroup_dirs.members(h.root / tree.parent) for h in tree.hierarchies)


async def test_a_shorter_grace_period_hastens_a_stop_that_is_under_way(place: Any) -> None:
    worker = place.start("p", shell("trap '' TERM; echo ready; while :; do sleep 1; done"))
    await place.until_phase("p", "Running")
    await place.until_logged("p", "ready\n")
    worker.stop(1000)
    await asyncio.sleep(0)
    worker.stop(0)
    await place.finish()


async def test_children_of_an_ended_container_end_with_it(place: Any, tree: CgroupTree) -> None:
    place.start("p", shell("setsid sleep 1000 & exit 0"), restartPolicy="Never")
    await place.until_phase("p", "Succeeded")
    await place.finish()
    assert not any(cgroup_dirs.members(h.root / tree.parent) for h in tree.hierarchies)


async def test_a_container_beyond_its_memory_limit_is_oom_killed(place: Any, tree: CgroupTree) -> None:
    if not any("memory" in hierarchy.controllers for hierarchy in tree.hierarchies):
        pytest.skip("needs the memory controller")
    script = "import time; hog = bytearray(256 << 20); time.sleep(1000)"
    container = {"command": [sys.executable, "-I", "-S", "-c", script], "resources": {"limits": {"memory": "32Mi"}}}
    place.start("p", container, restartPolicy="Never")
    status = await place.until_phase("p", "Failed")
    assert state(status)["terminated"] | {"reason": "OOMKilled", "exitCode": 137} == state(status)["terminated"]
    await place.finish()


async def test_a_pod_beyond_its_deadline_fails(place: Any) -> None:
    place.start("p", SLEEP, activeDeadlineSeconds=1)
    status = await place.until("p", lambda found: found.get("reason") == "DeadlineExceeded")
    assert status["phase"] == "Failed"
    await place.finish()


async def test_an_exec_probe_makes_a_container_ready_and_unready(place: Any) -> None:
    flag = place.root / "flag"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    worker = place.start("p", {**SLEEP, "readinessProbe": probe})
    status = await place.until_phase("p", "Running")
    assert status["containerStatuses"][0]["ready"] is False
    flag.touch()
    await place.until("p", lambda found: bool(found["containerStatuses"][0]["ready"]))
    flag.unlink()
    count = len(place.statuses["p"])
    await place.until("p", lambda found: len(place.statuses["p"]) > count)
    assert place.statuses["p"][-1]["containerStatuses"][0]["ready"] is False
    worker.stop(5)
    await place.finish()


async def test_a_failed_liveness_probe_restarts_the_container(place: Any) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    worker = place.start("p", {**SLEEP, "livenessProbe": probe})
    status = await place.until("p", lambda found: found["containerStatuses"][0]["restartCount"] == 1)
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 128 + signal.SIGTERM
    worker.stop(5)
    await place.finish()
    assert ("Unhealthy", "Liveness probe failed: command exited with 1") in place.events


async def test_without_cgroups_processes_run_and_end_all_the_same(unconfined_place: Any) -> None:
    worker = unconfined_place.start("p", shell("setsid sleep 1000 & echo up; wait"))
    await unconfined_place.until_phase("p", "Running")
    worker.stop(5)
    await unconfined_place.finish()
