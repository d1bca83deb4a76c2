"""koord.kube against the sandbox's API server, which knows admission, budgets and history."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import pytest

from koord.kube.connection import connect
from koord.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, TooManyRequests
from koord.kube.events import EventRecorder, reference
from koord.kube.lease import LeaderElection
from koord.kube.requests import APPLY_PATCH, JSON_PATCH, STRATEGIC_PATCH
from koord.kube.resources import CONFIGMAPS, EVENTS, LEASES, NAMESPACES, NODES, PDBS, PODS
from koord.kube.store import Store
from sandbox.admission.chain import AdmissionChain
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.calls import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.apiserver.storage import Storage
from sandbox.kubeconfig import make_credentials, render_kubeconfig, server_context
from sandbox.lifecycle.eviction import evict


@dataclass
class Server:
    """An API server that can be replaced by another on the same port."""

    credentials: object
    storage: Storage
    running: ApiServer | None = None
    admission: AdmissionChain | None = None
    port: int = 0

    async def start(self):
        self.admission = AdmissionChain(self.storage)
        tokens = {self.credentials.token: ADMIN}
        self.running = ApiServer(self.storage, builtin_kinds(), self.admission, tokens=tokens, evict=evict)
        self.port = await self.running.start(port=self.port, ssl_context=server_context(self.credentials))

    async def stop(self):
        await self.running.stop()
        await self.admission.close()


@pytest.fixture
async def server():
    started = Server(make_credentials("127.0.0.1"), Storage())
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def client(server, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(render_kubeconfig(server.credentials, f"https://127.0.0.1:{server.port}"))
    async with await connect(str(path)) as connected:
        with suppress(AlreadyExists):
            await connected.create(NAMESPACES, {"metadata": {"name": "default"}})
        yield connected


def config(name, **data):
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": "x"}}, "data": data}


def pod(name, node=""):
    spec = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": node} if node else {})
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": "x"}}, "spec": spec}


def held(store):
    return {item.metadata.name: item.data for item in store.values()}


async def test_a_store_follows_every_kind_of_write(client, kit, background):
    store = Store(client, CONFIGMAPS, page_size=2, label_selector="app=x")
    for number in range(5):
        await client.create(CONFIGMAPS, config(f"c{number}"))
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    assert len(store) == 5
    await client.patch(CONFIGMAPS, "c0", {"data": {"a": "1"}}, namespace="default")
    operation = [{"op": "add", "path": "/data", "value": {"b": "2"}}]
    await client.patch(CONFIGMAPS, "c1", operation, namespace="default", content_type=JSON_PATCH)
    await client.patch(CONFIGMAPS, "c2", {"data": {"c": "3"}}, namespace="default", content_type=STRATEGIC_PATCH)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"d": "4"}}
    await client.patch(CONFIGMAPS, "c3", applied, namespace="default", content_type=APPLY_PATCH)
    await client.delete(CONFIGMAPS, "c4", "default")
    await kit.until(
        store, lambda: held(store) == {"c0": {"a": "1"}, "c1": {"b": "2"}, "c2": {"c": "3"}, "c3": {"d": "4"}}
    )
    unlabelled = {"metadata": {"labels": None}}
    await client.patch(CONFIGMAPS, "c0", unlabelled, namespace="default")
    await kit.until(store, lambda: "c0" not in held(store))
    assert store.statistics.restarts == 0


async def test_a_field_selector_shows_the_pods_of_one_node(client, kit, background):
    await client.create(NODES, {"metadata": {"name": "n1"}})
    store = Store(client, PODS, field_selector="spec.nodeName=n1", first_list_from_cache=True)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    await client.create(PODS, pod("elsewhere"))
    await client.create(PODS, pod("here", "n1"))
    await kit.until(store, lambda: store.get("here", "default"))
    await client.delete(PODS, "here", "default", grace_period_s=0)
    await kit.until(store, lambda: not len(store))


async def test_a_store_follows_a_restarted_server_without_listing(server, client, kit, background):
    store = Store(client, CONFIGMAPS)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    await server.stop()
    await server.start()
    await client.create(CONFIGMAPS, config("late"))
    await kit.until(store, lambda: store.get("late", "default"))
    assert store.statistics.lists == 1


async def test_a_store_recovers_when_history_was_compacted(server, client, kit, background):
    await client.create(CONFIGMAPS, config("old"))
    store = Store(client, CONFIGMAPS)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    await server.stop()
    await server.start()
    other = Store(client, CONFIGMAPS)
    await client.create(CONFIGMAPS, config("new"))
    await client.delete(CONFIGMAPS, "old", "default")
    server.storage.compact()
    background(other.run())
    await kit.until(store, lambda: set(held(store)) == {"new"})
    await kit.until(other, lambda: set(held(other)) == {"new"})


async def test_a_store_follows_a_server_that_lost_its_state(server, client, kit, background):
    for number in range(3):
        await client.create(CONFIGMAPS, config(f"c{number}"))
    store = Store(client, CONFIGMAPS)
    background(store.run())
    await asyncio.wait_for(store.wait_synced(), 10)
    await server.stop()
    server.storage = Storage()
    await server.start()
    await kit.until(store, lambda: not len(store))
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    await client.create(CONFIGMAPS, config("c1"))
    await kit.until(store, lambda: set(held(store)) == {"c1"})


async def test_a_paged_list_is_of_one_moment(server, client):
    for number in range(7):
        await client.create(CONFIGMAPS, config(f"c{number}"))
    page = await client.list(CONFIGMAPS, "default", label_selector="app=x", limit=2)
    assert [item.metadata.name for item in page.items] == [f"c{number}" for number in range(7)]
    assert int(page.resource_version) == server.storage.version


async def test_writes_fail_for_the_reason_that_they_fail_for(client):
    created = await client.create(CONFIGMAPS, config("c"))
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "c", "default", uid="another")
    with pytest.raises(Invalid):
        test = [{"op": "test", "path": "/data", "value": {"x": "y"}}]
        await client.patch(CONFIGMAPS, "c", test, namespace="default", content_type=JSON_PATCH)
    await client.create(CONFIGMAPS, config("dry"), dry_run=True)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "dry", "default")
    stale = config("c") | {"metadata": {"name": "c", "resourceVersion": created.metadata.resource_version}}
    await client.update(CONFIGMAPS, "c", stale | {"data": {"n": "1"}}, namespace="default")
    with pytest.raises(Conflict):
        await client.update(CONFIGMAPS, "c", stale | {"data": {"n": "2"}}, namespace="default")


async def test_evictions_obey_budgets_and_preconditions(client):
    await client.create(NODES, {"metadata": {"name": "n1"}})
    created = await client.create(PODS, pod("one", "n1"))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(PODS, "one", running, namespace="default", subresource="status")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await client.create(PDBS, {"metadata": {"name": "b", "namespace": "default"}, "spec": budget})
    with pytest.raises(TooManyRequests) as refused:
        await client.evict("one", "default")
    assert "DisruptionBudget" in refused.value.causes
    await client.delete(PDBS, "b", "default")
    with pytest.raises(Conflict):
        await client.evict("one", "default", uid="another")
    await client.evict("one", "default", uid=created.metadata.uid, dry_run=True)
    assert (await client.get(PODS, "one", "default")).metadata.deletion_timestamp is None
    await client.evict("one", "default", uid=created.metadata.uid)
    with pytest.raises(NotFound):
        await client.evict("none", "default")


async def test_two_contenders_share_one_lease(client, kit):
    leading = []

    def contend(name):
        election = LeaderElection(
            client, "default", "l", name, lease_duration_s=2, renew_deadline_s=1.0, retry_period_s=0.1
        )

        async def lead():
            leading.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                leading.remove(name)

        return asyncio.ensure_future(election.run(lead))

    first = contend("a")
    await kit.eventually(lambda: leading == ["a"])
    second = contend("b")
    first.cancel()
    await kit.eventually(lambda: leading == ["b"])
    second.cancel()
    await asyncio.wait({first, second})
    assert (await client.get(LEASES, "l", "default"))["spec"].get("holderIdentity", "") == ""


async def test_events_are_accepted_and_counted(client):
    recorder = EventRecorder(client, "koord-manager", "here")
    about = reference(CONFIGMAPS, await client.create(CONFIGMAPS, config("c")))
    for _ in range(2):
        recorder.emit(about, "Warning", "Invalid", "colocation-config: not JSON")
        await recorder.flush()
    (event,) = (await client.list(EVENTS, "default")).items
    assert event["count"] == 2
    assert event["involvedObject"]["uid"] == about.uid
