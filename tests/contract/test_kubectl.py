"""kubectl as a person uses it."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.contract import bodies
from tests.contract.api import STRATEGIC, Api

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


def write(document: Any) -> str:
    """A manifest for kubectl's standard input."""
    return yaml.safe_dump(document)


def test_versions_and_resources_are_discovered(kubectl: Kubectl) -> None:
    assert "Server Version: v1." in kubectl("version").stdout
    assert {"v1", "apps/v1", "batch/v1", "policy/v1"} <= set(kubectl("api-versions").stdout.split())
    listed = kubectl("api-resources", "-o", "wide").stdout
    for name in ("pods", "deployments", "poddisruptionbudgets", "leases", "customresourcedefinitions"):
        assert f"\n{name} " in listed


def test_create_get_and_delete(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=write(bodies.config_map("a", k="v"))).stdout == "configmap/a created\n"
    again = kubectl("create", "-f", "-", stdin=write(bodies.config_map("a")), check=False)
    assert again.returncode == 1
    assert (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists'
        in again.stderr
    )
    assert json.loads(kubectl("get", "cm", "a", "-o", "json").stdout)["data"] == {"k": "v"}
    assert yaml.safe_load(kubectl("get", "cm", "a", "-o", "yaml").stdout)["kind"] == "ConfigMap"
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}").stdout == "v"
    assert kubectl("get", "cm", "a", "-o", "name").stdout == "configmap/a\n"
    assert "NAME   DATA   AGE" in kubectl("get", "cm", "a").stdout
    assert 'configmap "a" deleted' in kubectl("delete", "cm", "a").stdout
    missing = kubectl("get", "cm", "a", check=False)
    assert missing.stderr == 'Error from server (NotFound): configmaps "a" not found\n'


def test_typed_generators_create(kubectl: Kubectl, namespace: str) -> None:
    """kubectl sends these as protobuf."""
    kubectl("create", "configmap", "cm", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "sec", "--from-literal=p=q")
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "deployment", "web", "--image=i", "--replicas=0", "--port=80")
    kubectl("create", "job", "work", "--image=i", "--", "true")
    kubectl("create", "cronjob", "tick", "--image=i", "--schedule=0 0 1 1 *")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    kubectl("create", "poddisruptionbudget", "pdb", "--selector=a=b", "--min-available=50%")
    kubectl("create", "quota", "quota", "--hard=cpu=1,pods=2")
    kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "readers", "--role=reader", f"--serviceaccount={namespace}:robot")
    kubectl("create", "priorityclass", f"pc-{namespace}", "--value=10")
    kubectl("delete", "priorityclass", f"pc-{namespace}")
    found = json.loads(kubectl("get", "deploy,job,cronjob,svc,pdb,quota,role,rolebinding", "-o", "json").stdout)[
        "items"
    ]
    by_name = {item["metadata"]["name"]: item for item in found}
    assert by_name["web"]["spec"]["replicas"] == 0
    assert by_name["web"]["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] == 80
    assert by_name["work"]["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
    assert by_name["svc"]["spec"]["ports"][0]["targetPort"] == 8080
    assert by_name["pdb"]["spec"]["minAvailable"] == "50%"
    assert by_name["quota"]["spec"]["hard"] == {"cpu": "1", "pods": "2"}
    assert by_name["readers"]["subjects"][0]["name"] == "robot"


def test_client_side_apply_merges_three_ways(kubectl: Kubectl) -> None:
    body = bodies.deployment("web")
    body["metadata"]["annotations"] = {"old": "1"}
    assert kubectl("apply", "-f", "-", stdin=write(body)).stdout == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", "-", stdin=write(body)).stdout == "deployment.apps/web unchanged\n"
    kubectl("annotate", "deploy", "web", "theirs=1")
    kubectl("scale", "deploy", "web", "--replicas=3")
    del body["metadata"]["annotations"], body["spec"]["replicas"]
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
    body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "s"})
    assert kubectl("apply", "-f", "-", stdin=write(body)).stdout == "deployment.apps/web configured\n"
    found = json.loads(kubectl("get", "deploy", "web", "-o", "json").stdout)
    assert found["metadata"]["annotations"]["theirs"] == "1"
    assert "old" not in found["metadata"]["annotations"]
    images = {item["name"]: item["image"] for item in found["spec"]["template"]["spec"]["containers"]}
    assert images == {"c": "i:2", "side": "s"}
    body["spec"]["template"]["spec"]["containers"].pop()
    kubectl("apply", "-f", "-", stdin=write(body))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={..containers[*].name}").stdout == "c"


