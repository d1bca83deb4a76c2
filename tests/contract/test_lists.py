"""Lists: selectors, pages, versions."""

import pytest

from tests.contract import bodies
from tests.contract.api import Api, JsonObject


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def names(body: JsonObject) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def fill(api: Api, secrets: str, count: int) -> None:
    for index in range(count):
        assert api.post(secrets, {"metadata": {"name": f"s{index}", "labels": {"n": str(index)}}}).status == 201


def test_a_list_tells_its_kind_and_version_and_its_items_do_not(api: Api, secrets: str) -> None:
    fill(api, secrets, 1)
    listed = api.get(secrets).body
    assert (listed["kind"], listed["apiVersion"]) == ("SecretList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert "kind" not in listed["items"][0]
    assert "apiVersion" not in listed["items"][0]
    assert api.get(f"{secrets}/s0").body == {"kind": "Secret", "apiVersion": "v1", **listed["items"][0]}


def test_a_list_is_sorted_by_name(api: Api, secrets: str) -> None:
    for name in ("b", "a", "c"):
        api.post(secrets, {"metadata": {"name": name}})
    assert names(api.get(secrets).body) == ["a", "b", "c"]


def test_a_list_of_all_namespaces_holds_every_one(api: Api, secrets: str, namespace: str) -> None:
    fill(api, secrets, 1)
    found = [item for item in api.get("/api/v1/secrets").body["items"] if item["metadata"]["namespace"] == namespace]
    assert [item["metadata"]["name"] for item in found] == ["s0"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("a=1", ["p1", "p3"]),
        ("a==1", ["p1", "p3"]),
        ("a!=1", ["p2", "p4"]),
        ("a in (1,2)", ["p1", "p2", "p3"]),
        ("a notin (1)", ["p2", "p4"]),
        ("b", ["p3"]),
        ("!a", ["p4"]),
        ("a=1,!b", ["p1"]),
        ("", ["p1", "p2", "p3", "p4"]),
    ],
)
def test_label_selectors(api: Api, secrets: str, selector: str, expected: list[str]) -> None:
    for name, labels in (("p1", {"a": "1"}), ("p2", {"a": "2"}), ("p3", {"a": "1", "b": ""}), ("p4", {})):
        api.post(secrets, {"metadata": {"name": name, "labels": labels}})
    assert names(api.get(secrets, labelSelector=selector).body) == expected


def test_a_broken_label_selector_is_a_bad_request(api: Api, secrets: str) -> None:
    refused = api.get(secrets, labelSelector="a in (")
    assert (refused.status, refused.reason) == (400, "BadRequest")


def test_field_selectors_of_pods(api: Api, pods: str, node: str) -> None:
    for name in ("p1", "p2", "p3"):
        api.post(pods, bodies.pod(name))
    api.post(f"{pods}/p2/binding", {"metadata": {"name": "p2"}, "target": {"kind": "Node", "name": node}})
    api.patch(f"{pods}/p3/status", {"status": {"phase": "Running"}})
    expected = {
        "metadata.name=p1": ["p1"],
        "metadata.name!=p1": ["p2", "p3"],
        f"spec.nodeName={node}": ["p2"],
        "spec.nodeName=": ["p1", "p3"],
        "spec.nodeName!=": ["p2"],
        "status.phase=Running": ["p3"],
        "status.phase!=Running,spec.nodeName=": ["p1"],
        "spec.restartPolicy=Always": ["p1", "p2", "p3"],
        "spec.schedulerName=nobody": ["p1", "p2", "p3"],
    }
    assert {text: names(api.get(pods, fieldSelector=text).body) for text in expected} == expected
    api.delete(f"{pods}/p2", gracePeriodSeconds=0)


