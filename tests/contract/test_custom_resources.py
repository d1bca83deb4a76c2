"""CustomResourceDefinitions: served at once, defaulted, validated, with status, scale and columns."""

from collections.abc import Iterator

import pytest

from tests.contract import bodies
from tests.contract.api import APPLY, STRATEGIC, Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.fixture
def group(api: Api, unique: str) -> Iterator[str]:
    """A group with widgets."""
    group = f"{unique}.example.com"
    assert api.post(DEFINITIONS, bodies.custom_definition(group)).status == 201
    api.wait(f"/apis/{group}/v1/widgets", lambda answer: answer.status == 200)
    yield group
    api.delete(f"{DEFINITIONS}/widgets.{group}")


@pytest.fixture
def widgets(group: str, namespace: str) -> str:
    return f"/apis/{group}/v1/namespaces/{namespace}/widgets"


def test_a_definition_becomes_established(api: Api, group: str) -> None:
    found = api.get(f"{DEFINITIONS}/widgets.{group}").body
    conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert (conditions["NamesAccepted"], conditions["Established"]) == ("True", "True")
    names = found["status"]["acceptedNames"]
    assert (names["plural"], names["singular"], names["listKind"]) == ("widgets", "widget", "WidgetList")
    assert found["status"]["storedVersions"] == ["v1"]


def test_defaults_are_filled_in(api: Api, widgets: str, group: str) -> None:
    made = api.post(widgets, bodies.widget(group, "w", size=3))
    assert made.status == 201, made.body
    assert made.body["spec"] == {"size": 3, "color": "red"}
    assert made.body["metadata"]["generation"] == 1
    assert made.body["apiVersion"] == f"{group}/v1"


def test_lists_of_custom_kinds_keep_the_kind_of_items(api: Api, widgets: str, group: str) -> None:
    api.post(widgets, bodies.widget(group, "w"))
    listed = api.get(widgets).body
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["kind"] == "Widget"


def test_wrong_values_are_invalid(api: Api, widgets: str, group: str) -> None:
    refused = api.post(widgets, bodies.widget(group, "w", size=0, color="green"))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message.startswith(f'Widget.{group} "w" is invalid: ')
    fields = {cause["field"] for cause in refused.body["details"]["causes"]}
    assert {"spec.size", "spec.color"} <= fields


def test_required_members_are_required(api: Api, widgets: str, group: str) -> None:
    refused = api.post(widgets, {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}})
    assert refused.status == 422
    assert refused.body["details"]["causes"][0]["field"] == "spec"
    assert "Required value" in refused.message


def test_unknown_members_are_pruned_with_a_warning(api: Api, widgets: str, group: str) -> None:
    made = api.post(widgets, bodies.widget(group, "w", size=1, shape="round", free={"any": ["thing"]}))
    assert made.body["spec"] == {"size": 1, "color": "red", "free": {"any": ["thing"]}}
    assert made.warnings == ('299 - "unknown field \\"spec.shape\\""',)
    refused = api.post(widgets, bodies.widget(group, "v", size=1, shape="round"), fieldValidation="Strict")
    assert refused.status == 400
    assert 'unknown field "spec.shape"' in refused.message


def test_status_is_a_world_of_its_own(api: Api, widgets: str, group: str) -> None:
    body = {**bodies.widget(group, "w"), "status": {"phase": "Early"}}
    made = api.post(widgets, body).body
    assert "status" not in made
    told = api.patch(f"{widgets}/w/status", {"status": {"phase": "Good"}, "spec": {"size": 9}}).body
    assert told["status"] == {"phase": "Good"}
    assert told["spec"]["size"] == 1
    assert told["metadata"]["generation"] == 1
    changed = api.patch(f"{widgets}/w", {"spec": {"size": 2}, "status": {"phase": "Bad"}}).body
    assert (changed["spec"]["size"], changed["status"]["phase"]) == (2, "Good")
    assert changed["metadata"]["generation"] == 2


def test_replacing_needs_a_version(api: Api, widgets: str, group: str) -> None:
    made = api.post(widgets, bodies.widget(group, "w")).body
    refused = api.put(f"{widgets}/w", bodies.widget(group, "w", size=2))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "metadata.resourceVersion" in refused.message
    assert "must be specified for an update" in refused.message
    assert api.put(f"{widgets}/w", {**made, "spec": {"size": 2}}).status == 200