def test_a_list_is_written_item_by_item(kubectl: Kubectl) -> None:
    """kubectl has no schema of a List and asks for OpenAPI v2, which it takes in protobuf only."""
    items = [bodies.config_map("a"), bodies.config_map("b")]
    document = write({"apiVersion": "v1", "kind": "List", "items": items})
    assert kubectl("apply", "-f", "-", stdin=document).stdout == "configmap/a created\nconfigmap/b created\n"
    assert kubectl("apply", "-f", "-", stdin=document).stdout == "configmap/a unchanged\nconfigmap/b unchanged\n"
    assert kubectl("replace", "-f", "-", stdin=document).stdout == "configmap/a replaced\nconfigmap/b replaced\n"
    wrong = write({"apiVersion": "v1", "kind": "List", "items": [{**bodies.config_map("c"), "dota": {}}]})
    refused = kubectl("create", "-f", "-", stdin=wrong, check=False)
    assert refused.returncode == 1
    assert 'unknown field "dota"' in refused.stderr
    assert kubectl("delete", "-f", "-", stdin=document).stdout.count("deleted") == 2


def test_server_side_apply_reports_conflicts(kubectl: Kubectl) -> None:
    body = bodies.config_map("a", k="1")
    done = kubectl("apply", "--server-side", "-f", "-", stdin=write(body))
    assert done.stdout == "configmap/a serverside-applied\n"
    body["data"]["k"] = "2"
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    refused = kubectl(*other, stdin=write(body), check=False)
    assert refused.returncode == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.k' in refused.stderr
    kubectl(*other, "--force-conflicts", stdin=write(body))
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}").stdout == "2"


def test_client_side_applied_objects_move_to_server_side(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=write(bodies.config_map("a", k="1", gone="1")))
    kubectl("apply", "--server-side", "-f", "-", stdin=write(bodies.config_map("a", k="2")))
    assert json.loads(kubectl("get", "cm", "a", "-o", "json").stdout)["data"] == {"k": "2"}


def test_apply_of_custom_resources(kubectl: Kubectl, unique: str, api: Api) -> None:
    group = f"{unique}.example.com"
    kubectl("apply", "-f", "-", stdin=write(bodies.custom_definition(group)))
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=20s")
    api.wait(f"/apis/{group}/v1/widgets", lambda answer: answer.status == 200)
    kubectl("apply", "-f", "-", stdin=write(bodies.widget(group, "w", size=2)))
    kubectl("apply", "-f", "-", stdin=write(bodies.widget(group, "w", size=3)))
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=write(bodies.widget(group, "w", size=4)))
    lines = kubectl("get", f"widgets.{group}", "-o", "wide").stdout.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "PHASE", "AGE"]
    assert lines[1].split()[:2] == ["w", "4"]
    assert "Spec:" in kubectl("describe", f"widgets.{group}", "w").stdout
    explained = kubectl("explain", "widgets.spec", f"--api-version={group}/v1").stdout
    assert "size\t<integer>" in explained
    kubectl("delete", "crd", f"widgets.{group}")


def test_client_side_validation_warns_of_unknown_fields(kubectl: Kubectl) -> None:
    body = bodies.pod("p", colour="red")
    refused = kubectl("apply", "-f", "-", stdin=write(body), check=False)
    assert refused.returncode == 1
    assert 'unknown field "spec.colour"' in refused.stderr
    kubectl("apply", "--validate=ignore", "-f", "-", stdin=write(body))


