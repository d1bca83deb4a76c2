"""The whole sandbox as users have it: `python -m sandbox` as a process, kubectl as the client."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.kube.resources import NODES
from sandbox.cluster import SandboxCluster
from sandbox.node import identity
from sandbox.node.cgroups import find_hierarchies
from sandbox.node.mounts import read_mounts
from sandbox.options import SandboxOptions

KUBECTL = Path(sys.executable).with_name("kubectl")
START_S, STOP_S, WAIT_S = 30.0, 30.0, 20.0

pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason=f"needs kubectl at {KUBECTL}")


def until(holds: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    """Wait for a condition; its first true value."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)
    return found


@dataclass
class Sandbox:
    """A running `python -m sandbox` and kubectl on it."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    announcement: dict[str, Any]
    log: Path

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """What kubectl prints."""
        done = subprocess.run(
            [str(KUBECTL), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "KUBECACHEDIR": str(self.log.parent / "cache")},
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def get(self, *arguments: str) -> Any:
        """An object as a document; None when it is not there."""
        text = self.kubectl("get", *arguments, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a kind."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
        return found

    def apply(self, *documents: dict[str, Any]) -> None:
        """Create or change objects."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait for a pod to be in a phase."""

        def reached() -> dict[str, Any] | None:
            pod: dict[str, Any] | None = self.get("pod", name)
            return pod if pod is not None and pod["status"]["phase"] == phase else None

        found: dict[str, Any] = until(reached, f"pod {name} {phase}")
        return found

    def cgroup_roots(self) -> list[Path]:
        """The sandbox's cgroup parents that exist."""
        return parents(self.announcement["cgroup_parent"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def parents(name: str) -> list[Path]:
    """The cgroups of that name; none where the sandbox could make none."""
    if not name:
        return []
    found = find_hierarchies(read_mounts(Path("/proc")))
    return [h.root / name for h in found if (h.root / name).exists()]


@contextmanager
def sandbox(folder: Path, *flags: str) -> Iterator[Sandbox]:
    """A sandbox that is ready; ended in order if the test has not ended it."""
    kubeconfig, log = folder / "kubeconfig", folder / "sandbox.log"
    command = [sys.executable, "-m", "sandbox", "--kubeconfig", str(kubeconfig), "--state-dir", str(folder / "state")]
    with log.open("a") as errors:
        process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, log.read_text()
    running = Sandbox(process, kubeconfig, json.loads(line), log)
    try:
        yield running
    finally:
        if process.poll() is None:
            assert running.end() == 0, log.read_text()
        else:
            process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """This machine and two simulated nodes."""
    flags = ("--host-node", "here", "--simulated-nodes", "2", "--simulated-cpu", "4", "--simulated-memory", "8Gi")
    folder = tmp_path_factory.mktemp("sandbox")
    with sandbox(folder, *flags) as running:
        yield running
    errors = [line for line in running.log.read_text().splitlines() if '"level":"error"' in line]
    assert not errors, errors


def pod(name: str, node: str = "", container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    containers = [{"name": "main", "image": "none", "command": ["sleep", "1000"], **(container or {})}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **placed, **spec},
    }


def test_a_deployment_runs_as_processes_logs_and_goes(cluster: Sandbox) -> None:
    script = 'echo "I am $HOSTNAME"; exec sleep 1000'
    template = pod("", "here", {"command": ["sh", "-c", script]})
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }
    cluster.apply(deployment)
    cluster.kubectl("rollout", "status", "deployment/web", f"--timeout={WAIT_S:.0f}s")
    pods = cluster.items("pods", "-l", "app=web")
    assert len({item["status"]["podIP"] for item in pods}) == 2
    for item in pods:
        name = item["metadata"]["name"]
        assert cluster.kubectl("logs", name) == f"I am {name}\n"
        identifier = item["status"]["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
        assert len(list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))) == 1
    cluster.kubectl("delete", "deployment", "web", "--wait=true", "--cascade=foreground")
    until(lambda: not cluster.items("pods", "-l", "app=web"), "pods gone")
    for item in pods:
        identifier = item["status"]["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
        assert not list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))
        assert not [left for root in cluster.cgroup_roots() for left in root.rglob(f"pod{item['metadata']['uid']}")]


