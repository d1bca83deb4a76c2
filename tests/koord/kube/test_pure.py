"""The parts of koord.kube that need no server."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.objects import ObjectMeta, Pod, PodSpec
from koord.kube import errors
from koord.kube.backoff import Backoff
from koord.kube.changes import changes_of_listing
from koord.kube.codec import (
    BadObject,
    Bookmark,
    Removal,
    StreamError,
    Undecodable,
    Unreadable,
    Upsert,
    codec_for,
)
from koord.kube.lines import LineSplitter, LineTooLong
from koord.kube.requests import build_list, collection_path, object_path
from koord.kube.resources import CLUSTER_COLOCATION_PROFILES, NODE_SLOS, NODES, PODS, Key, raw

CODEC = codec_for(PODS)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_come_out_whole_however_they_were_cut(lines, size):
    stream = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    splitter = LineSplitter()
    out = []
    for start in range(0, len(stream), size):
        out += splitter.feed(stream[start : start + size])
    assert out == [line for line in stream.split(b"\n") if line.strip()]
    assert splitter.finish() == b""


def test_an_unfinished_line_is_left_over():
    splitter = LineSplitter()
    assert splitter.feed(b"whole\nha") == [b"whole"]
    assert splitter.finish() == b"ha"
    assert splitter.finish() == b""


def test_an_endless_line_is_refused():
    splitter = LineSplitter(limit=10)
    splitter.feed(b"12345")
    with pytest.raises(LineTooLong):
        splitter.feed(b"678901")


def test_delays_grow_to_their_cap_and_start_over():
    backoff = Backoff(source=random.Random(1))
    delays = [backoff.next_delay() for _ in range(30)]
    assert delays[0] <= 0.1
    assert all(low <= 2 * 2**number * 0.1 for number, low in enumerate(delays))
    assert all(15 <= delay <= 30 for delay in delays[10:])
    backoff.reset()
    assert backoff.next_delay() <= 0.1
    assert 5 <= backoff.next_delay(5) <= 5.5
    assert 60 <= backoff.next_delay(86_400) <= 66


keys = st.sampled_from([Key("a", "x"), Key("a", "y"), Key("b", "x")])


def pods():
    return st.builds(
        lambda key, uid, version: Pod(
            metadata=ObjectMeta(namespace=key.namespace, name=key.name, uid=uid, resource_version=version)
        ),
        keys,
        st.sampled_from("12"),
        st.sampled_from("12"),
    )


def by_key(items):
    return {PODS.identify(item).key: item for item in items}


@given(st.lists(pods()).map(by_key), st.lists(pods()), st.lists(st.tuples(keys, st.sampled_from("12"))))
def test_changes_of_a_listing_lead_exactly_there(known, items, bad):
    listed = by_key(items)
    broken = {key: BadObject("Pod", key, uid, "") for key, uid in bad if key not in listed}
    state = dict(known)
    for change in changes_of_listing(PODS, known, items, list(broken.values())):
        key = PODS.identify(change.object).key
        if change.kind == "added":
            assert key not in state
        else:
            assert state.pop(key) is change.old
        if change.kind == "updated":
            assert change.old.metadata.uid == change.new.metadata.uid
            assert change.old != change.new
        if change.new is not None:
            state[key] = change.new
    kept = {key: obj for key, obj in known.items() if key in broken and obj.metadata.uid == broken[key].uid}
    assert state == listed | kept
    assert all(state[key] is known[key] for key in state if known.get(key) == state[key])


def test_content_counts_when_versions_cannot_be_trusted():
    def at(node):
        return Pod(metadata=ObjectMeta(name="x", uid="1", resource_version="5"), spec=PodSpec(node_name=node))

    known = {Key("", "x"): at("n1")}
    assert changes_of_listing(PODS, known, [at("n2")], []) == []
    (change,) = changes_of_listing(PODS, known, [at("n2")], [], by_content=True)
    assert change.kind == "updated"
    assert changes_of_listing(PODS, known, [at("n1")], [], by_content=True) == []


def event(kind, obj):
    return CODEC.decode_event(json.dumps({"type": kind, "object": obj}).encode())


def test_events_of_every_type():
    meta = {"namespace": "a", "name": "x", "resourceVersion": "7", "uid": "u"}
    assert event("ADDED", {"metadata": meta}) == event("MODIFIED", {"metadata": meta})
    assert isinstance(event("ADDED", {"metadata": meta}), Upsert)
    assert event("DELETED", {"metadata": meta, "spec": {"priority": "bad"}}) == Removal(Key("a", "x"), "7")
    assert event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}) == Bookmark("9")
    unreadable = event("MODIFIED", {"metadata": meta, "spec": {"priority": "bad"}})
    assert isinstance(unreadable, Unreadable)
    assert unreadable.bad.key == Key("a", "x") and unreadable.resource_version == "7"
    failed = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"})
    assert isinstance(failed, StreamError) and isinstance(failed.error, errors.Gone)
    assert isinstance(event("ERROR", {"kind": "?"}).error, errors.Unavailable)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"{}", b'{"type":"MOVED","object":{}}', b'{"type":"ADDED"}', b"\xff\xfe"]
)
def test_what_is_no_event_is_undecodable(line):
    with pytest.raises(Undecodable):
        CODEC.decode_event(line)


def test_a_page_may_hold_null_for_no_items():
    page = CODEC.decode_page(b'{"metadata":{"resourceVersion":"5","remainingItemCount":3},"items":null}')
    assert (page.items, page.bad, page.resource_version, page.continue_token) == ([], [], "5", "")


def test_paths_and_selectors_of_requests():
    assert collection_path(PODS) == "/api/v1/pods"
    assert collection_path(NODES, "ignored") == "/api/v1/nodes"
    assert (
        object_path(NODE_SLOS, "n1", subresource="status") == "/apis/slo.koordinator.sh/v1alpha1/nodeslos/n1/status"
    )
    request = build_list(CLUSTER_COLOCATION_PROFILES, label_selector="a=b,c in (d)")
    assert request.query == (("labelSelector", "a=b,c in (d)"),)
    assert str(raw("", "v1", "pods", "Pod", True)) == "pods"
    assert str(NODE_SLOS) == "nodeslos.slo.koordinator.sh"


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, None), ("3", 3), ("0", 0), ("-1", None), ("inf", None), ("Wed, 21 Oct", None)]
)
def test_retry_after_is_read_as_seconds(text, seconds):
    assert errors.parse_retry_after(text) == seconds


def test_an_error_from_a_status_prefers_the_header():
    body = json.dumps({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 3}}).encode()
    assert errors.error_from_response(429, body).retry_after_s == 3
    assert errors.error_from_response(429, body, retry_after="9").retry_after_s == 9
    assert str(errors.error_from_response(500, b"")) == "500 NoStatus: empty body"


@pytest.mark.parametrize("details", [None, "text", {"causes": "text"}, {"causes": [None]}])
def test_a_status_with_odd_details_is_still_an_error(details):
    body = json.dumps({"kind": "Status", "code": 409, "reason": "AlreadyExists", "details": details}).encode()
    assert isinstance(errors.error_from_response(409, body), errors.Conflict | errors.AlreadyExists)