def test_strategic_patches_are_unsupported(api: Api, widgets: str, group: str) -> None:
    api.post(widgets, bodies.widget(group, "w"))
    refused = api.patch(f"{widgets}/w", {}, STRATEGIC)
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_custom_lists_are_applied_by_key(api: Api, widgets: str, group: str) -> None:
    one = bodies.widget(group, "w", parts=[{"name": "a", "value": "1"}])
    two = bodies.widget(group, "w", parts=[{"name": "b", "value": "2"}])
    api.patch(f"{widgets}/w", one, APPLY, fieldManager="one")
    both = api.patch(f"{widgets}/w", two, APPLY, fieldManager="two")
    assert both.status == 200, both.body
    assert [part["name"] for part in both.body["spec"]["parts"]] == ["a", "b"]


def test_custom_kinds_scale(api: Api, widgets: str, group: str) -> None:
    api.post(widgets, bodies.widget(group, "w", replicas=1))
    scale = api.get(f"{widgets}/w/scale").body
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    scale["spec"]["replicas"] = 3
    assert api.put(f"{widgets}/w/scale", scale).status == 200
    assert api.get(f"{widgets}/w").body["spec"]["replicas"] == 3


def test_columns_are_printed(api: Api, widgets: str, group: str) -> None:
    api.post(widgets, bodies.widget(group, "w", size=4))
    table = api.get(widgets, accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase", "Age"]
    assert table["rows"][0]["cells"][:3] == ["w", 4, None]


def test_short_names_and_categories_are_discovered(api: Api, group: str) -> None:
    listed = api.get(f"/apis/{group}/v1").body["resources"]
    found = next(entry for entry in listed if entry["name"] == "widgets")
    assert (found["shortNames"], found["categories"]) == (["wd"], ["gadgets"])
    assert {"widgets/status", "widgets/scale"} <= {entry["name"] for entry in listed}


def test_selectable_fields_select(api: Api, unique: str, namespace: str) -> None:
    group = f"{unique}.example.com"
    definition = bodies.custom_definition(group, selectableFields=[{"jsonPath": ".spec.color"}])
    assert api.post(DEFINITIONS, definition).status == 201
    widgets = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    api.wait(widgets, lambda answer: answer.status == 200)
    for name, color in (("r", "red"), ("b", "blue")):
        assert api.post(widgets, bodies.widget(group, name, color=color)).status == 201
    found = api.get(widgets, fieldSelector="spec.color=blue").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["b"]
    assert api.get(widgets, fieldSelector="spec.size=1").status == 400
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_a_second_version_serves_the_same_objects(api: Api, unique: str, namespace: str) -> None:
    group = f"{unique}.example.com"
    definition = bodies.custom_definition(group)
    first = definition["spec"]["versions"][0]
    definition["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    assert api.post(DEFINITIONS, definition).status == 201
    api.wait(f"/apis/{group}/v2/widgets", lambda answer: answer.status == 200)
    api.wait(f"/apis/{group}/v1/widgets", lambda answer: answer.status == 200)
    api.post(f"/apis/{group}/v1/namespaces/{namespace}/widgets", bodies.widget(group, "w"))
    seen = api.get(f"/apis/{group}/v2/namespaces/{namespace}/widgets/w").body
    assert seen["apiVersion"] == f"{group}/v2"
    changed = api.patch(f"/apis/{group}/v2/namespaces/{namespace}/widgets/w", {"spec": {"size": 7}}).body
    assert (changed["apiVersion"], changed["spec"]["size"]) == (f"{group}/v2", 7)
    assert api.get(f"/apis/{group}/v1/namespaces/{namespace}/widgets/w").body["spec"]["size"] == 7
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_objects_go_with_their_definition(api: Api, group: str, widgets: str) -> None:
    api.post(widgets, bodies.widget(group, "w"))
    with api.watch(widgets, resourceVersion=api.get(widgets).body["metadata"]["resourceVersion"]) as watch:
        api.delete(f"{DEFINITIONS}/widgets.{group}")
        assert watch.until(lambda event: event["type"] == "DELETED")["object"]["metadata"]["name"] == "w"
    api.wait(f"/apis/{group}/v1/widgets", lambda answer: answer.status == 404)


def test_a_definition_must_be_named_after_its_plural(api: Api, unique: str) -> None:
    definition = bodies.custom_definition(f"{unique}.example.com")
    definition["metadata"]["name"] = "other"
    refused = api.post(DEFINITIONS, definition)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "metadata.name" in refused.message