def test_a_pod_that_ends_is_succeeded_and_its_log_stays_readable(cluster: Sandbox) -> None:
    cluster.apply(pod("once", "here", {"command": ["sh", "-c", "echo one; echo two"]}, restartPolicy="Never"))
    cluster.until_phase("once", "Succeeded")
    assert cluster.kubectl("logs", "once", "--tail=1") == "two\n"
    assert cluster.kubectl("logs", "-f", "once") == "one\ntwo\n"
    assert "keep no time of a log line" in cluster.kubectl("logs", "once", "--timestamps", check=False)
    cluster.kubectl("delete", "pod", "once")


def test_following_a_log_ends_with_the_container(cluster: Sandbox) -> None:
    script = "for i in 1 2 3; do echo $i; sleep 0.1; done"
    cluster.apply(pod("talker", "here", {"command": ["sh", "-c", script]}, restartPolicy="Never"))
    until(lambda: cluster.get("pod", "talker")["status"]["phase"] in ("Running", "Succeeded"), "talker runs")
    assert cluster.kubectl("logs", "-f", "talker") == "1\n2\n3\n"
    cluster.kubectl("delete", "pod", "talker")


def test_pods_listen_on_the_same_port_at_their_own_addresses_and_become_ready(cluster: Sandbox) -> None:
    serve = "import http.server as h, os; h.test(h.SimpleHTTPRequestHandler, port=8080, bind=os.environ['IP'])"
    container = {
        "command": [sys.executable, "-c", serve],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        "workingDir": "/tmp",
    }
    cluster.apply(pod("web-1", "here", container), pod("web-2", "here", container))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web-1", "pod/web-2", f"--timeout={WAIT_S:.0f}s")
    cluster.kubectl("delete", "pod", "web-1", "web-2")


def test_what_ignores_sigterm_is_killed_after_its_grace_period(cluster: Sandbox) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    cluster.apply(pod("deaf", "here", {"command": ["sh", "-c", script]}, terminationGracePeriodSeconds=1))
    cluster.until_phase("deaf", "Running")
    until(lambda: cluster.kubectl("logs", "deaf") == "deaf\n", "trap set")
    began = time.monotonic()
    cluster.kubectl("delete", "pod", "deaf", "--wait=true")
    assert time.monotonic() - began >= 0.9


def test_a_pod_deleted_by_force_leaves_no_process(cluster: Sandbox) -> None:
    cluster.apply(pod("forced", "here"))
    status = cluster.until_phase("forced", "Running")["status"]
    identifier = status["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
    cluster.kubectl("delete", "pod", "forced", "--grace-period=0", "--force")
    until(lambda: not list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier)), "process gone")


def test_pods_on_simulated_nodes_run_and_end_on_time(cluster: Sandbox) -> None:
    brief = pod("brief", "simulated-1", restartPolicy="Never")
    brief["metadata"]["annotations"] = {"sandbox.koord/run-seconds": "0.2"}
    cluster.apply(brief, pod("lasting", "simulated-2"))
    cluster.until_phase("brief", "Succeeded")
    lasting = cluster.until_phase("lasting", "Running")
    assert lasting["status"]["containerStatuses"][0]["ready"] is True
    assert "simulated node" in cluster.kubectl("logs", "lasting", check=False)
    cluster.kubectl("drain", "simulated-2", "--force", "--timeout=20s")
    assert cluster.get("pod", "lasting") is None
    cluster.kubectl("uncordon", "simulated-2")
    cluster.kubectl("delete", "pod", "brief")


