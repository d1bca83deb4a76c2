"""Watches: from a version, from a snapshot, through selectors, with bookmarks, in every form."""

import pytest

from tests.contract import bodies
from tests.contract.api import Api, JsonObject

INITIAL_END = "k8s.io/initial-events-end"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture
def secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def secret(name: str, **labels: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels}}


def told(event: JsonObject) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def current(api: Api, path: str) -> str:
    version: str = api.get(path).body["metadata"]["resourceVersion"]
    return version


def test_every_change_is_told_in_order(api: Api, secrets: str) -> None:
    with api.watch(secrets, resourceVersion=current(api, secrets)) as watch:
        made = api.post(secrets, secret("a")).body
        changed = api.patch(f"{secrets}/a", {"metadata": {"labels": {"x": "y"}}}).body
        api.delete(f"{secrets}/a")
        events = [watch.next() for _ in range(3)]
    assert [told(event) for event in events] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    gone = events[2]["object"]
    assert gone["metadata"]["labels"] == {"x": "y"}
    assert int(gone["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


def test_a_watch_from_a_version_replays_what_came_after_it(api: Api, secrets: str) -> None:
    first = api.post(secrets, secret("a")).body["metadata"]["resourceVersion"]
    api.post(secrets, secret("b"))
    api.delete(f"{secrets}/a")
    with api.watch(secrets, resourceVersion=first) as watch:
        assert [told(watch.next()) for _ in range(2)] == [("ADDED", "b"), ("DELETED", "a")]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_version_begins_with_the_state(api: Api, secrets: str, version: str) -> None:
    for name in ("a", "b"):
        api.post(secrets, secret(name))
    with api.watch(secrets, resourceVersion=version) as watch:
        assert {told(watch.next()) for _ in range(2)} == {("ADDED", "a"), ("ADDED", "b")}
        api.post(secrets, secret("c"))
        assert told(watch.next()) == ("ADDED", "c")


def test_a_streaming_list_ends_with_a_bookmark(api: Api, secrets: str) -> None:
    for name in ("a", "b"):
        api.post(secrets, secret(name))
    options = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
    }
    with api.watch(secrets, **options) as watch:
        assert {told(watch.next()) for _ in range(2)} == {("ADDED", "a"), ("ADDED", "b")}
        mark = watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "Secret"
        assert mark["object"]["metadata"]["annotations"] == {INITIAL_END: "true"}
        assert int(mark["object"]["metadata"]["resourceVersion"]) > 0
        api.post(secrets, secret("c"))
        assert told(watch.next()) == ("ADDED", "c")


def test_a_streaming_list_must_name_its_match(api: Api, secrets: str) -> None:
    refused = api.get(secrets, watch="true", sendInitialEvents="true")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in refused.message


def test_objects_enter_and_leave_a_label_selection(api: Api, secrets: str) -> None:
    options = {"labelSelector": "in=yes", "resourceVersion": current(api, secrets)}
    with api.watch(secrets, **options) as watch:
        api.post(secrets, secret("other"))
        api.post(secrets, secret("a"))
        api.patch(f"{secrets}/a", {"metadata": {"labels": {"in": "yes"}}})
        api.patch(f"{secrets}/a", {"metadata": {"labels": {"more": "1"}}})
        left = api.patch(f"{secrets}/a", {"metadata": {"labels": {"in": "no"}}}).body
        api.delete(f"{secrets}/a")
        api.post(secrets, secret("b", **{"in": "yes"}))
        api.delete(f"{secrets}/b")
        events = [watch.next() for _ in range(5)]
    assert [told(event) for event in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]
    out = events[2]["object"]["metadata"]
    assert out["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert out["labels"]["in"] == "yes"


def test_pods_enter_the_watch_of_their_node(api: Api, namespace: str, node: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    options = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": current(api, pods)}
    with api.watch("/api/v1/pods", **options) as watch:
        api.post(pods, bodies.pod("p"))
        api.post(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
        assert told(watch.next()) == ("ADDED", "p")
        api.delete(f"{pods}/p", gracePeriodSeconds=0)
        assert told(watch.until(lambda event: event["type"] != "MODIFIED")) == ("DELETED", "p")


def test_one_object_can_be_watched_by_name(api: Api, secrets: str) -> None:
    options = {"fieldSelector": "metadata.name=b", "resourceVersion": current(api, secrets)}
    with api.watch(secrets, **options) as watch:
        for name in ("a", "b"):
            api.post(secrets, secret(name))
        assert told(watch.next()) == ("ADDED", "b")


def test_a_version_that_is_too_old_is_told_by_an_error_event(api: Api, unique: str) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = f"{unique}.example.com"  # a kind younger than the version that is asked for
    assert api.post(definitions, bodies.custom_definition(group)).status == 201
    widgets = f"/apis/{group}/v1/widgets"
    api.wait(widgets, lambda answer: answer.status == 200)
    with api.watch(widgets, resourceVersion="1") as watch:
        assert watch.status == 200
        event = watch.next()
    api.delete(f"{definitions}/widgets.{group}")
    assert event["type"] == "ERROR"
    assert (event["object"]["kind"], event["object"]["code"], event["object"]["reason"]) == ("Status", 410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1")


def test_a_watch_ends_at_its_timeout(api: Api, secrets: str) -> None:
    with api.watch(secrets, resourceVersion=current(api, secrets), timeoutSeconds=1) as watch:
        api.post(secrets, secret("a"))
        assert [told(event) for event in watch.rest()] == [("ADDED", "a")]


def test_a_table_watch_sends_columns_once(api: Api, secrets: str) -> None:
    with api.watch(secrets, accept=TABLE, resourceVersion=current(api, secrets)) as watch:
        for name in ("a", "b"):
            api.post(secrets, secret(name))
        first, second = watch.next()["object"], watch.next()["object"]
    assert (first["kind"], second["kind"]) == ("Table", "Table")
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert not second["columnDefinitions"]
    assert second["rows"][0]["cells"][0] == "b"
    assert second["rows"][0]["object"]["metadata"]["name"] == "b"


def test_a_metadata_watch_sends_no_content(api: Api, secrets: str) -> None:
    with api.watch(secrets, accept=METADATA, resourceVersion=current(api, secrets)) as watch:
        api.post(secrets, {**secret("a"), "stringData": {"k": "v"}})
        seen = watch.next()["object"]
    assert (seen["kind"], seen["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "data" not in seen


def test_a_dry_run_and_an_empty_write_tell_nothing(api: Api, secrets: str) -> None:
    api.post(secrets, secret("a", x="y"))
    with api.watch(secrets, resourceVersion=current(api, secrets)) as watch:
        api.post(secrets, secret("b"), dryRun="All")
        api.patch(f"{secrets}/a", {"metadata": {"labels": {"x": "y"}}})
        api.delete(f"{secrets}/a", dryRun="All")
        api.post(secrets, secret("c"))
        assert told(watch.next()) == ("ADDED", "c")
