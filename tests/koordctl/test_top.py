"""`koordctl top` on files: the sums are right, the order is the one asked for, and it refreshes until it is ended."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koordctl.__main__ import main
from tests.koordctl import dumps
from tests.manager.fleet import Fleet


def top(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["top", *arguments])


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    items = dumps.example()
    items[0] = dumps.node("n1", **{"kubernetes.io/batch-cpu": "4700", "kubernetes.io/batch-memory": "14602888807"})
    return dumps.write(tmp_path / "dump.json", items)


def test_classes_add_up_over_nodes_and_count_waiting_pods_as_requested(dump: Path) -> None:
    document: dict[str, Any] = json.loads(top("--from", str(dump), "-o", "json").stdout)
    batch = document["classes"]["batch"]
    assert batch["pods"] == 2
    assert batch["requested"] == {"cpu": 10.0, "memory": 9 * 2**30}
    assert batch["taken"] == {"cpu": 9.0, "memory": 8 * 2**30}
    assert batch["used"] == {"cpu": 9.0, "memory": 16 * 2**30}
    assert batch["offered"] == {"cpu": 4.7, "memory": 14602888807}
    assert document["classes"]["production"]["offered"] == {"cpu": 62.0, "memory": 124 * 2**30}
    by_name = {row["name"]: row for row in document["nodes"]}
    assert by_name["n1"]["short"] == ["batch"]
    assert by_name["n1"]["reportAgeSeconds"] == 0
    assert by_name["n2"]["used"] is None


def test_the_table_has_a_line_per_node_in_the_order_asked_for(dump: Path) -> None:
    lines = top("--from", str(dump), "--sort", "age").stdout.splitlines()
    nodes = [line.split()[0] for line in lines if line.startswith("n")]
    assert nodes == ["n2", "n1"]
    limited = top("--from", str(dump), "--sort", "used", "--limit", "1").stdout
    assert "n1 " in limited
    assert "1 more nodes" in limited


def test_a_node_that_cannot_be_read_is_left_out_with_a_word(tmp_path: Path) -> None:
    broken = dumps.node("n1")
    broken["status"]["capacity"]["cpu"] = "lots"
    unreadable = dumps.node("n2", **{"kubernetes.io/batch-cpu": "much"})
    result = top("--from", str(dumps.write(tmp_path / "d.json", [broken, unreadable])))
    assert result.exit_code == 0
    assert "Node/n1" in result.stderr
    assert "n2" in result.stdout


async def test_it_refreshes_until_it_is_ended(kubeconfig: Path, fleet: Fleet) -> None:
    await fleet.add_node()
    command = [sys.executable, "-m", "koordctl", "top", "-o", "json", "--interval", "0.2"]
    process = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    rounds = [json.loads(await process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    await process.stdout.read()
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert all(found["classes"] for found in rounds)


def test_an_unreachable_cluster_is_an_error_in_words(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("{}")
    result = top("--once", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert "kubeconfig" in result.output
