"""What kubectl get shows."""

from typing import Any

import pytest

from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.kinds import Kind, PrinterColumn
from sandbox.apiserver.tables import columns, pods, render

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
CREATED = "2025-12-31T23:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (740 * 86400, "2y10d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert columns.duration(seconds) == text


def pod(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = {"containers": [{"name": "c"}], **spec}
    return {"metadata": {"name": "p", "creationTimestamp": CREATED}, "spec": containers, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in state, "restartCount": 0, "state": state}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Running", "containerStatuses": [container(running={})]}, "Running"),
        ({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ImagePull"})]}, "ImagePull"),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"signal": 9})]}, "Signal:9"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Succeeded", "containerStatuses": [container(terminated={"reason": "Completed"})]}, "Completed"),
        (
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [container(terminated={"reason": "Completed"}), container(running={})],
            },
            "Running",
        ),
        ({"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}, "SchedulingGated"),
    ],
)
def test_the_status_of_pods(status: dict[str, Any], text: str) -> None:
    assert pods.status_text(pod(status)) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"running": {}}, "Init:0/2"),
        ({"terminated": {"exitCode": 1}}, "Init:ExitCode:1"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Init:Error"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "Init:CrashLoopBackOff"),
        ({"waiting": {"reason": "PodInitializing"}}, "Init:0/2"),
    ],
)
def test_the_status_of_pods_that_initialize(state: dict[str, Any], text: str) -> None:
    init = [{"name": "i", "state": state}]
    shown = pod({"phase": "Pending", "initContainerStatuses": init}, initContainers=[{"name": "i"}, {"name": "j"}])
    assert pods.status_text(shown) == text


def test_a_deleted_pod_is_terminating() -> None:
    leaving = pod({"phase": "Running"})
    leaving["metadata"]["deletionTimestamp"] = CREATED
    assert pods.status_text(leaving) == "Terminating"
    leaving["status"] = {"phase": "Failed", "reason": "Evicted"}
    assert pods.status_text(leaving) == "Evicted"


def test_restarts_tell_when() -> None:
    status = container(running={})
    status |= {"restartCount": 4, "lastState": {"terminated": {"finishedAt": "2025-12-31T23:55:00Z"}}}
    row = pods.PODS.cells(pod({"phase": "Running", "containerStatuses": [status], "podIP": "10.0.0.1"}), NOW)
    assert row[:6] == ("p", "1/1", "Running", "4 (5m ago)", "60m", "10.0.0.1")


def test_every_layout_prints_an_almost_empty_object() -> None:
    for kind in builtin_kinds():
        layout = render.layout_of(kind)
        cells = layout.cells({"metadata": {"name": "x", "creationTimestamp": CREATED}}, NOW)
        assert len(cells) == len(layout.columns), kind.kind
        assert "x" in cells


def row(plural: str, document: dict[str, Any], group: str = "") -> list[Any]:
    kind = builtin_kinds().any_version(group, plural)
    assert kind is not None
    document = {**document, "metadata": {"name": "x", "creationTimestamp": CREATED, **document.get("metadata", {})}}
    return list(render.table(kind, [document], {}, NOW)["rows"][0]["cells"])


def test_rows_of_nodes_services_and_workloads() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "big"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    assert row("nodes", node)[:5] == ["x", "Ready,SchedulingDisabled", "big,worker", "60m", "v1"]
    service = {"spec": {"type": "NodePort", "clusterIP": "1.2.3.4", "ports": [{"port": 80, "nodePort": 30000}]}}
    assert row("services", service) == ["x", "NodePort", "1.2.3.4", "<none>", "80:30000/TCP", "60m", "<none>"]
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["2", "1"]}]}
    deployment = {"spec": {"replicas": 3, "selector": selector}, "status": {"readyReplicas": 2, "updatedReplicas": 3}}
    assert row("deployments", deployment, "apps") == ["x", "2/3", 3, 0, "60m", "<none>", "<none>", "a=b,c in (1,2)"]
    job = {
        "spec": {"completions": 2},
        "status": {"succeeded": 1, "startTime": "2025-12-31T23:59:00Z", "conditions": []},
    }
    assert row("jobs", job, "batch")[:4] == ["x", "Running", "1/2", "60s"]
    budget = {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}
    assert row("poddisruptionbudgets", budget, "policy") == ["x", "50%", "N/A", 1, "60m"]


def test_custom_columns() -> None:
    kind = Kind(
        "g",
        "v1",
        "things",
        "Thing",
        custom=True,
        columns=(
            PrinterColumn("Size", "integer", ".spec.size"),
            PrinterColumn("Names", "string", ".spec.names[*]"),
            PrinterColumn("Open", "boolean", ".spec.open"),
            PrinterColumn("Share", "number", ".spec.share"),
            PrinterColumn("Seen", "date", ".status.seen"),
        ),
    )
    document = {
        "metadata": {"name": "t"},
        "spec": {"size": 3, "names": ["a", "b"], "open": True, "share": 0.5},
        "status": {"seen": CREATED},
    }
    table = render.table(kind, [document, {"metadata": {"name": "u"}, "spec": {"size": "big"}}], {}, NOW)
    assert [entry["cells"] for entry in table["rows"]] == [
        ["t", 3, "a,b", True, 0.5, "60m"],
        ["u", None, None, None, None, None],
    ]


def test_rows_carry_as_much_of_the_object_as_asked() -> None:
    kind = builtin_kinds().any_version("", "configmaps")
    assert kind is not None
    document = {"metadata": {"name": "x"}, "data": {"k": "v"}}
    assert render.table(kind, [document], {}, NOW, include="None")["rows"][0]["object"] is None
    assert render.table(kind, [document], {}, NOW, include="Object")["rows"][0]["object"] == document
    assert "data" not in render.table(kind, [document], {}, NOW)["rows"][0]["object"]
