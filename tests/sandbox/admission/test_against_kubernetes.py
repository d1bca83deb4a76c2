"""The tables of this folder, put to a real API server: what it refuses, accepts and fills in.

Skipped where there is none; `make kubernetes` builds one.
"""

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord import crds
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.fields import builtin, decode
from sandbox.apiserver.kinds import Kind
from tests.kubernetes.control_plane import ControlPlane, find_assets, wait_until

JsonObject = dict[str, Any]
KINDS = {(kind.group, kind.plural): kind for kind in builtin_kinds()}
CRD_OBJECTS = json.loads((Path(__file__).parents[2] / "koord/vectors/crd_objects.json").read_text())["cases"]
ACCOUNT_VOLUME = "kube-api-access-"
# Selectors and labels of jobs come from storage preparation, the taint of new nodes from a plugin we do not have.
FILLED_ELSEWHERE = ("jobs", "clusterroles", "nodes")
GIVEN_BY_OTHERS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "finalizers")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """etcd and API server with the service accounts that the tables name."""
    assets, why = find_assets()
    if assets is None:
        pytest.skip(f"no real API server: {why}")
    with ControlPlane(assets, programs=("etcd", "kube-apiserver")) as plane:
        for name in ("default", "a", "b"):
            account = {"metadata": {"name": name}}
            assert plane.api("POST", "/api/v1/namespaces/default/serviceaccounts", account)[0] in (201, 409)
        yield plane


def path_of(kind: Kind) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def document_of(case: JsonObject) -> JsonObject:
    kind = KINDS[case["group"], case["plural"]]
    document: JsonObject = {**copy.deepcopy(case["object"]), "apiVersion": kind.api_version, "kind": kind.kind}
    document.setdefault("metadata", {}).setdefault("name", "x")
    return document


def try_out(plane: ControlPlane, case: JsonObject) -> tuple[int, Any]:
    """Create on a dry run: status code and answer."""
    kind = KINDS[case["group"], case["plural"]]
    return plane.api("POST", f"{path_of(kind)}?dryRun=All", document_of(case))


def without_account_volume(spec: JsonObject) -> JsonObject:
    """A pod spec without the volume that carries a service account's token."""
    spec = copy.deepcopy(spec)
    kept = [volume for volume in spec.pop("volumes", ()) if not volume["name"].startswith(ACCOUNT_VOLUME)]
    if kept:
        spec["volumes"] = kept
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        mounts = [
            mount for mount in container.pop("volumeMounts", ()) if not mount["name"].startswith(ACCOUNT_VOLUME)
        ]
        if mounts:
            container["volumeMounts"] = mounts
    return spec


def comparable(document: JsonObject) -> JsonObject:
    """What admission is to answer for: all but metadata, status and what other parts of the server fill in."""
    rest = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    if document["kind"] == "Pod":
        rest["spec"] = without_account_volume(rest["spec"])
    if "spec" in rest:
        rest["spec"] = {key: value for key, value in rest["spec"].items() if key not in GIVEN_BY_OTHERS}
    return rest


@pytest.mark.vectors("refused")
def test_a_real_api_server_refuses_it_in_the_same_words(plane: ControlPlane, vector: JsonObject) -> None:
    status, answer = try_out(plane, vector)
    assert status == 422, answer
    assert vector["says"] in answer["message"]


@pytest.mark.vectors("accepted")
async def test_a_real_api_server_accepts_it_and_fills_in_the_same(
    plane: ControlPlane, bench: Any, vector: JsonObject
) -> None:
    status, answer = try_out(plane, vector)
    assert status == 201, answer
    if vector["plural"] in FILLED_ELSEWHERE:
        return
    kind = KINDS[vector["group"], vector["plural"]]
    described = builtin.type_of(kind)
    assert described is not None
    document = decode.decode(document_of(vector), described).document
    if kind.namespaced:
        document["metadata"]["namespace"] = "default"
    admitted = await bench.create(vector["group"], vector["plural"], document)
    ours = json.loads(json.dumps(admitted.object))
    assert leaves(comparable(ours)) ^ leaves(comparable(answer)) == set()


