"""Discovery and OpenAPI, as clients ask for them."""

from tests.contract.api import Api, JsonObject

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_the_plain_form_lists_groups_and_resources(api: Api) -> None:
    assert api.get("/api").body["versions"] == ["v1"]
    groups = {group["name"]: group for group in api.get("/apis").body["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert api.get("/apis/apps").body["kind"] == "APIGroup"
    listed = api.get("/api/v1").body
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    pods = next(entry for entry in listed["resources"] if entry["name"] == "pods")
    assert (pods["kind"], pods["namespaced"], pods["shortNames"]) == ("Pod", True, ["po"])
    assert set(pods["verbs"]) == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip
    names = {entry["name"] for entry in listed["resources"]}
    assert {"pods/status", "pods/binding", "pods/eviction", "pods/log"} <= names
    eviction = next(entry for entry in listed["resources"] if entry["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")


def resources(body: JsonObject, group: str) -> dict[str, JsonObject]:
    found = next(item for item in body["items"] if item["metadata"].get("name", "") == group)
    return {entry["resource"]: entry for entry in found["versions"][0]["resources"]}


def test_the_aggregated_form_lists_everything_at_once(api: Api) -> None:
    answer = api.get("/apis", accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    deployments = resources(answer.body, "apps")["deployments"]
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert {entry["subresource"] for entry in deployments["subresources"]} == {"scale", "status"}
    core = api.get("/api", accept=AGGREGATED).body
    assert resources(core, "")["nodes"]["scope"] == "Cluster"


def test_resources_have_the_usual_names(api: Api) -> None:
    """What the sandbox serves must be named as Kubernetes names it."""
    known = {
        ("v1", "configmaps"): ("configmap", "ConfigMap", ["cm"]),
        ("v1", "events"): ("event", "Event", ["ev"]),
        ("v1", "namespaces"): ("namespace", "Namespace", ["ns"]),
        ("v1", "nodes"): ("node", "Node", ["no"]),
        ("v1", "persistentvolumeclaims"): ("persistentvolumeclaim", "PersistentVolumeClaim", ["pvc"]),
        ("v1", "serviceaccounts"): ("serviceaccount", "ServiceAccount", ["sa"]),
        ("v1", "services"): ("service", "Service", ["svc"]),
        ("apps/v1", "daemonsets"): ("daemonset", "DaemonSet", ["ds"]),
        ("apps/v1", "replicasets"): ("replicaset", "ReplicaSet", ["rs"]),
        ("apps/v1", "statefulsets"): ("statefulset", "StatefulSet", ["sts"]),
        ("batch/v1", "cronjobs"): ("cronjob", "CronJob", ["cj"]),
        ("policy/v1", "poddisruptionbudgets"): ("poddisruptionbudget", "PodDisruptionBudget", ["pdb"]),
        ("scheduling.k8s.io/v1", "priorityclasses"): ("priorityclass", "PriorityClass", ["pc"]),
        ("apiextensions.k8s.io/v1", "customresourcedefinitions"): (
            "customresourcedefinition",
            "CustomResourceDefinition",
            ["crd", "crds"],
        ),
    }
    for (version, plural), expected in known.items():
        listed = api.get(f"/{'api' if version == 'v1' else 'apis'}/{version}").body["resources"]
        found = next(entry for entry in listed if entry["name"] == plural)
        assert (found["singularName"], found["kind"], sorted(found.get("shortNames", []))) == expected


def test_unknown_groups_and_versions_are_not_found(api: Api) -> None:
    for path in ("/apis/nobody.example.com", "/apis/nobody.example.com/v1", "/apis/apps/v9", "/api/v9"):
        assert api.get(path).status == 404, path


def test_openapi_describes_the_kinds(api: Api) -> None:
    paths = api.get("/openapi/v3").body["paths"]
    assert {"api/v1", "apis/apps/v1"} <= paths.keys()
    document = api.get(paths["apis/apps/v1"]["serverRelativeURL"]).body
    assert document["openapi"].startswith("3.0")
    kinds = {
        (entry["group"], entry["version"], entry["kind"])
        for schema in document["components"]["schemas"].values()
        for entry in schema.get("x-kubernetes-group-version-kind", [])
    }
    assert ("apps", "v1", "Deployment") in kinds
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"


def test_the_version_is_told(api: Api) -> None:
    told = api.get("/version").body
    assert told["major"] == "1"
    assert told["gitVersion"].startswith("v1.")
