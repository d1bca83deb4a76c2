"""DaemonSets and StatefulSets against the real API server."""

from typing import Any

from koord.kube.resources import DAEMON_SETS, raw
from sandbox.controllers.informers import STATEFUL_SETS

JsonObject = dict[str, Any]
NODES = raw("", "v1", "nodes", "Node", False)


def workload(kind: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
            },
            **spec,
        },
    }


def node(name: str, labels: dict[str, str] | None = None, taints: list[JsonObject] | None = None) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints} if taints else {}}


def target(pod: JsonObject) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    name: str = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return name


async def test_a_daemon_set_has_one_pod_for_each_fitting_node_and_follows_nodes(cluster: Any) -> None:
    no_schedule = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    for name, taints in (("a", None), ("b", None), ("c", no_schedule)):
        await cluster.client.create(NODES, node(name, taints=taints))
    await cluster.client.create(DAEMON_SETS, workload("DaemonSet"))
    await cluster.until(lambda: sorted(map(target, cluster.pods())) == ["a", "b"])
    await cluster.client.create(NODES, node("d"))
    await cluster.until(lambda: sorted(map(target, cluster.pods())) == ["a", "b", "d"])
    await cluster.until(lambda: cluster.read(DAEMON_SETS, "agent")["status"].get("desiredNumberScheduled") == 3)
    await cluster.client.patch(NODES, "d", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
    await cluster.until(lambda: sorted(map(target, cluster.pods())) == ["a", "b"])


async def test_a_deleted_daemon_pod_comes_back(cluster: Any) -> None:
    await cluster.client.create(NODES, node("node-1"))
    cluster.kubelet()
    await cluster.client.create(DAEMON_SETS, workload("DaemonSet"))
    first = (await cluster.until(cluster.pods))[0]
    await cluster.until(lambda: cluster.pods()[0]["status"]["phase"] == "Running")
    await cluster.client.evict(first["metadata"]["name"], "default")
    await cluster.until(lambda: cluster.pods() and cluster.pods()[0]["metadata"]["uid"] != first["metadata"]["uid"])


async def test_a_daemon_set_replaces_its_pods_when_the_template_changes(cluster: Any) -> None:
    await cluster.client.create(NODES, node("node-1"))
    cluster.kubelet()
    await cluster.client.create(DAEMON_SETS, workload("DaemonSet"))
    await cluster.until(lambda: cluster.pods() and cluster.pods()[0]["status"]["phase"] == "Running")
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}}}
    await cluster.client.patch(DAEMON_SETS, "agent", patch, namespace="default")
    await cluster.until(lambda: [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()] == ["agent:2"])
    await cluster.until(lambda: cluster.read(DAEMON_SETS, "agent")["status"].get("updatedNumberScheduled") == 1)


async def test_a_stateful_set_starts_in_order_and_shrinks_from_the_end(cluster: Any) -> None:
    ready: set[str] = set()
    kubelet = cluster.kubelet(starts=lambda pod: pod["metadata"]["name"] in ready)
    await cluster.client.create(STATEFUL_SETS, workload("StatefulSet", replicas=3, serviceName="agent"))

    def names() -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in cluster.pods())

    for ordinal in range(3):
        expected = [f"agent-{index}" for index in range(ordinal + 1)]
        await cluster.until(lambda expected=expected: names() == expected)
        ready.add(f"agent-{ordinal}")
        await cluster.until(lambda ordinal=ordinal: cluster.pods()[ordinal]["spec"].get("nodeName"))
        await kubelet.report(cluster.pods()[ordinal], "Running", ready=True)
    await cluster.until(lambda: cluster.read(STATEFUL_SETS, "agent")["status"].get("availableReplicas") == 3)
    await cluster.client.patch(STATEFUL_SETS, "agent", {"spec": {"replicas": 1}}, namespace="default")
    await cluster.until(lambda: names() == ["agent-0"])


async def test_an_evicted_stateful_pod_comes_back_under_its_name(cluster: Any) -> None:
    cluster.kubelet()
    await cluster.client.create(STATEFUL_SETS, workload("StatefulSet", replicas=2, serviceName="agent"))
    await cluster.until(lambda: cluster.read(STATEFUL_SETS, "agent")["status"].get("availableReplicas") == 2)
    uid = cluster.pods()[0]["metadata"]["uid"]
    await cluster.client.evict("agent-0", "default")
    await cluster.until(
        lambda: {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}.get("agent-0", uid) != uid
    )
    await cluster.until(lambda: cluster.read(STATEFUL_SETS, "agent")["status"].get("availableReplicas") == 2)


async def test_a_stateful_set_updates_from_the_highest_ordinal_down_to_the_partition(cluster: Any) -> None:
    cluster.kubelet()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    body = workload("StatefulSet", replicas=3, serviceName="agent", updateStrategy=strategy)
    await cluster.client.create(STATEFUL_SETS, body)
    await cluster.until(lambda: cluster.read(STATEFUL_SETS, "agent")["status"].get("availableReplicas") == 3)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}}}
    await cluster.client.patch(STATEFUL_SETS, "agent", patch, namespace="default")

    def images() -> list[str]:
        return [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]

    await cluster.until(lambda: images() == ["agent:1", "agent:2", "agent:2"])
