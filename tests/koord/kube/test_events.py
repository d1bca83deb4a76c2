"""Events that are folded, bounded and never in the way."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from koord.api.objects import Node, ObjectMeta, Pod
from koord.kube.events import OBJECT_BURST, QUEUE_LIMIT, EventRecorder, ObjectReference, reference
from koord.kube.resources import NODES, PODS
from koord.kube.tokens import TokenBucket

EVENTS = "/api/v1/namespaces/a/events/"


def pod(name="one", version="5"):
    return reference(PODS, Pod(metadata=ObjectMeta(name=name, namespace="a", uid="u", resource_version=version)))


def sent(server):
    return [obj for path, obj in server.objects.items() if "/events/" in path]


def outcomes(name):
    return REGISTRY.get_sample_value("koord_kube_events_total", {"outcome": name}) or 0


@pytest.fixture
def recorder(client):
    return EventRecorder(client, "koord-manager", "pod-1")


async def test_an_event_says_what_happened_to_what_and_who_says_so(recorder, server, kit, background):
    background(recorder.run())
    recorder.emit(pod(), "Warning", "Evicted", "node is short of memory")
    await kit.eventually(lambda: sent(server))
    event = sent(server)[0]
    metadata = event.pop("metadata")
    assert metadata["namespace"] == "a" and metadata["name"].startswith("one.")
    assert event.pop("firstTimestamp") == event.pop("lastTimestamp")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "one", "namespace": "a", "uid": "u"},
        "type": "Warning",
        "reason": "Evicted",
        "message": "node is short of memory",
        "count": 1,
        "source": {"component": "koord-manager", "host": "pod-1"},
        "reportingComponent": "koord-manager",
        "reportingInstance": "pod-1",
    }


async def test_events_of_cluster_wide_objects_live_in_default(recorder, server, kit, background):
    background(recorder.run())
    recorder.emit(reference(NODES, Node(metadata=ObjectMeta(name="n1"))), "Normal", "Shrunk", "less batch-cpu")
    await kit.eventually(lambda: sent(server))
    assert sent(server)[0]["metadata"]["namespace"] == "default"


async def test_equal_events_become_one_with_a_count(recorder, server, kit, background):
    for version in range(7):
        recorder.emit(pod(version=str(version)), "Normal", "Throttled", "same")
    recorder.emit(pod(), "Normal", "Throttled", "other")
    background(recorder.run())
    await kit.eventually(lambda: len(sent(server)) == 2)
    assert sorted(event["count"] for event in sent(server)) == [1, 7]


async def test_the_count_of_a_sent_event_is_raised_later(recorder, server):
    recorder.emit(pod(), "Normal", "Throttled", "same")
    await recorder.flush()
    for _ in range(3):
        recorder.emit(pod(), "Normal", "Throttled", "same")
    await recorder.flush()
    assert [event["count"] for event in sent(server)] == [4]


async def test_a_count_is_held_back_but_new_events_pass_it(recorder, server, kit, background):
    background(recorder.run())
    recorder.emit(pod(), "Normal", "Throttled", "same")
    await kit.eventually(lambda: sent(server))
    recorder.emit(pod(), "Normal", "Throttled", "same")
    await asyncio.sleep(0)
    recorder.emit(pod(), "Normal", "Throttled", "new")
    await kit.eventually(lambda: len(sent(server)) == 2)
    assert [event["count"] for event in sent(server)] == [1, 1]


async def test_an_event_that_expired_is_created_again(recorder, server):
    recorder.emit(pod(), "Normal", "Throttled", "same")
    await recorder.flush()
    server.objects.clear()
    recorder.emit(pod(), "Normal", "Throttled", "same")
    await recorder.flush()
    assert [event["count"] for event in sent(server)] == [1]


async def test_a_flood_about_one_object_is_cut_off_and_others_pass(recorder, server):
    before = outcomes("dropped")
    for number in range(100):
        recorder.emit(pod(), "Normal", "Flood", f"message {number}")
    recorder.emit(pod("two"), "Normal", "Calm", "message")
    await recorder.flush()
    assert outcomes("dropped") - before == 100 - OBJECT_BURST
    assert len(sent(server)) == OBJECT_BURST + 1


async def test_the_queue_is_bounded_and_emit_is_quick(recorder):
    before = outcomes("dropped")
    started = time.perf_counter()
    for number in range(QUEUE_LIMIT + 50):
        recorder.emit(pod(f"p{number}"), "Normal", "R", "m")
    assert time.perf_counter() - started < 5
    assert outcomes("dropped") - before == 50


async def test_events_wait_for_a_server_that_is_away(recorder, server, kit, background):
    server.faults.extend([kit.failing(503), kit.refuse, kit.failing(429, "TooManyRequests")])
    background(recorder.run())
    recorder.emit(pod(), "Normal", "R", "m")
    await kit.eventually(lambda: sent(server))


async def test_an_event_that_the_server_refuses_is_dropped(recorder, server, kit, background):
    before = outcomes("failed")
    server.faults.extend([kit.failing(403, "Forbidden"), kit.failing(422, "Invalid")])
    background(recorder.run())
    for message in ("a", "b", "c"):
        recorder.emit(pod(), "Normal", "R", message)
    await kit.eventually(lambda: sent(server))
    assert outcomes("failed") - before == 2
    assert [event["message"] for event in sent(server)] == ["c"]


async def test_flush_gives_up_in_time(recorder, server):
    await server.stop()
    recorder.emit(pod(), "Normal", "R", "m")
    started = time.monotonic()
    await recorder.flush(0.5)
    assert time.monotonic() - started < 2


async def test_messages_are_clipped(recorder, server):
    recorder.emit(pod(), "Normal", "R", "x" * 5000)
    await recorder.flush()
    assert len(sent(server)[0]["message"]) == 1024


async def test_references_can_be_made_by_hand(recorder, server):
    recorder.emit(ObjectReference("v1", "ConfigMap", "c", "a", field_path="data.x"), "Warning", "Invalid", "m")
    await recorder.flush()
    assert sent(server)[0]["involvedObject"]["fieldPath"] == "data.x"


@given(st.integers(1, 10), st.floats(0.1, 10), st.lists(st.floats(0, 3), max_size=50))
def test_a_bucket_gives_no_more_than_its_burst_and_rate(burst, per_s, pauses):
    bucket = TokenBucket(burst, per_s)
    now, taken = 0.0, 0
    for pause in [0.0, *pauses]:
        now += pause
        wait = bucket.seconds_until_next(now)
        got = bucket.take(now)
        assert got == (wait == 0)
        taken += got
        assert taken <= burst + now * per_s + 1e-6
