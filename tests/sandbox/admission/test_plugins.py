"""The built-in admission plugins: Priority, namespaces, tolerations, RuntimeClass."""

from typing import Any

import pytest

from sandbox.apiserver.status import StatusError

JsonObject = dict[str, Any]
PRIORITY = ("scheduling.k8s.io", "priorityclasses")


def priority_class(name: str, value: int, **fields: Any) -> JsonObject:
    return {"metadata": {"name": name}, "value": value, **fields}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("", 0, "PreemptLowerPriority")),
        ({"priorityClassName": "koord-batch"}, ("koord-batch", 5000, "PreemptLowerPriority")),
        ({"priorityClassName": "quiet"}, ("quiet", 10, "Never")),
        ({"priorityClassName": "koord-batch", "priority": 5000}, ("koord-batch", 5000, "PreemptLowerPriority")),
        (
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        ),
        ({"priority": 0}, ("", 0, "PreemptLowerPriority")),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        (
            {"priorityClassName": "koord-batch", "preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec",
        ),
    ],
)
async def test_priority_follows_from_the_class(bench: Any, make_pod: Any, spec: JsonObject, expected: Any) -> None:
    bench.put(*PRIORITY, priority_class("koord-batch", 5000))
    bench.put(*PRIORITY, priority_class("quiet", 10, preemptionPolicy="Never"))
    if isinstance(expected, str):
        with pytest.raises(StatusError) as refusal:
            await bench.create("", "pods", make_pod(**spec))
        assert refusal.value.code == 403
        assert refusal.value.message.startswith('pods "p" is forbidden: ')
        assert expected in refusal.value.message
        return
    admitted = (await bench.create("", "pods", make_pod(**spec))).object["spec"]
    assert (admitted.get("priorityClassName", ""), admitted["priority"], admitted["preemptionPolicy"]) == expected


async def test_a_global_default_is_used_and_only_one_may_exist(bench: Any, make_pod: Any) -> None:
    bench.put(*PRIORITY, priority_class("usual", 100, globalDefault=True))
    admitted = (await bench.create("", "pods", make_pod())).object["spec"]
    assert (admitted["priorityClassName"], admitted["priority"]) == ("usual", 100)
    with pytest.raises(StatusError, match="PriorityClass usual is already marked as default"):
        await bench.create(*PRIORITY, priority_class("other", 1, globalDefault=True))
    await bench.update(
        *PRIORITY,
        priority_class("usual", 100, globalDefault=True, preemptionPolicy="PreemptLowerPriority"),
        priority_class("usual", 100, preemptionPolicy="PreemptLowerPriority"),
    )


async def test_an_update_without_priority_keeps_it(bench: Any, make_pod: Any) -> None:
    bench.put(*PRIORITY, priority_class("koord-batch", 5000))
    old = (await bench.create("", "pods", make_pod(priorityClassName="koord-batch"))).object
    spec = {key: value for key, value in old["spec"].items() if key not in ("priority", "preemptionPolicy")}
    updated = (await bench.update("", "pods", {**old, "spec": spec}, old)).object
    assert updated["spec"]["priority"] == 5000


async def test_nothing_is_made_in_a_namespace_that_is_absent_or_going(bench: Any, make_pod: Any) -> None:
    pod = make_pod()
    pod["metadata"]["namespace"] = "nowhere"
    with pytest.raises(StatusError, match='namespaces "nowhere" not found') as refusal:
        await bench.create("", "pods", pod)
    assert refusal.value.code == 404
    bench.put("", "namespaces", {"metadata": {"name": "going", "deletionTimestamp": "2024-01-01T00:00:00Z"}})
    pod["metadata"]["namespace"] = "going"
    with pytest.raises(StatusError, match="because it is being terminated") as refusal:
        await bench.create("", "pods", pod)
    assert refusal.value.code == 403
    assert refusal.value.details["causes"][0]["reason"] == "NamespaceTerminating"


async def test_the_first_namespaces_stay(bench: Any) -> None:
    with pytest.raises(StatusError, match="this namespace may not be deleted"):
        await bench.delete("", "namespaces", {"metadata": {"name": "kube-system"}})
    await bench.delete("", "namespaces", {"metadata": {"name": "team"}})


async def test_pods_get_an_account_and_tolerate_a_lost_node_for_five_minutes(bench: Any, make_pod: Any) -> None:
    spec = (await bench.create("", "pods", make_pod())).object["spec"]
    assert spec["serviceAccountName"] == "default"
    assert [(entry["key"], entry["tolerationSeconds"]) for entry in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    own = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    spec = (await bench.create("", "pods", make_pod(tolerations=own))).object["spec"]
    assert len(spec["tolerations"]) == 2
    spec = (await bench.create("", "pods", make_pod(tolerations=[{"operator": "Exists"}]))).object["spec"]
    assert len(spec["tolerations"]) == 1


async def test_an_overhead_needs_its_runtime_class(bench: Any, make_pod: Any) -> None:
    with pytest.raises(StatusError, match="Pod Overhead set without corresponding RuntimeClass") as refusal:
        await bench.create("", "pods", make_pod(overhead={"cpu": "100m"}))
    assert refusal.value.code == 403
    with pytest.raises(StatusError, match='RuntimeClass "kata" not found'):
        await bench.create("", "pods", make_pod(runtimeClassName="kata"))
    overhead = {"podFixed": {"cpu": "100m"}}
    bench.put("node.k8s.io", "runtimeclasses", {"metadata": {"name": "kata"}, "overhead": overhead})
    await bench.create("", "pods", make_pod(runtimeClassName="kata", overhead={"cpu": "0.1"}))
    with pytest.raises(StatusError, match="doesn't match"):
        await bench.create("", "pods", make_pod(runtimeClassName="kata", overhead={"cpu": "1"}))


async def test_admission_leaves_the_objects_it_was_given_alone(bench: Any, make_pod: Any) -> None:
    pod = make_pod()
    before = str(pod)
    await bench.create("", "pods", pod)
    assert str(pod) == before
