"""Strategic merge patches as the API server applies them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.merge_schema import UNTYPED
from koord.api.strategic_merge import MergeSchema, StrategicMergeError, merge_schema, strategic_merge


def schema_of(api_version: str, kind: str) -> MergeSchema:
    schema = merge_schema(api_version, kind)
    assert schema is not None
    return schema


POD = schema_of("v1", "Pod")
DEPLOYMENT = schema_of("apps/v1", "Deployment")


def pod_containers(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def names(pod: dict[str, Any]) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


def test_maps_merge_and_null_deletes() -> None:
    result = strategic_merge(
        {"metadata": {"labels": {"a": "1", "b": "2"}}}, {"metadata": {"labels": {"a": None, "c": "3"}}}, POD
    )
    assert result == {"metadata": {"labels": {"b": "2", "c": "3"}}}


def test_null_for_an_absent_field_leaves_no_trace() -> None:
    patch = {"spec": {"nodeSelector": {"a": None}, "nodeName": None}}
    assert strategic_merge({}, patch, POD) == {"spec": {"nodeSelector": {}}}


def test_containers_and_their_env_merge_by_name() -> None:
    original = pod_containers({"name": "main", "image": "a", "env": [{"name": "A", "value": "1"}]})
    patch = pod_containers({"name": "main", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]})
    assert strategic_merge(original, patch, POD) == pod_containers(
        {"name": "main", "image": "a", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]}
    )


def test_new_items_come_in_front_and_untouched_ones_keep_their_order() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    assert names(strategic_merge(original, pod_containers({"name": "x"}), POD)) == ["x", "a", "b", "c"]
    both = pod_containers({"name": "c"}, {"name": "x"}, {"name": "a"})
    assert names(strategic_merge(original, both, POD)) == ["b", "c", "x", "a"]


def test_named_items_keep_the_order_of_the_patch() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = pod_containers({"name": "b", "image": "2"}, {"name": "a", "image": "1"})
    assert names(strategic_merge(original, patch, POD)) == ["b", "a", "c"]


def test_set_element_order_moves_items_without_patching_them() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}
    result = strategic_merge(original, patch, POD)
    assert names(result) == ["b", "c", "a"]
    assert "$setElementOrder/containers" not in result["spec"]


def test_set_element_order_places_a_new_item_where_apply_had_it() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "new"}, {"name": "b"}],
            "containers": [{"name": "new", "image": "i"}],
        }
    }
    assert names(strategic_merge(original, patch, POD)) == ["a", "new", "b"]


def test_set_element_order_must_name_the_items_of_the_patch_in_order() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
            "containers": [{"name": "b"}, {"name": "a"}],
        }
    }
    with pytest.raises(StrategicMergeError, match="setElementOrder"):
        strategic_merge(pod_containers({"name": "a"}), patch, POD)


def test_an_item_is_deleted_by_directive() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"})
    patch = pod_containers({"$patch": "delete", "name": "a"})
    assert names(strategic_merge(original, patch, POD)) == ["b"]


def test_deleting_an_item_of_an_absent_list_adds_nothing() -> None:
    patch = {"spec": {"volumes": [{"$patch": "delete", "name": "v"}]}}
    assert strategic_merge({"spec": {}}, patch, POD) == {"spec": {"volumes": []}}


def test_a_replace_item_replaces_the_whole_list() -> None:
    original = pod_containers({"name": "a"}, {"name": "b"})
    patch = pod_containers({"name": "c", "image": "i"}, {"$patch": "replace"})
    assert strategic_merge(original, patch, POD) == pod_containers({"name": "c", "image": "i"})


def test_a_map_is_replaced_or_emptied_by_directive() -> None:
    original = {"spec": {"nodeSelector": {"a": "1"}, "securityContext": {"runAsUser": 1}}}
    patch = {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}, "securityContext": {"$patch": "delete"}}}
    assert strategic_merge(original, patch, POD) == {"spec": {"nodeSelector": {"b": "2"}, "securityContext": {}}}


def test_retain_keys_drops_the_other_members_of_a_union() -> None:
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(original, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_retain_keys_works_inside_a_keyed_item() -> None:
    original = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}}]}}
    assert strategic_merge(original, patch, POD)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


def test_retain_keys_must_list_what_the_patch_sets() -> None:
    with pytest.raises(StrategicMergeError, match="rollingUpdate"):
        strategic_merge({}, {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}, DEPLOYMENT)


def test_finalizers_are_a_set_that_items_can_be_deleted_from() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    merged = strategic_merge(original, {"metadata": {"finalizers": ["b", "c"]}}, POD)
    assert merged["metadata"]["finalizers"] == ["a", "b", "c"]
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
            "finalizers": ["c"],
        }
    }
    assert strategic_merge(original, patch, POD)["metadata"]["finalizers"] == ["c", "b"]


def test_lists_without_a_merge_key_are_replaced() -> None:
    original = {"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "m", "args": ["1"]}]}}
    patch = {"spec": {"tolerations": [{"key": "b", "value": None}], "containers": [{"name": "m", "args": ["2"]}]}}
    assert strategic_merge(original, patch, POD) == {
        "spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "m", "args": ["2"]}]}
    }


def test_an_item_without_its_merge_key_is_refused_by_name() -> None:
    with pytest.raises(StrategicMergeError, match=r"\.spec\.containers: .*merge key 'name'"):
        strategic_merge(pod_containers({"name": "a"}), pod_containers({"image": "i"}), POD)


@pytest.mark.parametrize("patch", [{"spec": {"$patch": "mix"}}, pod_containers({"$patch": "mix", "name": "a"})])
def test_an_unknown_directive_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(StrategicMergeError, match="mix"):
        strategic_merge(pod_containers({"name": "a"}), patch, POD)


def test_a_value_of_another_type_replaces_the_old_one() -> None:
    assert strategic_merge({"spec": "x"}, {"spec": {"a": 1}}, POD) == {"spec": {"a": 1}}
    assert strategic_merge({"spec": {"a": 1}}, {"spec": "x"}, POD) == {"spec": "x"}


def test_keys_that_only_look_like_directives_are_data() -> None:
    config_map = schema_of("v1", "ConfigMap")
    assert strategic_merge({}, {"data": {"$other": "v"}}, config_map) == {"data": {"$other": "v"}}


def test_a_disruption_budget_replaces_its_selector() -> None:
    original = {"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    result = strategic_merge(original, patch, schema_of("policy/v1", "PodDisruptionBudget"))
    assert result == {"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}}


LISTS = [
    ("v1", "Pod", "spec.topologySpreadConstraints", "topologyKey"),
    ("v1", "Pod", "spec.hostAliases", "ip"),
    ("v1", "Pod", "status.conditions", "type"),
    ("v1", "Pod", "metadata.ownerReferences", "uid"),
    ("v1", "Service", "spec.ports", "port"),
    ("v1", "Node", "status.conditions", "type"),
    ("v1", "Node", "status.addresses", "type"),
    ("v1", "ServiceAccount", "secrets", "name"),
    ("v1", "ReplicationController", "spec.template.spec.containers", "name"),
    ("apps/v1", "Deployment", "spec.template.spec.initContainers", "name"),
    ("apps/v1", "StatefulSet", "spec.template.spec.volumes", "name"),
    ("apps/v1", "DaemonSet", "spec.template.metadata.ownerReferences", "uid"),
    ("apps/v1", "ReplicaSet", "status.conditions", "type"),
    ("batch/v1", "Job", "spec.template.spec.containers", "name"),
    ("batch/v1", "CronJob", "spec.jobTemplate.spec.template.spec.containers", "name"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "webhooks", "name"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "webhooks", "name"),
]


def nest(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(("api_version", "kind", "path", "key"), LISTS)
def test_keyed_lists_of_every_kind_merge(api_version: str, kind: str, path: str, key: str) -> None:
    original = nest(path, [{key: "1", "old": True}, {key: "2"}])
    patch = nest(path, [{key: "1", "new": True}])
    expected = nest(path, [{key: "1", "old": True, "new": True}, {key: "2"}])
    assert strategic_merge(original, patch, schema_of(api_version, kind)) == expected


def test_taints_and_rbac_rules_are_replaced() -> None:
    taints = strategic_merge(
        nest("spec.taints", [{"key": "a"}]), nest("spec.taints", [{"key": "b"}]), schema_of("v1", "Node")
    )
    assert taints == nest("spec.taints", [{"key": "b"}])
    role = schema_of("rbac.authorization.k8s.io/v1", "ClusterRole")
    assert strategic_merge({"rules": [1]}, {"rules": [2]}, role) == {"rules": [2]}


def test_custom_resources_have_no_schema() -> None:
    assert merge_schema("slo.koordinator.sh/v1alpha1", "NodeSLO") is None
    assert merge_schema("v1", "Deployment") is None


KEYS = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.one_of(st.integers(), st.sampled_from(["x", "y", ""]), st.booleans())
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3))
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": KEYS}, optional={"image": st.sampled_from(["i", "j"])}),
    unique_by=lambda c: c["name"],
)


@given(OBJECTS, OBJECTS)
def test_inputs_stay_untouched_and_a_second_application_changes_nothing(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((original, patch))
    once = strategic_merge(original, patch, UNTYPED)
    assert (original, patch) == before
    assert strategic_merge(once, patch, UNTYPED) == once


@given(CONTAINERS, CONTAINERS)
def test_merging_keyed_lists_loses_and_invents_no_item(
    original: list[dict[str, Any]], patch: list[dict[str, Any]]
) -> None:
    result = strategic_merge(pod_containers(*original), pod_containers(*patch), POD)
    old, new, merged = [c["name"] for c in original], [c["name"] for c in patch], names(result)
    assert sorted(merged) == sorted({*old, *new})
    assert [name for name in merged if name in new] == new
    assert [name for name in merged if name not in new] == [name for name in old if name not in new]
    again = strategic_merge(result, pod_containers(*patch), POD)
    assert sorted(names(again)) == sorted(merged)
