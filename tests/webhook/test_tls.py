"""The TLS endpoint as a client sees it: protocol, limits, versions, and stopping without dropping a call."""

from __future__ import annotations

import asyncio
import base64
import io
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from koord.api.objects import JsonObject
from koord.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from webhook.registration import MUTATING_NAME

MIB = 1024 * 1024


def review(pod: JsonObject | None, api_version: str = "admission.k8s.io/v1", **request: Any) -> JsonObject:
    defaults: JsonObject = {
        "uid": "u-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod,
    }
    return {"apiVersion": api_version, "kind": "AdmissionReview", "request": defaults | request}


BATCH_POD: JsonObject = {
    "metadata": {"generateName": "job-a-"},
    "spec": {"containers": [{"name": "m", "resources": {"limits": {"kubernetes.io/batch-cpu": "500"}}}]},
}
PLAIN_POD: JsonObject = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "m"}]}}


@asynccontextmanager
async def session_to(cluster: Any) -> AsyncIterator[aiohttp.ClientSession]:
    resource = MUTATING_WEBHOOK_CONFIGURATIONS
    configuration = cluster.storage.read(resource.group, resource.plural, "", MUTATING_NAME)
    client_config = configuration["webhooks"][0]["clientConfig"]
    context = ssl.create_default_context(cadata=base64.b64decode(client_config["caBundle"]).decode())
    base_url = client_config["url"].removesuffix("/mutate-pod")
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(base_url, connector=connector) as session:
        yield session
    # The connector closes its TLS transports one turn of the loop later.
    await asyncio.sleep(0)


@pytest.fixture
async def session(cluster: Any) -> AsyncIterator[aiohttp.ClientSession]:
    await cluster.start_webhook()
    await cluster.until_registered()
    async with session_to(cluster) as found:
        yield found


async def post(session: aiohttp.ClientSession, body: JsonObject) -> JsonObject:
    async with session.post("/mutate-pod", json=body) as response:
        assert (response.status, response.content_type) == (200, "application/json")
        answer: JsonObject = await response.json()
        return answer


async def test_the_answer_has_the_version_of_the_question(session: aiohttp.ClientSession) -> None:
    for version in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1"):
        answer = await post(session, review(BATCH_POD, version))
        assert (answer["apiVersion"], answer["kind"]) == (version, "AdmissionReview")
        response = answer["response"]
        assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
        paths = [operation["path"] for operation in msgspec.json.decode(base64.b64decode(response["patch"]))]
        assert paths == ["/metadata/annotations"]


async def test_without_a_change_the_answer_is_bare(session: aiohttp.ClientSession) -> None:
    answer = await post(session, review(PLAIN_POD))
    assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_requests_about_other_things_are_allowed(session: aiohttp.ClientSession) -> None:
    for request in (
        {"resource": {"group": "", "version": "v1", "resource": "configmaps"}, "object": {"metadata": 5}},
        {"subResource": "binding"},
        {"operation": "DELETE", "object": None},
        {"operation": "UPDATE"},
        {"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}},
    ):
        answer = await post(session, review(BATCH_POD, **request))
        assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_a_pod_that_is_not_understood_passes_with_a_warning(session: aiohttp.ClientSession) -> None:
    broken: JsonObject = {"metadata": {"name": "x", "labels": {"a": 1}}, "spec": {}}
    response = (await post(session, review(broken)))["response"]
    assert response["allowed"] is True
    assert "labels" in response["warnings"][0]
    amounts = {"requests": {"kubernetes.io/batch-cpu": "many"}}
    garbled: JsonObject = {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "m", "resources": amounts}]},
    }
    response = (await post(session, review(garbled)))["response"]
    assert (response["allowed"], "many" in response["warnings"][0]) == (True, True)


V1 = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"'
NO_REVIEWS = [
    (b"{}", "text/plain", 415),
    (b"not json", "application/json", 400),
    (b"{}", "application/json", 400),
    (V1.replace(b"/v1", b"/v2") + b',"request":{"uid":"u"}}', "application/json", 400),
    (V1 + b"}", "application/json", 400),
    (V1 + b',"request":{}}', "application/json", 400),
    (b"[" * 100_000, "application/json", 400),
    (b" " * (7 * MIB + 1), "application/json", 413),
]


async def test_what_is_no_review_gets_an_http_error(session: aiohttp.ClientSession) -> None:
    for body, content_type, status in NO_REVIEWS:
        headers = {"Content-Type": content_type}
        async with session.post("/mutate-pod", data=io.BytesIO(body), headers=headers) as response:
            assert response.status == status, body[:80]


async def test_a_review_of_almost_seven_mebibytes_is_answered_in_time(session: aiohttp.ClientSession) -> None:
    variables = [{"name": f"V{number}", "value": "x" * 40} for number in range(100_000)]
    pod: JsonObject = {"metadata": {"name": "big"}, "spec": {"containers": [{"name": "m", "env": variables}]}}
    async with asyncio.timeout(5):
        body = io.BytesIO(msgspec.json.encode(review(pod)))
        async with session.post("/mutate-pod", data=body, headers={"Content-Type": "application/json"}) as response:
            assert (await response.json())["response"]["allowed"] is True