@pytest.mark.parametrize(
    ("form", "patch"),
    [
        ("json", '[{"op":"add","path":"/data/k","value":"2"}]'),
        ("merge", '{"data":{"k":"2"}}'),
        ("strategic", '{"data":{"k":"2"}}'),
    ],
)
def test_patch(kubectl: Kubectl, form: str, patch: str) -> None:
    kubectl("create", "-f", "-", stdin=write(bodies.config_map("a", k="1")))
    assert kubectl("patch", "cm", "a", f"--type={form}", "-p", patch).stdout == "configmap/a patched\n"
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}").stdout == "2"


def test_label_annotate_and_select(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        kubectl("create", "-f", "-", stdin=write(bodies.config_map(name)))
    kubectl("label", "cm", "a", "tier=x")
    kubectl("annotate", "cm", "a", "note=hello there")
    assert kubectl("get", "cm", "-l", "tier=x", "-o", "name").stdout == "configmap/a\n"
    assert "tier=x" in kubectl("get", "cm", "a", "--show-labels").stdout
    assert kubectl("get", "cm", "--field-selector=metadata.name=b", "-o", "name").stdout == "configmap/b\n"
    kubectl("label", "cm", "a", "tier-")
    assert kubectl("get", "cm", "-l", "tier", "-o", "name").stdout == ""


def test_replace(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=write(bodies.config_map("a", k="1")))
    assert "replaced" in kubectl("replace", "-f", "-", stdin=write(bodies.config_map("a", j="2"))).stdout
    assert json.loads(kubectl("get", "cm", "a", "-o", "json").stdout)["data"] == {"j": "2"}
    assert "replaced" in kubectl("replace", "--force", "-f", "-", stdin=write(bodies.config_map("a", z="2"))).stdout


def test_scale_and_rollout_status(kubectl: Kubectl, api: Api, namespace: str) -> None:
    kubectl("create", "-f", "-", stdin=write(bodies.deployment("web", replicas=2)))
    assert kubectl("scale", "deploy/web", "--replicas=0").stdout == "deployment.apps/web scaled\n"
    mismatch = kubectl("scale", "deploy/web", "--current-replicas=7", "--replicas=1", check=False)
    assert "Expected replicas to be 7, was 0" in mismatch.stderr
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    generation = api.get(path).body["metadata"]["generation"]
    api.patch(f"{path}/status", {"status": {"observedGeneration": generation}})
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=20s").stdout


def test_wait_for_conditions_paths_and_deletion(kubectl: Kubectl, api: Api, namespace: str) -> None:
    pod = f"/api/v1/namespaces/{namespace}/pods/p"
    kubectl("create", "-f", "-", stdin=write(bodies.pod("p")))
    kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Pending", "--timeout=20s")
    late = kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=1s", check=False)
    assert "timed out waiting for the condition" in late.stderr
    api.patch(f"{pod}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC)
    assert "condition met" in kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=20s").stdout
    kubectl("delete", "pod", "p", "--wait=false")
    kubectl("wait", "pod/p", "--for=delete", "--timeout=20s")


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    body = bodies.config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl("create", "-f", "-", stdin=write(body))
    stuck = kubectl("delete", "cm", "a", "--timeout=1s", check=False)
    assert "timed out waiting for the condition" in stuck.stderr
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert kubectl("get", "cm", "a", check=False).returncode == 1


def test_forced_deletion_of_a_bound_pod(kubectl: Kubectl, api: Api, namespace: str, node: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    kubectl("create", "-f", "-", stdin=write(bodies.pod("p")))
    api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
    kubectl("delete", "pod", "p", "--grace-period=5", "--wait=false")
    assert api.get(f"{pods}/p").body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert "Terminating" in kubectl("get", "pod", "p").stdout
    kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    assert api.get(f"{pods}/p").status == 404


def test_get_watch_prints_changes(kubectl: Kubectl, api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kubectl("create", "-f", "-", stdin=write(bodies.config_map("first")))
    command = kubectl(
        "get", "cm", "-w", "--request-timeout=3s", "--field-selector=metadata.name!=kube-root-ca.crt", check=False
    )
    assert command.stdout.splitlines()[1].startswith("first ")
    made = api.post(path, bodies.config_map("second")).body
    names = kubectl("get", "cm", "--watch-only", "--request-timeout=2s", "-o", "name", check=False)
    assert names.stdout in ("", "configmap/second\n")
    assert made["metadata"]["name"] == "second"


def test_describe_shows_events(kubectl: Kubectl, api: Api, namespace: str) -> None:
    kubectl("create", "-f", "-", stdin=write(bodies.pod("p", {"app": "x"})))
    pod = api.get(f"/api/v1/namespaces/{namespace}/pods/p").body
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": "p",
            "namespace": namespace,
            "uid": pod["metadata"]["uid"],
        },
        "reason": "Throttled",
        "message": "slowed down for others",
        "type": "Warning",
        "source": {"component": "contract"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 2,
    }
    assert api.post(f"/api/v1/namespaces/{namespace}/events", event).status == 201
    described = kubectl("describe", "pod", "p").stdout
    assert "app=x" in described
    assert "slowed down for others" in described
    assert "Throttled" in kubectl("get", "events").stdout
    assert "Throttled" in kubectl("events", "--for=pod/p").stdout


def test_explain_and_access(kubectl: Kubectl) -> None:
    explained = kubectl("explain", "pod.spec.containers").stdout
    assert "KIND:       Pod" in explained
    assert "image\t<string>" in explained
    assert "resources\t<ResourceRequirements>" in explained
    assert kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert "Username" in kubectl("auth", "whoami").stdout


def test_cordon_drain_and_uncordon(kubectl: Kubectl, api: Api, namespace: str, node: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert kubectl("cordon", node).stdout == f"node/{node} cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", node).stdout
    kubectl("uncordon", node)
    assert "SchedulingDisabled" not in kubectl("get", "node", node).stdout
    kubectl("create", "-f", "-", stdin=write(bodies.pod("p", terminationGracePeriodSeconds=0)))
    api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
    refused = kubectl("drain", node, "--timeout=10s", check=False)
    assert "cannot delete Pods that declare no controller" in refused.stderr
    drained = kubectl("drain", node, "--force", "--timeout=30s").stdout
    assert f"evicting pod {namespace}/p" in drained or "pod/p evicted" in drained
    assert api.get(f"{pods}/p").status == 404


def test_a_deployment_makes_pods_and_takes_them_along(kubectl: Kubectl, api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    kubectl("apply", "-f", "-", stdin=write(bodies.deployment("web", replicas=2, paused=False)))
    made = api.wait(pods, lambda answer: len(answer.body["items"]) == 2).body["items"]
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in made} == {"ReplicaSet"}
    assert all(pod["metadata"]["generateName"].startswith("web-") for pod in made)
    kubectl("scale", "deploy/web", "--replicas=3")
    api.wait(pods, lambda answer: len(answer.body["items"]) == 3)
    listed = kubectl("get", "deploy,rs,pods", "-l", "app=web").stdout
    assert "deployment.apps/web" in listed
    assert "0/3" in listed
    kubectl("set", "image", "deploy/web", "c=i:2")
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    api.wait(sets, lambda answer: len(answer.body["items"]) == 2)
    assert "with revision #2" in kubectl("rollout", "history", "deploy/web", "--revision=2").stdout
    kubectl("delete", "deploy", "web", "--cascade=foreground", "--timeout=30s")
    api.wait(pods, lambda answer: not answer.body["items"])
    assert api.get(sets).body["items"] == []