def test_what_fits_nowhere_says_why_and_is_placed_once_it_fits(cluster: Sandbox) -> None:
    batch = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "1Gi"}
    cluster.apply(pod("batch", container={"resources": {"requests": batch, "limits": batch}}))

    def refused() -> Any:
        conditions = cluster.get("pod", "batch")["status"].get("conditions", [])
        return next((item for item in conditions if item["reason"] == "Unschedulable"), None)

    condition = until(refused, "Unschedulable")
    expected = "3 Insufficient kubernetes.io/batch-cpu, 3 Insufficient kubernetes.io/batch-memory."
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["message"] == f"0/3 nodes are available: {expected}"
    events = until(
        lambda: cluster.items("events", "--field-selector=reason=FailedScheduling,involvedObject.name=batch"),
        "event",
    )
    assert events[0]["message"] == condition["message"]
    assert events[0]["source"]["component"] == "default-scheduler"
    patch = {"status": {field: {**batch, "kubernetes.io/batch-cpu": "2500"} for field in ("allocatable", "capacity")}}
    cluster.kubectl("patch", "node", "simulated-2", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    placed = cluster.until_phase("batch", "Running")
    assert placed["spec"]["nodeName"] == "simulated-2"
    assert {item["type"]: item["status"] for item in placed["status"]["conditions"]}["PodScheduled"] == "True"
    assert placed["status"]["qosClass"] == "BestEffort"
    cluster.kubectl("delete", "pod", "batch")


def test_when_room_appears_the_higher_priority_gets_it(cluster: Sandbox) -> None:
    whole = {"resources": {"requests": {"cpu": "3"}}}
    cluster.apply(pod("holder", "simulated-1", whole))
    cluster.until_phase("holder", "Running")
    cluster.apply(
        pod("low", "simulated-1", whole, priorityClassName="koord-free"),
        pod("high", "simulated-1", whole, priorityClassName="koord-prod"),
    )
    until(lambda: len(cluster.items("events", "--field-selector=reason=FailedScheduling")) >= 2, "refusals")
    cluster.kubectl("delete", "pod", "holder")
    cluster.until_phase("high", "Running")
    assert cluster.get("pod", "low")["status"]["phase"] == "Pending"
    cluster.kubectl("delete", "pod", "high", "low")


def test_nodes_are_ready_leased_and_say_how_they_confine(cluster: Sandbox) -> None:
    nodes = {item["metadata"]["name"]: item for item in cluster.items("nodes")}
    assert set(nodes) == {"here", "simulated-1", "simulated-2"}
    for name, node in nodes.items():
        conditions = {item["type"]: item["status"] for item in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        lease = cluster.get("lease", name, "-n", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == name
    here = nodes["here"]
    assert here["status"]["capacity"]["pods"] == "110"
    assert here["status"]["nodeInfo"]["kernelVersion"] == os.uname().release
    confined = {item["type"]: item["status"] for item in here["status"]["conditions"]}["sandbox.koord/Cgroups"]
    parent = here["metadata"].get("annotations", {}).get("sandbox.koord/cgroup-parent", "")
    assert (confined == "True") == bool(parent)
    assert parent == cluster.announcement["cgroup_parent"]


def test_an_idle_sandbox_costs_next_to_nothing(cluster: Sandbox) -> None:
    names = [f"idle-{number}" for number in range(20)]
    cluster.apply(*(pod(name, "here") for name in names))
    cluster.kubectl("wait", "--for=condition=Ready", "pod", *names, f"--timeout={WAIT_S:.0f}s")
    time.sleep(0.5)  # what starting them has caused is over
    before, began = cpu_seconds(cluster.process.pid), time.monotonic()
    time.sleep(3)
    used = (cpu_seconds(cluster.process.pid) - before) / (time.monotonic() - began)
    assert used < 0.03, f"{used:.1%} of a core"
    cluster.kubectl("delete", "pod", *names)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def guardian_of(process: subprocess.Popen[str]) -> int:
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [child for file in lists for child in file.read_text().split()]
    (guardian,) = [
        int(child) for child in children if b"sandbox.node.guardian" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return guardian


BUSY = pod("busy", container={"command": ["sh", "-c", "setsid sleep 1000 & sleep 1000"]})


def test_an_orderly_stop_leaves_nothing(tmp_path: Path) -> None:
    with sandbox(tmp_path, "--host-node", "here") as running:
        running.apply(BUSY)
        running.until_phase("busy", "Running")
        guardian = guardian_of(running.process)
        parent = running.announcement["cgroup_parent"]
        assert running.end() == 0, running.log.read_text()
    assert not parents(parent)
    assert identity.start_ticks(guardian) is None
    assert not running.kubeconfig.exists()
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.parametrize("next_parent", ["same", "other"])
def test_the_next_start_cleans_what_was_killed_together_with_its_guardian(tmp_path: Path, next_parent: str) -> None:
    parent = f"koord-killed-{os.getpid()}"
    with sandbox(tmp_path, "--host-node", "here", "--cgroup-parent", parent) as running:
        running.apply(BUSY)
        status = running.until_phase("busy", "Running")["status"]
        identifier = status["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
        until(lambda: len(list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))) == 3, "children")
        os.kill(guardian_of(running.process), signal.SIGKILL)
        assert running.end(signal.SIGKILL) == -signal.SIGKILL
    assert list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))
    chosen = parent if next_parent == "same" else f"{parent}-other"
    with sandbox(tmp_path, "--host-node", "here", "--cgroup-parent", chosen) as running:
        assert not list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))
        assert bool(parents(parent)) == (next_parent == "same" and bool(running.announcement["cgroup_parent"]))
        assert "cleaned what a killed sandbox had left" in running.log.read_text()
    assert not parents(parent)
    assert not parents(chosen)


