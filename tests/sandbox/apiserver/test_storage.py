"""Storage: versions, conflicts, history."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.status import StatusError
from sandbox.apiserver.storage import ADDED, DELETED, MODIFIED, Expired, GroupResource, Storage

PODS = GroupResource("", "pods")
NODES = GroupResource("", "nodes")


def document(name: str, namespace: str = "n", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, **content}


def test_versions_rise_over_all_kinds() -> None:
    storage = Storage(initial_version=7)
    first = storage.create(PODS, document("a"))
    second = storage.create(NODES, document("b", ""))
    third = storage.update(PODS, document("a", spec={}))
    assert [first.version, second.version, third.version, storage.version] == [8, 9, 10, 10]
    assert third.object["metadata"]["resourceVersion"] == "10"


def test_what_is_stored_is_a_copy_of_the_metadata() -> None:
    storage = Storage()
    given_document = document("a")
    storage.create(PODS, given_document)
    assert "resourceVersion" not in given_document["metadata"]


def test_an_unchanged_document_makes_no_event() -> None:
    storage = Storage()
    entry = storage.create(PODS, document("a", spec={"x": 1}))
    assert storage.update(PODS, document("a", spec={"x": 1})) is entry
    assert storage.version == entry.version


@pytest.mark.parametrize("expected", [0, 999_999])
def test_another_version_than_expected_is_a_conflict(expected: int) -> None:
    storage = Storage()
    storage.create(PODS, document("a"))
    with pytest.raises(StatusError, match="Operation cannot be fulfilled"):
        storage.update(PODS, document("a", spec={}), expected=expected)
    with pytest.raises(StatusError, match="Operation cannot be fulfilled"):
        storage.delete(PODS, "n", "a", expected=expected)


def test_entries_are_ordered_and_limited_to_a_namespace() -> None:
    storage = Storage()
    for namespace, name in (("b", "x"), ("a", "y"), ("a-b", "z"), ("a", "x")):
        storage.create(PODS, document(name, namespace))
    assert [entry.key for entry in storage.entries(PODS)] == [("a", "x"), ("a", "y"), ("a-b", "z"), ("b", "x")]
    assert [entry.key for entry in storage.entries(PODS, "a")] == [("a", "x"), ("a", "y")]
    assert storage.entries(NODES) == []


def test_followers_read_from_a_version_and_others_do_not_disturb_them() -> None:
    async def scene() -> None:
        storage = Storage()
        first = storage.create(PODS, document("a"))
        storage.create(NODES, document("other", ""))
        storage.update(PODS, document("a", spec={}))
        storage.delete(PODS, "n", "a")
        follower = storage.follow(PODS, first.version)
        assert [event.type for event in follower.take()] == [MODIFIED, DELETED]
        waiting = asyncio.create_task(follower.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        storage.create(PODS, document("b"))
        await asyncio.wait_for(waiting, 1)
        assert [event.type for event in follower.take()] == [ADDED]
        follower.close()

    asyncio.run(scene())


def test_the_history_is_bounded_and_says_so() -> None:
    async def scene() -> None:
        storage = Storage(history=10)
        start = storage.create(PODS, document("a", count=0)).version
        slow = storage.follow(PODS)
        for count in range(1, 100):
            storage.update(PODS, document("a", count=count))
        with pytest.raises(Expired):
            storage.follow(PODS, start)
        with pytest.raises(Expired):
            storage.entries_at(PODS, start)
        with pytest.raises(Expired):
            slow.take()
        assert len(storage.follow(PODS, storage.version - 10).take()) == 10

    asyncio.run(scene())


def test_compaction_forgets_everything_before_now() -> None:
    async def scene() -> None:
        storage = Storage()
        before = storage.create(PODS, document("a")).version
        storage.create(NODES, document("n", ""))
        storage.compact()
        for kind in (PODS, NODES, GroupResource("", "new")):
            with pytest.raises(Expired):
                storage.follow(kind, before)
            assert storage.follow(kind, storage.version).take() == []

    asyncio.run(scene())


def test_listeners_hear_within_the_write() -> None:
    storage, heard = Storage(), []
    storage.listen(PODS, lambda event: heard.append((event.type, event.previous is None)))
    storage.create(PODS, document("a"))
    storage.update(PODS, document("a", x=1))
    storage.delete(PODS, "n", "a")
    assert heard == [(ADDED, True), (MODIFIED, False), (DELETED, False)]


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_every_past_state_can_be_rebuilt(seed: int, steps: int) -> None:
    """Whatever was written, `entries_at` shows what `entries` showed then."""
    source, storage = random.Random(seed), Storage()
    snapshots = {storage.version: []}
    for step in range(steps):
        name = source.choice("abc")
        known = storage.get(PODS, "n", name) is not None
        if not known:
            storage.create(PODS, document(name, step=step))
        elif source.random() < 0.4:
            storage.delete(PODS, "n", name)
        else:
            storage.update(PODS, document(name, step=step))
        snapshots[storage.version] = [entry.object for entry in storage.entries(PODS)]
    for version, expected in snapshots.items():
        assert [entry.object for entry in storage.entries_at(PODS, version)] == expected