def test_field_selectors_of_events(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/events"
    for name, kind, reason in (("e1", "Pod", "Killing"), ("e2", "Node", "Starting")):
        body = {
            "metadata": {"name": name},
            "involvedObject": {"kind": kind, "name": "x", "namespace": namespace},
            "reason": reason,
            "type": "Warning" if name == "e1" else "Normal",
        }
        assert api.post(path, body).status == 201
    assert names(api.get(path, fieldSelector="involvedObject.kind=Pod").body) == ["e1"]
    assert names(api.get(path, fieldSelector="involvedObject.name=x,reason=Starting").body) == ["e2"]
    assert names(api.get(path, fieldSelector="type=Warning").body) == ["e1"]


def test_secrets_are_selected_by_type(api: Api, secrets: str) -> None:
    fill(api, secrets, 1)
    assert names(api.get(secrets, fieldSelector="type=Opaque").body) == ["s0"]
    assert names(api.get(secrets, fieldSelector="type=Other").body) == []


def test_an_unsupported_field_is_a_bad_request(api: Api, pods: str) -> None:
    refused = api.get(pods, fieldSelector="spec.color=red")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "field label not supported: spec.color" in refused.message


def test_pages_add_up_to_one_consistent_list(api: Api, secrets: str) -> None:
    fill(api, secrets, 5)
    first = api.get(secrets, limit=2).body
    assert names(first) == ["s0", "s1"]
    assert first["metadata"]["remainingItemCount"] == 3
    api.delete(f"{secrets}/s3")
    api.post(secrets, {"metadata": {"name": "s2x"}})
    second = api.get(secrets, limit=2, **{"continue": first["metadata"]["continue"]}).body
    third = api.get(secrets, limit=2, **{"continue": second["metadata"]["continue"]}).body
    assert names(second) + names(third) == ["s2", "s3", "s4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


def test_a_selected_page_does_not_tell_what_remains(api: Api, secrets: str) -> None:
    fill(api, secrets, 3)
    page = api.get(secrets, limit=1, labelSelector="n").body["metadata"]
    assert page["continue"]
    assert "remainingItemCount" not in page


def test_a_broken_continue_token_is_refused(api: Api, secrets: str) -> None:
    refused = api.get(secrets, **{"continue": "nonsense"})
    assert (refused.status, refused.reason) == (400, "BadRequest")


def test_an_exact_version_shows_the_past(api: Api, secrets: str) -> None:
    fill(api, secrets, 2)
    version = api.get(secrets).body["metadata"]["resourceVersion"]
    api.delete(f"{secrets}/s0")
    past = api.get(secrets, resourceVersion=version, resourceVersionMatch="Exact").body
    assert names(past) == ["s0", "s1"]
    assert past["metadata"]["resourceVersion"] == version
    fresh = api.get(secrets, resourceVersion=version, resourceVersionMatch="NotOlderThan").body
    assert int(fresh["metadata"]["resourceVersion"]) >= int(version)


def test_an_ancient_exact_version_has_expired(api: Api, secrets: str) -> None:
    refused = api.get(secrets, resourceVersion="1", resourceVersionMatch="Exact")
    assert refused.status in (200, 410)  # a young etcd still has its first version
    if refused.status == 410:
        assert refused.reason in ("Expired", "Gone")


def test_version_zero_takes_anything(api: Api, secrets: str) -> None:
    fill(api, secrets, 1)
    assert api.get(secrets, resourceVersion="0").status == 200


def test_a_version_of_the_future_times_out(api: Api, secrets: str) -> None:
    now = int(api.get(secrets).body["metadata"]["resourceVersion"])
    refused = api.get(secrets, resourceVersion=str(now + 100_000), resourceVersionMatch="NotOlderThan")
    assert (refused.status, refused.reason) == (504, "Timeout")
    assert "Too large resource version" in refused.message


def test_contradicting_version_options_are_refused(api: Api, secrets: str) -> None:
    refused = api.get(secrets, resourceVersionMatch="Exact")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "resourceVersionMatch is forbidden unless resourceVersion is provided" in refused.message


def test_an_unreadable_version_is_refused(api: Api, secrets: str) -> None:
    assert api.get(secrets, resourceVersion="abc").status in (400, 422)


def test_metadata_alone_can_be_listed(api: Api, secrets: str) -> None:
    fill(api, secrets, 1)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = api.get(secrets, accept=accept).body
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed["items"][0]["kind"] == "PartialObjectMetadata"
    assert listed["items"][0]["metadata"]["name"] == "s0"
    assert "data" not in listed["items"][0]
    one = api.get(f"{secrets}/s0", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").body
    assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "s0")


def test_a_table_has_columns_and_rows(api: Api, pods: str) -> None:
    api.post(pods, bodies.pod("p"))
    table = api.get(pods, accept="application/json;as=Table;g=meta.k8s.io;v=v1").body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = table["rows"][0]
    assert row["cells"][:4] == ["p", "0/1", "Pending", "0"] or row["cells"][:4] == ["p", "0/1", "Pending", 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "p"


COLUMNS = {
    "api/v1/nodes": "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
    "api/v1/namespaces": "Name Status Age",
    "api/v1/pods": "Name Ready Status Restarts Age IP Node Nominated Node Readiness Gates",
    "api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age Selector",
    "api/v1/configmaps": "Name Data Age",
    "api/v1/secrets": "Name Type Data Age",
    "api/v1/serviceaccounts": "Name Age",
    "api/v1/events": "Last Seen Type Reason Object Subobject Source Message First Seen Count Name",
    "api/v1/resourcequotas": "Name Request Limit Age",
    "api/v1/limitranges": "Name Created At",
    "api/v1/persistentvolumes": "Name Capacity Access Modes Reclaim Policy Status Claim StorageClass "
    "VolumeAttributesClass Reason Age VolumeMode",
    "api/v1/persistentvolumeclaims": "Name Status Volume Capacity Access Modes StorageClass "
    "VolumeAttributesClass Age VolumeMode",
    "api/v1/replicationcontrollers": "Name Desired Current Ready Age Containers Images Selector",
    "apis/apps/v1/deployments": "Name Ready Up-to-date Available Age Containers Images Selector",
    "apis/apps/v1/replicasets": "Name Desired Current Ready Age Containers Images Selector",
    "apis/apps/v1/statefulsets": "Name Ready Age Containers Images",
    "apis/apps/v1/daemonsets": "Name Desired Current Ready Up-to-date Available Node Selector Age Containers Images "
    "Selector",
    "apis/apps/v1/controllerrevisions": "Name Controller Revision Age",
    "apis/batch/v1/jobs": "Name Status Completions Duration Age Containers Images Selector",
    "apis/batch/v1/cronjobs": "Name Schedule Timezone Suspend Active Last Schedule Age Containers Images Selector",
    "apis/policy/v1/poddisruptionbudgets": "Name Min Available Max Unavailable Allowed Disruptions Age",
    "apis/scheduling.k8s.io/v1/priorityclasses": "Name Value Global-Default Age PreemptionPolicy",
    "apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "apis/events.k8s.io/v1/events": "Last Seen Type Reason Object Subobject Source Message First Seen Count Name",
    "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "Name Webhooks Age",
    "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "Name Webhooks Age",
    "apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name Scope Versions Created At Group Kind "
    "ShortNames Established",
    "apis/rbac.authorization.k8s.io/v1/roles": "Name Created At",
    "apis/rbac.authorization.k8s.io/v1/rolebindings": "Name Role Age Users Groups ServiceAccounts",
    "apis/networking.k8s.io/v1/networkpolicies": "Name Pod-Selector Age",
    "apis/storage.k8s.io/v1/storageclasses": "Name Provisioner ReclaimPolicy VolumeBindingMode "
    "AllowVolumeExpansion Age",
}


@pytest.mark.parametrize("path", COLUMNS)
def test_columns_of_the_built_in_kinds(api: Api, path: str) -> None:
    table = api.get(f"/{path}", limit=1, accept="application/json;as=Table;g=meta.k8s.io;v=v1").body
    assert " ".join(column["name"] for column in table["columnDefinitions"]) == COLUMNS[path]


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_a_number_that_is_none_is_shown(api: Api, secrets: str, name: str) -> None:
    refused = api.get(secrets, **{name: "x"})
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert 'strconv.ParseInt: parsing "x": invalid syntax' in refused.message
