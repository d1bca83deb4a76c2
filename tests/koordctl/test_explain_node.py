"""`koordctl explain node`: the same decision as the manager's, with every number's source."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koordctl.__main__ import main
from tests.koordctl import dumps
from tests.manager.fleet import Fleet, eventually

CPU = dumps.BATCH[0]


def explain(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["explain", "node", *arguments], input=stdin)


def explained(path: Path, name: str = "n1", *arguments: str) -> dict[str, Any]:
    result = explain(name, "--from", str(path), "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def terms(document: dict[str, Any], tier: str, resource: str) -> dict[str, str]:
    return {
        term["name"]: term["amount"]
        for term in document["terms"]
        if (term["tier"], term["resource"]) == (tier, resource)
    }


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return dumps.write(tmp_path / "dump.json", dumps.example())


def test_every_term_of_batch_and_mid_is_there_and_adds_up(dump: Path) -> None:
    document = explained(dump)
    batch = terms(document, "batch", "cpu")
    assert batch["capacity"] == "32"
    assert batch["margin"] == "12800m"
    assert batch["system"] == "1500m"
    assert batch["protectedUsage"] == "13"
    assert batch["published"] == "4700"
    assert terms(document, "batch", "memory")["published"] == "14602888807"
    mid = terms(document, "mid", "cpu")
    assert (mid["prodReclaimable"], mid["free"], mid["published"]) == ("4", "12", "4000")
    assert terms(document, "mid", "memory")["published"] == str(4 * 2**30)
    assert all(term["source"] for term in document["terms"])
    assert document["unmeasured"] == ["default/new"]


def test_a_person_reads_where_each_number_is_from(dump: Path) -> None:
    text = explain("n1", "--from", str(dump)).stdout
    assert "Node/n1 status.capacity[cpu]" in text
    assert "NodeMetric/n1 status.nodeMetric.systemUsage[cpu]" in text
    assert "12800m" in text
    assert "default/new" in text
    assert "its request, until its first sample" in text
    assert "nothing: what it uses is what is being sold" in text
    assert "bears no note of a write" in text
    assert f"{CPU}: running pods hold 9k, 4700 is offered" in text


def test_which_strategy_applies_and_which_layer_said_what(tmp_path: Path) -> None:
    entries = [
        {"name": "gpu", "nodeSelector": {"matchLabels": {"pool": "gpu"}}},
        {"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "cpuReclaimThresholdPercent": 70},
        {"name": "all", "nodeSelector": {}},
        {"name": "broken", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
    ]
    items = [
        dumps.node("n1", labels={"pool": "x", "node.koordinator.sh/memory-reclaim-ratio": "0.5"}),
        dumps.metric("n1"),
        dumps.config({"enable": True, "degradeTimeMinutes": 9, "nodeConfigs": entries}),
    ]
    path = dumps.write(tmp_path / "d.json", items)
    strategy = explained(path)["strategy"]
    assert strategy["fields"]["cpuReclaimThresholdPercent"] == {"value": 70, "source": "nodeConfigs[1] (x)"}
    assert strategy["fields"]["degradeTimeMinutes"]["source"] == "cluster strategy"
    assert strategy["fields"]["memoryReclaimThresholdPercent"]["source"].startswith("label ")
    assert strategy["nodeConfigs"][0] == "nodeConfigs[0] (gpu): does not match this node's labels"
    assert strategy["nodeConfigs"][1] == "nodeConfigs[1] (x): applies"
    assert "an earlier one applies" in strategy["nodeConfigs"][2]
    assert "passed over" in strategy["nodeConfigs"][3]
    assert "nodeConfigs[1] (x): applies" in explain("n1", "--from", str(path)).stdout


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([dumps.node("n1"), dumps.config()], "there is no NodeMetric"),
        (
            [dumps.node("n1"), dumps.metric("n1"), dumps.config({"enable": False})],
            "colocation is off for the cluster",
        ),
        (
            [dumps.node("n1"), dumps.metric("n1")],
            "slo-controller-config was not found: the built-in defaults explain",
        ),
        ([dumps.node("n1"), dumps.metric("n1"), dumps.config("{")], "colocation-config"),
        (
            [
                dumps.node("n1"),
                dumps.metric("n1"),
                dumps.config("{"),
                dumps.config(name="slo-controller-config-last-good"),
            ],
            "the formulas apply",
        ),
        (
            [dumps.node("n1"), dumps.metric("n1"), dumps.config(), {"kind": "Pod", "metadata": {"name": 7}}],
            "it is left out",
        ),
    ],
)
def test_what_is_missing_or_broken_is_said(tmp_path: Path, items: list[dict[str, Any]], says: str) -> None:
    result = explain("n1", "--from", str(dumps.write(tmp_path / "d.json", items)))
    assert result.exit_code == 0, result.output
    assert says in result.output


def test_time_can_be_chosen_and_is_else_the_newest_in_the_files(dump: Path) -> None:
    assert explained(dump)["asOf"] == dumps.AT
    decaying = explained(dump, "n1", "--at", "2026-12-01T10:09:00Z")
    assert decaying["report"]["stage"] == "decaying"
    assert decaying["cuts"][0]["by"] == "stale report"
    expired = explained(dump, "n1", "--at", "2026-12-01T11:00:00Z")
    assert expired["reason"] == "report-expired"
    assert "too old" in explain("n1", "--from", str(dump), "--at", "2026-12-01T11:00:00Z").stdout
    assert explain("n1", "--from", str(dump), "--at", "noon").exit_code == 2


def test_options_and_cuts_are_shown(tmp_path: Path) -> None:
    koord = {
        "jointLedger": True,
        "peak": {"percentile": "p95", "sigmas": 2},
        "damping": {"growthPercentPerMinute": 1},
    }
    report = dumps.metric("n1", dumps.use("web", "6", "10Gi"))
    report["status"]["prodReclaimableMetric"]["resource"]["resources"] = {"cpu": "30", "memory": "60Gi"}
    usage = {name: {"resources": {"cpu": cpu, "memory": "30Gi"}} for name, cpu in (("avg", "20"), ("p95", "23"))}
    report["status"]["nodeMetric"]["aggregatedNodeUsages"] = [{"duration": "5m0s", "usage": usage}]
    strategy = {"enable": True, "cpuReclaimThresholdPercent": 95, "midUnallocatedPercent": 100}
    shown = dict.fromkeys((*dumps.BATCH, *dumps.MID), "1")
    items = [
        dumps.node("n1", **shown),
        dumps.pod("web", "8", "8Gi"),
        report,
        dumps.config({**strategy, "extensions": {"koord": koord}}),
    ]
    path = dumps.write(tmp_path / "d.json", items)
    document = explained(path)
    batch = terms(document, "batch", "cpu")
    assert batch["peakBurst"] == "3648m"  # 2 deviations of (23 - 20) / 1.6449
    assert {cut["by"] for cut in document["cuts"]} >= {"joint ledger", "damping"}
    text = explain("n1", "--from", str(path)).stdout
    assert "extensions.koord" in text
    assert "after damping" in text
    assert "productionPeak" in text


def test_a_folder_of_files_yaml_and_standard_input_are_read_too(tmp_path: Path) -> None:
    items = dumps.example()
    dumps.write(tmp_path / "a.json", items[:-1])
    (tmp_path / "b.yaml").write_text(json.dumps(items[-1]) + "\n---\n")
    assert explained(tmp_path)["reason"] == "calculated"
    text = json.dumps({"kind": "List", "items": items})
    assert "4700" in explain("n1", "--from", "-", stdin=text).stdout


@pytest.mark.parametrize(
    ("text", "says"), [("{", "d.json"), ("[1, 2]", "no kind"), ("a: [", "d.json"), ("{}", "no kind")]
)
def test_files_that_hold_no_objects_are_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "d.json").write_text(text)
    result = explain("n1", "--from", str(tmp_path / "d.json"))
    assert result.exit_code == 1
    assert says in result.output or "d.json" in result.output


def test_an_unknown_node_and_one_that_cannot_be_read_are_errors(tmp_path: Path, dump: Path) -> None:
    result = explain("n9", "--from", str(dump))
    assert (result.exit_code, "there are: n1, n2" in result.output) == (1, True)
    broken = dumps.node("n1")
    broken["status"]["capacity"]["cpu"] = "lots"
    result = explain("n1", "--from", str(dumps.write(tmp_path / "d.json", [broken])))
    assert (result.exit_code, "Node/n1" in result.output) == (1, True)


async def test_live_and_from_what_kubectl_writes_it_says_what_the_manager_did(
    kubeconfig: Path, fleet: Fleet, run_manager: Callable[..., Any], tmp_path: Path
) -> None:
    await fleet.configure(colocation_config={"enable": True})
    async with run_manager():
        name = await fleet.add_node()
        pod = await fleet.bind_pod(name, cpu="10")
        await fleet.report(name, system="1", pods={pod: "4"})
        await fleet.wait_batch_cpu(name, "14200")
    common = ("--config-name", fleet.config_name, "-o", "json")
    live = koordctl("explain", "node", name, "--kubeconfig", str(kubeconfig), *common)
    asked = kubectl(kubeconfig, "get", "nodes,pods,nodemetrics,configmaps", "-A", "-o", "json")
    (tmp_path / "dump.json").write_text(asked)
    dumped = koordctl("explain", "node", name, "--from", str(tmp_path / "dump.json"), *common)
    for document in (live, dumped):
        assert document["offers"][CPU] == {
            "decided": 14200,
            "shown": {"capacity": "14200", "allocatable": "14200"},
            "held": 0,
        }
        assert document["written"]["last"]["why"] == "appears"
        assert document["written"]["verdict"] == "unchanged"
    assert live["terms"] == dumped["terms"]


async def test_top_shows_nodes_and_classes_live(
    kubeconfig: Path, fleet: Fleet, run_manager: Callable[..., Any]
) -> None:
    await fleet.configure(colocation_config={"enable": True})
    async with run_manager():
        name = await fleet.add_node()
        pod = await fleet.bind_pod(name, cpu="10")
        await fleet.report(name, system="1", pods={pod: "4"})
        await fleet.wait_batch_cpu(name, "14200")

    async def shown() -> dict[str, Any] | None:
        document = koordctl("top", "--once", "-o", "json", "--kubeconfig", str(kubeconfig))
        rows = [row for row in document["nodes"] if row["name"] == name]
        return rows[0] if rows else None

    row = await eventually(shown, "the node is in the table")
    assert row["classes"]["batch"]["offered"]["cpu"] == 14.2
    assert row["classes"]["production"] == {
        "pods": 1,
        "requested": {"cpu": 10.0, "memory": 0},
        "used": {"cpu": 4.0, "memory": 2**30},
        "offered": {"cpu": 32.0, "memory": 64 * 2**30},
        "taken": {"cpu": 10.0, "memory": 0},
    }


def test_an_unreachable_cluster_is_an_error_in_words(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("{}")
    result = explain("n1", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert "kubeconfig" in result.output


def koordctl(*arguments: str) -> dict[str, Any]:
    """The command as a process of its own: it has an event loop of its own."""
    import sys

    done = subprocess.run([sys.executable, "-m", "koordctl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    from sandbox.demo.kubectl import find_kubectl

    command = [find_kubectl(), "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
