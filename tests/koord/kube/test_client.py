"""Calls of Client over TLS: what is sent, and what failures turn into."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web

from koord.kube import errors
from koord.kube.client import Client
from koord.kube.codec import Undecodable
from koord.kube.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from koord.kube.resources import CONFIGMAPS, DEPLOYMENTS, NODES, PODS, raw

POD = "/api/v1/namespaces/a/pods/"
RAW_PODS = raw("", "v1", "pods", "Pod", True)


async def test_reads_a_typed_and_a_raw_object(client, server):
    server.put(POD + "one", spec={"nodeName": "n1"}, unknown=1)
    assert (await client.get(PODS, "one", "a")).spec.node_name == "n1"
    assert (await client.get(RAW_PODS, "one", "a"))["unknown"] == 1


async def test_creates_in_the_namespace_of_the_object(client, server):
    body = {"metadata": {"name": "c", "namespace": "a"}, "data": {"k": "v"}}
    created = await client.create(CONFIGMAPS, body)
    assert created.data == {"k": "v"}
    assert server.requests[-1].query == {"fieldManager": "koord"}
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIGMAPS, body)


async def test_dry_run_is_passed_on(client, server):
    server.put(POD + "one")
    await client.patch(PODS, "one", {}, namespace="a", dry_run=True)
    assert server.requests[-1].query["dryRun"] == "All"


@pytest.mark.parametrize("content_type", [MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH])
async def test_patches_with_the_content_type_asked_for(client, server, content_type):
    server.put(POD + "one")
    await client.patch(PODS, "one", {"spec": {}}, namespace="a", subresource="", content_type=content_type)
    assert server.requests[-1].headers["Content-Type"] == content_type


async def test_apply_can_take_fields_over(client, server):
    server.put("/api/v1/nodes/n1")
    await client.patch(NODES, "n1", {}, content_type=APPLY_PATCH, force=True)
    assert server.requests[-1].query == {"fieldManager": "koord", "force": "true"}


async def test_update_with_an_old_version_is_a_conflict(client, server):
    server.put(POD + "one")
    body = await client.get(RAW_PODS, "one", "a")
    server.put(POD + "one", spec={"nodeName": "n2"})
    with pytest.raises(errors.Conflict):
        await client.update(RAW_PODS, "one", body, namespace="a")


async def test_delete_sends_its_preconditions(client, server):
    server.put(POD + "one")
    await client.delete(PODS, "one", "a", grace_period_s=0, uid="u", propagation="Foreground")
    assert await server.requests[-1].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
    }
    with pytest.raises(errors.NotFound):
        await client.delete(PODS, "one", "a")


async def test_evicts_the_very_pod(client, server):
    uid = server.put(POD + "one")["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await client.evict("one", "a", uid="another")
    await client.evict("one", "a", uid=uid)
    assert (await server.requests[-1].json())["apiVersion"] == "policy/v1"
    with pytest.raises(errors.NotFound):
        await client.evict("one", "a")


async def test_an_eviction_that_a_budget_refuses_says_so(client, server, kit):
    server.faults.append(
        kit.failing(
            429,
            "TooManyRequests",
            {"Retry-After": "10"},
            causes=[{"reason": "DisruptionBudget"}],
            retryAfterSeconds=3,
        )
    )
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.evict("one", "a")
    assert caught.value.retry_after_s == 10
    assert caught.value.causes == ("DisruptionBudget",)
    assert str(caught.value) == "POST /api/v1/namespaces/a/pods/one/eviction: 429 TooManyRequests: TooManyRequests"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.Invalid),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (418, errors.ApiError),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.Unavailable),
        (504, errors.Unavailable),
    ],
)
async def test_http_codes_become_errors_by_what_to_do_next(client, server, kit, code, kind):
    server.list_faults.append(kit.failing(code, "Because"))
    with pytest.raises(errors.ApiError) as caught:
        await client.list(PODS)
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (code, "Because")


async def test_a_body_that_is_no_status_is_clipped(client, server):
    async def page(_request):
        return web.Response(status=502, text="<html>" + "x" * 5000)

    server.list_faults.append(page)
    with pytest.raises(errors.Unavailable) as caught:
        await client.list(PODS)
    assert caught.value.reason == "NoStatus"
    assert len(caught.value.message) == 200


async def test_a_server_that_is_not_there_is_unavailable(client, server):
    await server.stop()
    with pytest.raises(errors.Unavailable, match="ConnectionFailed"):
        await client.get(PODS, "one", "a")


async def test_an_answer_that_does_not_come_is_unavailable(client, server):
    async def never(_request):
        await asyncio.sleep(60)
        return web.Response()

    server.list_faults.append(never)
    started = time.monotonic()
    with pytest.raises(errors.Unavailable, match="Timeout"):
        await client.request("GET", "/api/v1/pods", timeout_s=0.2)
    assert time.monotonic() - started < 2


async def test_an_object_of_the_wrong_shape_is_undecodable(client, server):
    server.put(POD + "one", spec={"priority": "high"})
    with pytest.raises(Undecodable, match=r"Pod.*\$.spec.priority"):
        await client.get(PODS, "one", "a")


async def test_a_list_returns_its_bad_objects_apart(client, server, caplog):
    server.put(POD + "one")
    server.put(POD + "two", spec={"priority": "high"})
    page = await client.list(PODS, "a", label_selector="x=y", field_selector="spec.nodeName=n", limit=1)
    assert [pod.metadata.name for pod in page.items] == ["one"]
    assert [str(bad.key) for bad in page.bad] == ["a/two"]
    assert page.resource_version == str(server.version)
    assert server.requests[0].query == {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n", "limit": "1"}
    assert "Pod/a/two" in caplog.text


async def test_names_are_escaped_and_missing_names_refused(client, server):
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "../../secrets", "a")
    assert server.requests[-1].raw_path == "/api/v1/namespaces/a/pods/..%2F..%2Fsecrets"
    with pytest.raises(ValueError, match="a name is needed"):
        await client.get(PODS, "", "a")
    with pytest.raises(ValueError, match="Deployment web: a namespace is needed"):
        await client.patch(DEPLOYMENTS, "web", {})
    with pytest.raises(ValueError, match="Pod one: a namespace is needed"):
        await client.create(PODS, {"metadata": {"name": "one"}})


async def test_redirects_are_not_followed_with_credentials(client, server):
    async def redirect(_request):
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    server.list_faults.append(redirect)
    with pytest.raises(Exception, match="302"):
        await client.list(PODS)


async def test_many_requests_share_connections(client, server):
    server.put(POD + "one")
    await asyncio.gather(*(client.get(PODS, "one", "a") for _ in range(50)))
    await asyncio.gather(*(client.get(PODS, "one", "a") for _ in range(50)))
    assert (
        len({request.transport.get_extra_info("peername") for request in server.requests if request.transport}) <= 50
    )


def test_clients_are_built_from_a_connection_only():
    with pytest.raises(TypeError):
        Client()