def leaves(value: Any, path: str = "") -> set[tuple[str, Any]]:
    """(path, scalar) of everything in a document; empty members mean the same as absent ones."""
    if isinstance(value, dict):
        return {leaf for key, item in value.items() for leaf in leaves(item, f"{path}.{key}")}
    if isinstance(value, list):
        return {leaf for index, item in enumerate(value) for leaf in leaves(item, f"{path}[{index}]")}
    return set() if value in (None, "", False) else {(path, value)}


def at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        if obj is None:
            return None
        obj = obj[int(part)] if isinstance(obj, list) else obj.get(part)
    return obj


@pytest.mark.vectors("defaulting")
def test_a_real_api_server_sets_the_same_default(plane: ControlPlane, vector: JsonObject) -> None:
    status, answer = try_out(plane, vector)
    assert status == 201, answer
    expected = vector["expected"]
    if isinstance(expected, dict) and vector["path"] == "metadata.labels":
        expected = {**expected, "kubernetes.io/metadata.name": document_of(vector)["metadata"]["name"]}
    assert at(answer, vector["path"]) == expected


@pytest.fixture(scope="module")
def definitions(plane: ControlPlane) -> dict[str, JsonObject]:
    """Koord's custom kinds, established in the real API server."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = {}
    for definition in crds.load():
        status, answer = plane.api("POST", path, definition)
        assert status == 201, answer
        name = definition["metadata"]["name"]
        wait_until(lambda name=name: condition(plane.api("GET", f"{path}/{name}")[1], "Established"), name)
        found[definition["spec"]["names"]["kind"]] = plane.api("GET", f"{path}/{name}")[1]
    return found


def condition(definition: JsonObject, name: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == name and entry["status"] == "True" for entry in conditions)


def test_a_real_api_server_finds_the_definitions_structural_and_approved(definitions: dict[str, JsonObject]) -> None:
    for definition in definitions.values():
        assert not condition(definition, "NonStructuralSchema")
        assert condition(definition, "NamesAccepted")
        unapproved = [
            entry
            for entry in definition["status"]["conditions"]
            if entry["type"] == "KubernetesAPIApprovalPolicyConformant" and entry["status"] != "True"
        ]
        assert unapproved == []


@pytest.mark.parametrize("case", CRD_OBJECTS, ids=[case["name"] for case in CRD_OBJECTS])
def test_a_real_api_server_accepts_every_field_of_a_custom_object(
    plane: ControlPlane, definitions: dict[str, JsonObject], case: JsonObject
) -> None:
    spec = definitions[case["kind"]]["spec"]
    api_version = f"{spec['group']}/{spec['versions'][0]['name']}"
    scope = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    path = f"/apis/{api_version}/{scope}{spec['names']['plural']}?dryRun=All&fieldValidation=Strict"
    document = {"apiVersion": api_version, "kind": case["kind"], "metadata": {"name": "x"}, **case["object"]}
    deadline = time.monotonic() + 10
    while True:
        status, answer = plane.api("POST", path, document)
        if status != 404 or time.monotonic() > deadline:  # an established kind is served a moment later
            break
        time.sleep(0.1)
    assert status == 201, answer


@pytest.fixture(scope="module")
def things(plane: ControlPlane, thing_schema: JsonObject) -> str:
    """The path of a custom kind with the schema of test_schema.py."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": thing_schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, answer = plane.api("POST", path, definition)
    assert status == 201, answer
    wait_until(lambda: plane.api("GET", "/apis/example.com/v1/things")[0] == 200, "things served")
    return "/apis/example.com/v1/things"


@pytest.mark.vectors("schema_refused")
def test_a_real_api_server_refuses_a_custom_object_in_the_same_words(
    plane: ControlPlane, things: str, vector: JsonObject
) -> None:
    document = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": vector["spec"],
    }
    status, answer = plane.api("POST", f"{things}?dryRun=All", document)
    assert status == 422, answer
    assert vector["says"] in answer["message"]
