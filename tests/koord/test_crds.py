"""The CustomResourceDefinitions accept what Koordinator's accept, and what Koord itself writes."""

import copy
from typing import Any

import pytest

from koord import crds
from sandbox.admission.schema import StructuralSchema, compile_schema
from sandbox.admission.validation import validate_create

JsonObject = dict[str, Any]
DEFINITIONS = crds.load()
BY_KIND = {definition["spec"]["names"]["kind"]: definition for definition in DEFINITIONS}

EXPECTED = {
    "ClusterColocationProfile": ("config.koordinator.sh", "v1alpha1", "Cluster", True),
    "NodeMetric": ("slo.koordinator.sh", "v1alpha1", "Cluster", True),
    "NodeSLO": ("slo.koordinator.sh", "v1alpha1", "Cluster", True),
    "PodMigrationJob": ("scheduling.koordinator.sh", "v1alpha1", "Cluster", True),
    "Reservation": ("scheduling.koordinator.sh", "v1alpha1", "Cluster", True),
    "Device": ("scheduling.koordinator.sh", "v1alpha1", "Cluster", True),
    "ElasticQuota": ("scheduling.sigs.k8s.io", "v1alpha1", "Namespaced", False),
    "ElasticQuotaProfile": ("quota.koordinator.sh", "v1alpha1", "Namespaced", True),
    "PodGroup": ("scheduling.sigs.k8s.io", "v1alpha1", "Namespaced", True),
    "NodeResourceTopology": ("topology.node.k8s.io", "v1alpha1", "Cluster", False),
}


def schema_of(kind: str) -> StructuralSchema:
    return compile_schema(BY_KIND[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def test_every_kind_is_there_under_its_group_version_and_scope() -> None:
    found = {}
    for kind, definition in BY_KIND.items():
        spec = definition["spec"]
        (version,) = spec["versions"]
        found[kind] = (spec["group"], version["name"], spec["scope"], "status" in version.get("subresources", {}))
    assert found == EXPECTED


@pytest.mark.parametrize("definition", DEFINITIONS, ids=BY_KIND)
def test_a_definition_is_valid_and_structural(definition: JsonObject) -> None:
    assert [
        str(error) for error in validate_create("apiextensions.k8s.io", "customresourcedefinitions", definition)
    ] == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=BY_KIND)
def test_a_definition_has_columns_for_people(definition: JsonObject) -> None:
    names = [column["name"] for column in definition["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert "Age" in names


def test_each_load_gives_copies_of_its_own() -> None:
    first = crds.load()
    first[0]["spec"]["group"] = "changed"
    assert crds.load()[0]["spec"]["group"] != "changed"


@pytest.mark.vectors("crd_objects")
def test_an_object_that_uses_every_field_is_accepted_whole(vector: JsonObject) -> None:
    schema = schema_of(vector["kind"])
    document = copy.deepcopy({"metadata": {"name": "x"}, **vector["object"]})
    assert schema.prune(document) == []
    assert [str(error) for error in schema.validate(document)] == []


COMPARED = ("NodeSLO", "ClusterColocationProfile", "PodMigrationJob", "NodeResourceTopology")


@pytest.mark.vectors("crd_objects")
def test_nothing_is_defaulted_into_the_objects_that_controllers_compare(vector: JsonObject) -> None:
    if vector["kind"] in COMPARED:
        document = copy.deepcopy(vector["object"])
        schema_of(vector["kind"]).apply_defaults(document)
        assert document == vector["object"]


@pytest.mark.parametrize(
    ("kind", "obj", "path"),
    [
        ("ClusterColocationProfile", {"spec": {"qosClass": "be"}}, "spec.qosClass"),
        ("ClusterColocationProfile", {"spec": {"probability": 0.5}}, "spec.probability"),
        ("ClusterColocationProfile", {"spec": {"labels": {"a": True}}}, "spec.labels.a"),
        (
            "NodeMetric",
            {"spec": {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "all"}}},
            "spec.metricCollectPolicy.nodeMemoryCollectPolicy",
        ),
        (
            "NodeMetric",
            {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "fast"}}}}},
            "status.nodeMetric.nodeUsage.resources.cpu",
        ),
        (
            "NodeSLO",
            {"spec": {"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 101}}},
            "spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent",
        ),
        ("NodeSLO", {"spec": {"cpuBurstStrategy": {"policy": "sometimes"}}}, "spec.cpuBurstStrategy.policy"),
        ("PodMigrationJob", {"spec": {}}, "spec.podRef"),
        ("Reservation", {"spec": {"owners": []}}, "spec.owners"),
        ("Device", {"spec": {"devices": [{"type": "gpu"}]}}, "spec.devices[0].health"),
    ],
)
def test_a_wrong_object_is_refused_at_the_field(kind: str, obj: JsonObject, path: str) -> None:
    assert path in [error.path for error in schema_of(kind).validate(obj)]