def test_after_sigkill_the_guardian_leaves_nothing(tmp_path: Path) -> None:
    with sandbox(tmp_path, "--host-node", "here") as running:
        running.apply(BUSY)
        status = running.until_phase("busy", "Running")["status"]
        identifier = status["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
        parent = running.announcement["cgroup_parent"]
        running.end(signal.SIGKILL)
    until(lambda: list((tmp_path / "state").iterdir()) == [], "run cleaned")
    assert not parents(parent)
    assert not list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))


@pytest.fixture
def proc_without_cgroups(tmp_path: Path) -> Path:
    """A proc mount to read this machine's facts from, in which no cgroup hierarchy is mounted."""
    root = tmp_path / "proc"
    for name in ("cpuinfo", "meminfo", "sys/kernel/osrelease", "sys/kernel/random/boot_id"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(Path("/proc", name).read_text())
    (root / "self").mkdir()
    (root / "self" / "mountinfo").write_text("23 1 0:21 / /proc rw - proc proc rw\n")
    return root


def test_without_cgroups_the_cluster_works_and_the_node_says_so(tmp_path: Path, proc_without_cgroups: Path) -> None:
    with sandbox(tmp_path, "--host-node", "here", "--proc-root", str(proc_without_cgroups)) as running:
        assert running.announcement["cgroup_parent"] == ""
        node = running.get("node", "here")
        condition = next(item for item in node["status"]["conditions"] if item["type"] == "sandbox.koord/Cgroups")
        assert (condition["status"], condition["reason"]) == ("False", "Unavailable")
        assert condition["message"] == "no writable cgroup hierarchy: no cgroup hierarchy is mounted"
        running.apply(BUSY)
        status = running.until_phase("busy", "Running")["status"]
        identifier = status["containerStatuses"][0]["containerID"].removeprefix("sandbox://")
        until(lambda: len(list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))) == 3, "children")
        running.end(signal.SIGKILL)
    until(lambda: list((tmp_path / "state").iterdir()) == [], "run cleaned")
    assert not list(identity.marked_pids(identity.CONTAINER_VARIABLE, identifier))


def refused_start(folder: Path, *flags: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "sandbox", "--kubeconfig", str(folder / "other"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    return done.returncode, done.stderr


def test_a_cgroup_parent_in_use_is_refused(cluster: Sandbox, tmp_path: Path) -> None:
    parent = cluster.announcement["cgroup_parent"]
    if not parent:
        pytest.skip("needs root and writable cgroups")
    code, errors = refused_start(tmp_path, "--cgroup-parent", parent, "--state-dir", str(tmp_path))
    assert code == 1
    assert "exists already and is not ours" in errors
    assert cluster.cgroup_roots()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--cgroup-parent", "../up"), 'cgroup parent "../up": allowed: names of letters'),
        (("--cgroup-parent", "/"), 'cgroup parent "/"'),
        (("--simulated-cpu", "many"), 'simulated cpu: invalid quantity "many"'),
        (("--port", "70000"), "port 70000: allowed: 0 to 65535"),
        (("--simulated-nodes", "-1"), "simulated nodes -1: allowed: 0 to 10000"),
        (("--host-node", "x", "--no-host-node"), "not allowed with argument"),
    ],
)
def test_a_wrong_command_line_names_what_is_allowed(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    code, errors = refused_start(tmp_path, *flags)
    assert code == 2
    assert message in errors


async def test_a_cluster_lives_inside_a_test_and_tells_when_a_part_ends(tmp_path: Path) -> None:
    options = SandboxOptions(tmp_path / "kubeconfig", simulated_nodes=1, state_dir=tmp_path / "state")
    async with SandboxCluster(options) as cluster:
        node = await cluster.client.get(NODES, "simulated-1")
        assert node.status.capacity["cpu"] == "32"
        assert cluster.cgroup_parent == ""
        next(task for task in cluster._tasks if task.get_name() == "binder").cancel()
        assert await cluster.wait_failed() == "binder: ended"
    assert not cluster.options.kubeconfig.exists()
