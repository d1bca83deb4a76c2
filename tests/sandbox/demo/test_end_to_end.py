"""`koordctl demo` from the outside: started, watched, ended in every way a person can end it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox.demo.cgroup_values import of_this_machine, why_not_writable

WHY_NOT = why_not_writable(of_this_machine())
needs_cgroups = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "cgroups can be written")

KUBECTL = Path(sys.executable).with_name("kubectl")
QUICK_BUDGET_S = 60
CI_ALLOWANCE_S = 60


class Demo:
    """A running demo whose progress can be awaited."""

    def __init__(self, *arguments, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "koordctl", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_line(self, text, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while not any(text in line for line in list(self.lines)):
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.05)

    def finish(self, timeout_s):
        """(exit code, stdout, stderr)."""
        try:
            output = self.process.stdout.read() if self.process.wait(timeout_s) is not None else ""
        finally:
            self.close()
        return self.process.returncode, output, "".join(self.lines)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def demo():
    demos = []

    def begin(*arguments, **options):
        demos.append(Demo(*arguments, **options))
        return demos[-1]

    yield begin
    for item in demos:
        item.close()


@needs_cgroups
def test_the_quick_demo_measures_reports_keeps_on_request_and_then_leaves_nothing(demo, machine_state, tmp_path):
    report = tmp_path / "report.html"
    began = time.monotonic()
    code, output, progress = demo("--quick", "--json", "--keep", "--report", str(report)).finish(
        QUICK_BUDGET_S + CI_ALLOWANCE_S
    )
    took_s = time.monotonic() - began
    if "run the demo when it is idle" in progress:
        pytest.skip(progress.splitlines()[-1])
    assert code == 0, progress
    document = json.loads(output)
    kept = document["kept"]
    try:
        check_document(document)
        assert took_s < QUICK_BUDGET_S + (CI_ALLOWANCE_S if not document["quiet"] else 0)
        check_kept(kept)
        assert report.read_text().startswith("<!doctype html>")
    finally:
        assert kept["end"].startswith("kill ")
        os.kill(int(kept["end"].split()[1]), signal.SIGTERM)
        machine_state.wait_unchanged(60)
    if not holds_figures(document):  # one round on a shared machine has scatter: another one decides
        _, output, progress = demo("--quick", "--json", "--report", str(report)).finish(
            QUICK_BUDGET_S + CI_ALLOWANCE_S
        )
        assert holds_figures(json.loads(output)), (document, progress)


def check_document(document):
    assert document["measured"] is True
    phases = {phase["name"]: phase for phase in document["phases"]}
    assert set(phases) == {"alone", "plain", "koord"}
    for phase in phases.values():
        assert phase["ls_requests"] > 1000
        assert 0 < phase["ls_p50_ms"] <= phase["ls_p99_ms"]
        assert 0 < phase["cpu_use_ratio"] <= 1
    assert phases["alone"]["batch_work"] == 0
    assert phases["plain"]["batch_work"] > 0
    assert phases["koord"]["batch_work"] > 0
    assert phases["koord"]["cpu_use_ratio"] > phases["alone"]["cpu_use_ratio"]
    assert document["ls_p99_ratio_plain"] > 0
    assert document["ls_p99_ratio_koord"] > 0
    assert 0 < document["be_share_of_idle"] <= 1
    assert any(document["batch_cpu_milli"])
    assert document["reaction_ms"] is None or document["reaction_ms"] > 0
    assert document["restarts"] == []
    pods = {(pod["namespace"], pod["kube_qos"]): pod for pod in document["pods"]}
    assert pods["spark-plain", "Burstable"]["qos"] == ""
    mutated = pods["spark", "BestEffort"]
    assert mutated["qos"] == "BE"
    assert mutated["priority_class"] == "koord-batch"
    assert mutated["requests"]["kubernetes.io/batch-cpu"] == "250"
    assert "cpu" not in mutated["requests"]


def holds_figures(document):
    """Loose bounds, where nothing else ran. The figures themselves are held by the full run."""
    return not document["quiet"] or (
        document["ls_p99_ratio_koord"] < document["ls_p99_ratio_plain"]
        and document["be_share_of_idle"] > 0.7
        and document["reaction_ms"] is not None
    )


def check_kept(kept):
    home = str(Path(kept["kubeconfig"]).parent)
    answer = subprocess.run(
        [KUBECTL if KUBECTL.exists() else shutil.which("kubectl"), "get", "pods", "-A", "-o", "json"],
        env={"PATH": os.environ["PATH"], "KUBECONFIG": kept["kubeconfig"], "HOME": home},
        capture_output=True,
        text=True,
        check=True,
    )
    running = {pod["metadata"]["namespace"] for pod in json.loads(answer.stdout)["items"]}
    assert {"shop", "spark"} <= running


@needs_cgroups
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(demo, machine_state, tmp_path, number):
    running = demo("--quick", "--json", "--report", str(tmp_path / "report.html"))
    running.wait_line("the service is ready")
    running.process.send_signal(number)
    running.process.send_signal(number)
    code, output, progress = running.finish(60)
    assert code == 128 + number, progress
    assert output == ""
    assert "Traceback" not in progress
    machine_state.wait_unchanged()


@needs_cgroups
def test_a_killed_demo_leaves_nothing(demo, machine_state, tmp_path):
    running = demo("--quick", "--json", "--report", str(tmp_path / "report.html"))
    running.wait_line("the service is ready")
    running.process.kill()
    running.finish(20)
    machine_state.wait_unchanged(60)


READ_ONLY = """
for mount in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do mount -o remount,bind,ro "$mount" || exit 77; done
exec "$@"
"""


def test_without_cgroups_the_control_plane_runs_and_nothing_is_measured(machine_state, tmp_path):
    """In a mount namespace of its own, where cgroups are read-only."""
    wrapper = [] if WHY_NOT else ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]
    report = tmp_path / "report.html"
    command = [*wrapper, sys.executable, "-m", "koordctl", "demo", "--quick", "--json", "--report", str(report)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    if run.returncode == 77 or "unshare" in run.stderr:
        pytest.skip(f"cgroups cannot be made read-only here: {run.stderr.strip()}")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["measured"] is False
    assert document["why_not_measured"]
    assert document["ls_p99_ratio_koord"] is None
    assert any(document["batch_cpu_milli"])
    assert {pod["kube_qos"] for pod in document["pods"] if pod["namespace"] == "spark"} == {"BestEffort"}
    assert "cannot measure" in run.stderr
    assert "Nothing was measured" in report.read_text()
    machine_state.wait_unchanged()


def test_a_component_that_cannot_start_is_told_with_its_log_and_exit_code_1(demo, machine_state, tmp_path):
    """A package that shadows the manager and fails at once."""
    broken = tmp_path / "path" / "manager"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("")
    (broken / "__main__.py").write_text("raise SystemExit('the manager has no configuration')\n")
    environment = {**os.environ, "PYTHONPATH": str(broken.parent)}
    arguments = ("--quick", "--json", "--report", str(tmp_path / "report.html"))
    code, output, progress = demo(*arguments, env=environment, cwd=tmp_path).finish(90)
    assert code == 1, progress
    assert output == ""
    assert "manager did not start: it ended with exit code 1" in progress
    assert "the manager has no configuration" in progress
    assert "Traceback" not in progress
    machine_state.wait_unchanged()