async def test_healthz_answers(session: aiohttp.ClientSession) -> None:
    async with session.get("/healthz") as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_a_stop_drops_no_call(cluster: Any) -> None:
    webhook = await cluster.start_webhook("--drain-s", "0.5")
    await cluster.until_registered()
    async with session_to(cluster) as session:
        answered, stopping = 0, asyncio.Event()

        async def call() -> None:
            nonlocal answered
            while not stopping.is_set():
                await post(session, review(BATCH_POD))
                answered += 1

        callers = [asyncio.create_task(call()) for _ in range(4)]
        await cluster.until(lambda: answered > 50, "calls")
        webhook.process.send_signal(signal.SIGTERM)
        await webhook.line(lambda line: "stops on SIGTERM" in line["message"], "the signal")
        at_signal = answered
        await cluster.until(lambda: answered > at_signal + 20, "calls while draining")
        stopping.set()
        await asyncio.gather(*callers)
    assert await webhook.end() == 0


async def target_of(cluster: Any) -> tuple[int, ssl.SSLContext]:
    resource = MUTATING_WEBHOOK_CONFIGURATIONS
    found = cluster.storage.read(resource.group, resource.plural, "", MUTATING_NAME)["webhooks"][0]["clientConfig"]
    context = ssl.create_default_context(cadata=base64.b64decode(found["caBundle"]).decode())
    return int(found["url"].split(":")[2].partition("/")[0]), context


async def closed_in_time(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(20):
            return await reader.read() == b""
    except ConnectionError:
        return True


async def test_who_says_nothing_or_never_ends_its_headers_is_hung_up_on_and_blocks_nobody(
    session: aiohttp.ClientSession, cluster: Any
) -> None:
    port, context = await target_of(cluster)
    silent_tcp = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    silent_tls = [
        await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1") for _ in range(20)
    ]
    for _, writer in silent_tls[:10]:
        writer.write(b"POST /mutate-pod HTTP/1.1\r\nHost: x\r\nContent-Le")
    async with asyncio.timeout(2):
        answer = await post(session, review(BATCH_POD))
    assert answer["response"]["allowed"] is True
    ends = await asyncio.gather(*(closed_in_time(reader) for reader, _ in (*silent_tcp, *silent_tls)))
    assert all(ends)
    for _, writer in (*silent_tcp, *silent_tls):
        writer.transport.abort()
    assert (await post(session, review(BATCH_POD)))["response"]["allowed"] is True, "the idle session was kept"


async def test_a_body_that_never_comes_gets_408(session: aiohttp.ClientSession, cluster: Any) -> None:
    port, context = await target_of(cluster)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
    head = b"POST /mutate-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    writer.write(head)
    async with asyncio.timeout(15):
        assert b" 408 " in await reader.readline()
    writer.transport.abort()


async def test_whatever_the_body_the_answer_is_a_review_or_a_refusal_of_the_request(
    session: aiohttp.ClientSession,
) -> None:
    """Reviews spoilt in every place: by another type, a missing part, a doubled key, a number that is none."""
    good = msgspec.json.encode(review(BATCH_POD))
    spoilt = [good[:place] + junk + good[place + 1 :] for place in range(0, len(good), 7) for junk in JUNK]
    for path in ("/mutate-pod", "/validate-pod", "/validate-profile", "/validate-configmap", "/mutate-node-status"):
        for body in (*spoilt, *CURIOUS):
            headers = {"Content-Type": "application/json"}
            async with session.post(path, data=body, headers=headers) as response:
                assert response.status in (200, 400), (path, body, response.status)
                if response.status == 200:
                    assert (await response.json())["response"]["uid"]


JUNK = (b"", b"null", b"\xff", b'{"a":', b"1e999", b"\\ud800")
CURIOUS = (
    V1 + b',"request":{"uid":"u","uid":"v","operation":"CREATE","resource":{"resource":"pods"},"object":{}}}',
    V1 + b',"request":{"uid":"u","operation":"CREATE","resource":{"resource":"pods"},"object":{"spec":NaN}}}',
    V1
    + b',"request":{"uid":"u","operation":"CREATE","resource":{"resource":"pods"},"object":'
    + b"[" * 10_000
    + b"}}",
    V1 + b',"request":{"uid":"u","operation":"CREATE","resource":{"resource":"pods"},"object":"\\ud800"}}',
    V1 + b',"request":{"uid":"u","operation":"CREATE","resource":{"resource":"pods"},"object":[1]}}',
)


async def test_metrics_tell_operation_result_reason_and_the_size_of_patched_answers(cluster: Any) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    await cluster.start_webhook("--health-port", str(port))
    await cluster.until_registered()
    lines: set[str] = set()

    async with session_to(cluster) as session, aiohttp.ClientSession() as plain:
        await post(session, review(BATCH_POD))
        await post(session, review(PLAIN_POD, operation="UPDATE"))
        await post(session, review(PLAIN_POD, operation="PATCH-OF-TOMORROW"))
        await post(session, review(None))

        async with asyncio.timeout(30):
            while decided("CREATE", "refused", "no-object") not in lines:
                async with plain.get(f"http://127.0.0.1:{port}/metrics") as response:
                    lines = set((await response.text()).splitlines())
                await asyncio.sleep(0.05)
    assert decided("CREATE", "allowed", "patched") in lines
    assert decided("UPDATE", "allowed", "other-operation") in lines
    assert decided("other", "allowed", "other-operation") in lines
    assert "koord_webhook_patched_answer_bytes_count 1.0" in lines


def decided(operation: str, result: str, reason: str) -> str:
    labels = f'operation="{operation}",reason="{reason}",result="{result}"'
    return f"koord_webhook_decisions_total{{{labels}}} 1.0"
