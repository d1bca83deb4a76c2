"""Store against a server that fails in every way that API servers fail."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from koord.kube.resources import CONFIGMAPS, PODS
from koord.kube.store import Store, is_older

POD = "/api/v1/namespaces/a/pods/"
CONFIG = "/api/v1/namespaces/a/configmaps/"


class Recorder:
    """Keeps what a subscriber hears, and the state that it adds up to."""

    def __init__(self, store):
        self.heard = []
        self.state = {}
        store.subscribe(self)

    def __call__(self, change):
        meta = change.object.metadata
        key = (meta.namespace, meta.name)
        self.heard.append((change.kind, meta.name, meta.uid))
        if change.kind == "added":
            assert key not in self.state and change.old is None
        else:
            assert self.state[key] is change.old
        if change.new is None:
            del self.state[key]
        else:
            self.state[key] = change.new


@pytest.fixture
async def store(client, server, background):
    """A running store of all pods, with pods one and two."""
    server.put(POD + "one", spec={"nodeName": "n1"})
    server.put(POD + "two", spec={"nodeName": "n2"})
    store = Store(client, PODS)
    background(store.run())
    async with asyncio.timeout(10):
        await store.wait_synced()
    return store


@pytest.fixture
async def watching(store, server, kit):
    """The same once its watch is open."""
    await kit.eventually(lambda: server.watchers)
    return store


def versions(store):
    return {pod.metadata.name: pod.metadata.resource_version for pod in store.values()}


def served(server, collection="/api/v1/pods"):
    return {
        obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in server.collection(collection).values()
    }


async def test_lists_and_then_follows_every_kind_of_change(watching, server, kit):
    recorder = Recorder(watching)
    server.put(POD + "one", spec={"nodeName": "n3"})
    server.put(POD + "three")
    server.remove(POD + "two")
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert watching.get("one", "a").spec.node_name == "n3"
    assert [(kind, name) for kind, name, _ in recorder.heard] == [
        ("added", "one"),
        ("added", "two"),
        ("updated", "one"),
        ("added", "three"),
        ("deleted", "two"),
    ]


async def test_collects_all_pages_of_the_list(client, server, background):
    for number in range(23):
        server.put(f"{POD}p{number}")
    store = Store(client, PODS, page_size=5)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert len(store) == 23
    assert sum("limit" in request.query for request in server.requests) == 5


async def test_lists_without_paging_after_a_continue_token_expired(client, server, background):
    for number in range(23):
        server.put(f"{POD}p{number}")
    server.continue_is_gone = True
    store = Store(client, PODS, page_size=5)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert len(store) == 23
    limits = [r.query.get("limit") for r in server.requests if "watch" not in r.query]
    assert limits == ["5", "5", None]


async def test_a_restarted_list_forgets_the_pages_before_the_restart(client, server, background):
    for number in range(6):
        server.put(f"{POD}p{number}")

    async def remove_and_expire(_request):
        server.remove(f"{POD}p0")
        return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)

    async def first_page(request):
        server.list_faults.append(remove_and_expire)
        return server.list(request)

    server.list_faults.append(first_page)
    store = Store(client, PODS, page_size=3)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert versions(store) == served(server)


async def test_asks_for_bookmarks_and_a_bounded_watch(watching, server):
    query = server.watchers[0].request.query
    assert query["allowWatchBookmarks"] == "true"
    assert 200 < int(query["timeoutSeconds"]) < 300


async def test_resumes_from_the_last_bookmark_after_an_orderly_end(client, server, background, kit):
    server.put(POD + "one")
    store = Store(client, PODS, watch_timeout_s=1)
    background(store.run())
    await kit.eventually(lambda: server.watchers)
    server.put(CONFIG + "other")
    server.bookmark()
    await kit.eventually(lambda: len(server.requests) >= 3)
    assert server.requests[2].query["resourceVersion"] == str(server.version)
    assert store.statistics.lists == 1


@pytest.mark.parametrize("as_event", [False, True], ids=["http status", "error event"])
async def test_lists_again_when_its_version_is_gone(watching, server, kit, as_event):
    recorder = Recorder(watching)
    one = server.objects[POD + "one"]["metadata"]["uid"]
    server.gone_as_event = as_event
    server.silent_watches = True
    server.remove(POD + "two")
    server.put(POD + "three")
    server.remove(POD + "one")
    server.put(POD + "one")
    server.compact()
    server.silent_watches = False
    server.watchers[0].abort()
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert watching.statistics.lists == 2
    assert recorder.heard[2:][0][:2] == ("deleted", "two")
    changes = recorder.heard[3:]
    again = server.objects[POD + "one"]["metadata"]["uid"]
    assert sorted(changes, key=lambda c: c[1]) == [
        ("deleted", "one", one),
        ("added", "one", again),
        ("added", "three", server.objects[POD + "three"]["metadata"]["uid"]),
    ]


async def test_hears_nothing_from_a_listing_that_changes_nothing(watching, server, kit):
    recorder = Recorder(watching)
    before = {pod.metadata.name: pod for pod in watching.values()}
    server.compact()
    server.put(CONFIG + "unrelated")
    server.compact()
    server.watchers[0].abort()
    await kit.eventually(lambda: watching.statistics.lists == 2 and server.watchers)
    assert len(recorder.heard) == 2
    assert all(watching.get(name, "a") is pod for name, pod in before.items())


async def test_resumes_without_a_list_after_a_disconnect(watching, server, kit):
    server.watchers[0].abort()
    server.put(POD + "three")
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert watching.statistics.lists == 1
    assert watching.statistics.restarts == 1


async def test_resumes_after_a_disconnect_inside_a_line(watching, server, kit):
    watcher = server.watchers[0]
    server.silent_watches = True
    server.put(POD + "three")
    server.silent_watches = False
    whole = json.dumps({"type": "ADDED", "object": server.objects[POD + "three"]}).encode()
    watcher.send_raw(whole[:40])
    watcher.end()
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert watching.statistics.restarts == 1


async def test_leaves_a_watch_that_went_silent(client, server, background, kit):
    server.silent_watches = True
    store = Store(client, PODS, watch_timeout_s=1)
    background(store.run())
    await kit.eventually(lambda: server.watchers)
    server.put(POD + "late")
    server.silent_watches = False
    await kit.until(store, lambda: versions(store) == served(server))
    assert "Timeout" in store.statistics.last_error or store.statistics.last_error == ""
    assert store.statistics.restarts == 1


async def test_takes_lines_far_above_a_readers_limit(watching, server, kit):
    server.put(POD + "big", metadata={"annotations": {"text": "x" * 1_200_000}})
    await kit.until(watching, lambda: watching.get("big", "a"))
    assert watching.statistics.restarts == 0


async def test_waits_as_long_as_retry_after_says(client, server, kit, background):
    server.list_faults.append(kit.failing(429, "TooManyRequests", {"Retry-After": "1"}))
    store = Store(client, PODS)
    started = asyncio.get_running_loop().time()
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert 1.0 <= asyncio.get_running_loop().time() - started < 2.0


async def test_outlasts_server_errors_and_refused_connections(client, server, kit, background):
    server.put(POD + "one")
    server.list_faults.extend([kit.failing(500), kit.refuse, kit.failing(503)])
    server.watch_faults.extend([kit.failing(500), kit.refuse])
    store = Store(client, PODS)
    background(store.run())
    await kit.eventually(lambda: server.watchers)
    assert versions(store) == served(server)
    assert store.statistics.restarts >= 3


async def test_comes_back_after_the_server_was_away(watching, server, kit):
    port = server.port
    await server.stop()
    server.put(POD + "three")
    await kit.eventually(lambda: watching.statistics.restarts >= 2)
    await server.start(kit.authority.server_context(), port)
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert watching.statistics.lists == 1


async def test_says_when_it_is_well_again(watching, server, kit):
    server.watch_faults.append(kit.failing(500))
    server.watchers[0].abort()
    await kit.eventually(lambda: watching.statistics.last_error)
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert watching.statistics.last_error == ""


async def test_one_bad_object_keeps_its_last_good_state_and_costs_nothing_else(watching, server, kit, caplog):
    recorder = Recorder(watching)
    good = watching.get("one", "a")
    server.put(POD + "one", spec={"priority": "not a number"})
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert watching.get("one", "a") is good
    assert watching.statistics.undecodable == 1
    assert watching.statistics.restarts == 0
    assert [kind for kind, *_ in recorder.heard] == ["added", "added", "added"]
    assert "Pod/a/one: Expected `int | null`, got `str` - at `$.spec.priority`" in caplog.text


async def test_a_bad_object_in_a_list_is_kept_too(watching, server, kit):
    good = watching.get("one", "a")
    server.silent_watches = True
    server.put(POD + "one", spec={"priority": "not a number"})
    server.put(POD + "three")
    server.compact()
    server.silent_watches = False
    server.watchers[0].abort()
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert watching.get("one", "a") is good
    assert len(watching) == 3


async def test_a_bad_object_that_replaced_another_removes_that(watching, server, kit):
    server.silent_watches = True
    server.remove(POD + "one")
    server.put(POD + "one", spec={"priority": "not a number"})
    server.put(POD + "three")
    server.compact()
    server.silent_watches = False
    server.watchers[0].abort()
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert watching.get("one", "a") is None


async def test_a_bad_object_can_be_mended_and_deleted(watching, server, kit):
    server.put(POD + "one", spec={"priority": "not a number"})
    server.put(POD + "one", spec={"priority": 5})
    await kit.until(watching, lambda: watching.get("one", "a").spec.priority == 5)
    server.put(POD + "one", spec={"priority": "not a number"})
    server.remove(POD + "one")
    await kit.until(watching, lambda: watching.get("one", "a") is None)


async def test_a_line_that_is_no_json_begins_the_watch_again(watching, server, kit):
    server.watchers[0].send_raw(b"<html>bad gateway</html>\n")
    await kit.eventually(lambda: watching.statistics.restarts == 1 and server.watchers)
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))


async def test_a_page_that_is_no_json_is_asked_for_again(client, server, kit, background):
    async def gateway(request):
        return web.Response(text="<html>welcome</html>")

    server.list_faults.append(gateway)
    store = Store(client, PODS)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert store.statistics.restarts == 1


async def test_watches_that_keep_breaking_lead_to_a_new_list(watching, server, kit):
    async def broken(request):
        return web.Response(text=json.dumps({"type": "ERROR", "object": kit.status(500, "InternalError")}))

    server.watch_faults.extend([broken] * 3)
    server.watchers[0].abort()
    await kit.eventually(lambda: watching.statistics.lists == 2 and server.watchers)


async def test_notices_that_the_server_was_restored_from_a_backup(watching, server, kit):
    recorder = Recorder(watching)
    saved = server.snapshot()
    server.put(POD + "one", spec={"nodeName": "later"})
    server.put(POD + "three")
    server.remove(POD + "two")
    await kit.until(watching, lambda: versions(watching) == served(server))
    server.restore(saved)
    await kit.until(watching, lambda: versions(watching) == served(server))
    assert {pod.metadata.name for pod in watching.values()} == {"one", "two"}
    assert watching.get("one", "a").spec.node_name == "n1"
    assert {key[1] for key in recorder.state} == {"one", "two"}


async def test_sees_that_the_same_version_means_another_state_after_a_restore(watching, server, kit):
    saved = server.snapshot()
    server.put(POD + "one", spec={"nodeName": "lost"})
    server.put(POD + "two", spec={"nodeName": "lost"})
    await kit.until(watching, lambda: versions(watching) == served(server))
    server.silent_watches = True
    server.restore(saved)
    server.put(POD + "one", spec={"nodeName": "found"})
    server.silent_watches = False
    await kit.until(watching, lambda: watching.get("one", "a").spec.node_name == "found")
    await kit.until(watching, lambda: watching.get("two", "a").spec.node_name == "n2")


async def test_lists_again_when_the_server_calls_its_version_too_large(watching, server, kit):
    causes = [{"reason": "ResourceVersionTooLarge"}]
    server.watch_faults.append(kit.failing(504, "Timeout", causes=causes))
    server.watchers[0].abort()
    await kit.eventually(lambda: watching.statistics.lists == 2 and server.watchers)


async def test_the_first_list_may_come_from_the_servers_cache(client, server, kit, background):
    store = Store(client, PODS, first_list_from_cache=True, field_selector="spec.nodeName=n1")
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert server.requests[0].query["resourceVersion"] == "0"
    assert server.requests[0].query["fieldSelector"] == "spec.nodeName=n1"


async def test_watches_one_namespace_only_when_told_so(client, server, background):
    server.put("/api/v1/namespaces/a/configmaps/mine", data={"k": "v"})
    server.put("/api/v1/namespaces/b/configmaps/other")
    store = Store(client, CONFIGMAPS, namespace="a")
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert [config.data for config in store.values()] == [{"k": "v"}]


async def test_a_failing_subscriber_hurts_nobody_else(watching, server, kit, caplog):
    def failing(change):
        raise RuntimeError("consumer bug")

    watching.subscribe(failing)
    recorder = Recorder(watching)
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert recorder.heard[-1][:2] == ("added", "three")
    assert "consumer bug" in caplog.text


async def test_an_ended_subscription_hears_nothing(watching, server, kit):
    heard = []
    end = watching.subscribe(heard.append)
    end()
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert len(heard) == 2


async def test_indexes_follow_changes(watching, server, kit):
    watching.add_index("node", lambda pod: pod.spec.node_name or None)

    def on(node):
        return sorted(pod.metadata.name for pod in watching.by_index("node", node))

    assert on("n1") == ["one"]
    server.put(POD + "two", spec={"nodeName": "n1"})
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert on("n1") == ["one", "two"]
    assert on("n2") == on("") == on("unheard of") == []
    server.remove(POD + "one")
    await kit.until(watching, lambda: watching.get("one", "a") is None)
    assert on("n1") == ["two"]


async def test_an_object_at_which_an_index_fails_is_left_out_of_it(watching, server, kit):
    watching.add_index("length", lambda pod: len(pod.spec.scheduler_name) // len(pod.spec.node_name))
    server.put(POD + "three")
    await kit.until(watching, lambda: watching.get("three", "a"))
    assert len(watching.by_index("length", 0)) == 2


async def test_runs_only_once_at_a_time(watching):
    with pytest.raises(RuntimeError, match="runs already"):
        await watching.run()


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [("9", "10", True), ("10", "9", False), ("9", "9", False), ("", "9", False), ("abc", "9", False)],
)
def test_versions_are_compared_as_numbers_or_not_at_all(version, than, older):
    assert is_older(version, than) is older
