"""Whatever the server does, store and event stream end at the server's state."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from koord.kube.resources import PODS
from koord.kube.store import Store

POD = "/api/v1/namespaces/a/pods/"
names = st.sampled_from("vwxyz")
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "put", "remove", "recreate"]), names),
        st.tuples(
            st.sampled_from(
                ["abort", "end", "cut", "bookmark", "compact", "error", "gone", "refuse", "fail", "pause", "restore"]
            ),
            st.none(),
        ),
    ),
    max_size=30,
)


class Script:
    """Plays steps on a server while a store follows it."""

    def __init__(self, server, store, kit):
        self.server, self.store, self.kit = server, store, kit
        self.numbers = itertools.count()
        self.saved = server.snapshot()

    async def play(self, step, name):
        await getattr(self, step)(*([name] if name else []))

    async def put(self, name):
        self.server.put(POD + name, spec={"nodeName": f"n{next(self.numbers)}"})

    async def remove(self, name):
        if POD + name in self.server.objects:
            self.server.remove(POD + name)

    async def recreate(self, name):
        await self.remove(name)
        await self.put(name)

    async def abort(self):
        for watcher in self.server.watchers:
            watcher.abort()

    async def end(self):
        for watcher in self.server.watchers:
            watcher.end()

    async def cut(self):
        for watcher in self.server.watchers:
            watcher.send_raw(b'{"type":"MODIFIED","object":{"metadata":{"na')
            watcher.end()

    async def bookmark(self):
        self.server.bookmark()

    async def compact(self):
        self.server.compact()

    async def error(self):
        for watcher in self.server.watchers:
            watcher.send("ERROR", self.kit.status(500, "InternalError"))

    async def gone(self):
        self.server.gone_as_event = not self.server.gone_as_event
        for watcher in self.server.watchers:
            watcher.send("ERROR", self.kit.status(410, "Expired"))

    async def refuse(self):
        self.fault(self.kit.refuse, self.kit.refuse)

    async def fail(self):
        self.fault(self.kit.failing(503), self.kit.failing(410, "Expired"))

    def fault(self, watching, listing):
        # Not too many in a row, or the store rightly takes minutes to come back.
        if len(self.server.watch_faults) + len(self.server.list_faults) < 4:
            self.server.watch_faults.append(watching)
            self.server.list_faults.append(listing)

    async def pause(self):
        await asyncio.sleep(0.01)

    async def restore(self):
        # Versions say that time went back only while it has not caught up again, so
        # the store gets the time to notice. And a server is restored in minutes, not
        # between an answer and the next request.
        lists = -1
        while lists != self.store.statistics.lists:  # until the change came by a watch, which is open then
            await self.kit.eventually(lambda: any(not watcher.ending for watcher in self.server.watchers), 40)
            lists = self.store.statistics.lists
            await self.put("v")
            await self.settled()
        went_back = self.saved[0] < self.server.version
        self.server.restore(self.saved)
        if went_back and self.store.statistics.synced:
            await self.kit.eventually(lambda: self.store.statistics.lists > lists, 40)
        await self.settled()

    async def settled(self):
        await self.kit.eventually(lambda: held(self.store) == served(self.server), 40)
        self.server.bookmark()


def held(store):
    return {
        pod.metadata.name: (pod.metadata.uid, pod.metadata.resource_version, pod.spec.node_name)
        for pod in store.values()
    }


def served(server):
    return {
        obj["metadata"]["name"]: (
            obj["metadata"]["uid"],
            obj["metadata"]["resourceVersion"],
            obj["spec"]["nodeName"],
        )
        for obj in server.objects.values()
    }


async def stop(task):
    task.cancel()
    await asyncio.wait({task})


# Not shrunk: an example that fails takes its whole deadline every time.
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=st.sets(names), script=steps)
@pytest.mark.asyncio
async def test_store_and_event_stream_end_at_the_servers_state(kit, before, script):
    server = kit.new_server()
    await server.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        client = await stack.enter_async_context(await kit.client(server))
        for name in sorted(before):
            server.put(POD + name, spec={"nodeName": "first"})
        store = Store(client, PODS, page_size=2, watch_timeout_s=60)
        state = {}

        def follow(change):
            name = change.object.metadata.name
            assert state.pop(name, None) is change.old
            if change.old is not None and change.new is not None:
                assert change.old.metadata.uid == change.new.metadata.uid
                assert change.old != change.new
            if change.new is not None:
                state[name] = change.new

        store.subscribe(follow)
        store.add_index("node", lambda pod: pod.spec.node_name)
        running = asyncio.ensure_future(store.run())
        stack.push_async_callback(stop, running)
        played = Script(server, store, kit)
        for step, name in script:
            await played.play(step, name)
        await played.settled()
        await stop(running)
        assert running.cancelled()
        assert state == {pod.metadata.name: pod for pod in store.values()}
        for pod in store.values():
            assert pod in store.by_index("node", pod.spec.node_name)
