"""Leader election between contenders over a real HTTP server."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.lease import (
    LeaderElection,
    LeaseRecord,
    Observation,
    StillLeading,
    claim,
    default_identity,
    give_back,
    observe,
    read_record,
)

PATH = "/apis/coordination.k8s.io/v1/namespaces/koordinator-system/leases/manager"


class Contenders:
    """Starts contenders that each have a token of their own, and watches who leads."""

    def __init__(self, kit, server):
        self.kit, self.server = kit, server
        server.accepted = set()
        self.leading = []
        self.most = 0
        self.turns = []
        self.clients = []
        self.tasks = {}
        self.elections = {}

    async def start(self, name, **durations):
        config = self.kit.kubeconfig(self.server.url, {"token": name}, name=f"config-{name}")
        self.server.accepted.add(f"Bearer {name}")
        from koord.kube.connection import connect

        client = await connect(config)
        self.clients.append(client)
        durations = {"lease_duration_s": 2, "renew_deadline_s": 1.0, "retry_period_s": 0.1} | durations
        election = LeaderElection(client, "koordinator-system", "manager", name, **durations)

        async def lead():
            self.leading.append(name)
            self.turns.append(name)
            self.most = max(self.most, len(self.leading))
            try:
                await asyncio.Event().wait()
            finally:
                self.leading.remove(name)

        self.elections[name] = election
        self.tasks[name] = asyncio.ensure_future(election.run(lead))
        return election

    async def stop(self, name):
        task = self.tasks.pop(name)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    def cut_off(self, name):
        self.server.accepted.discard(f"Bearer {name}")

    async def led_by(self, name):
        await self.kit.eventually(lambda: self.leading == [name])

    async def close(self):
        for name in list(self.tasks):
            await self.stop(name)
        for client in self.clients:
            await client.close()


@pytest.fixture
async def contenders(kit):
    server = kit.new_server()
    await server.start()
    group = Contenders(kit, server)
    yield group
    await group.close()
    assert group.most <= 1, f"{group.most} led at once"
    await server.stop()


def spec(contenders):
    return contenders.server.objects[PATH]["spec"]


async def test_the_first_creates_the_lease_and_leads(contenders):
    election = await contenders.start("a")
    await contenders.led_by("a")
    assert election.is_leading
    assert spec(contenders)["holderIdentity"] == "a"
    assert spec(contenders)["leaseDurationSeconds"] == 2
    assert spec(contenders)["leaseTransitions"] == 0


async def test_an_orderly_stop_hands_over_at_once(contenders):
    await contenders.start("a", lease_duration_s=60, renew_deadline_s=40)
    await contenders.led_by("a")
    waiting = await contenders.start("b", lease_duration_s=60, renew_deadline_s=40)
    await contenders.kit.eventually(lambda: waiting.holder == "a")
    await contenders.stop("a")
    await asyncio.wait_for(contenders.led_by("b"), 3)
    assert spec(contenders)["leaseTransitions"] == 1


async def test_a_holder_that_is_cut_off_stops_before_another_leads(contenders):
    await contenders.start("a")
    await contenders.led_by("a")
    await contenders.start("b")
    contenders.cut_off("a")
    await contenders.kit.eventually(lambda: not contenders.leading)
    assert not contenders.elections["a"].is_leading
    assert spec(contenders)["holderIdentity"] == "a"
    await contenders.led_by("b")
    assert contenders.turns == ["a", "b"]


async def test_a_holder_that_was_cut_off_contends_again(contenders):
    await contenders.start("a")
    await contenders.led_by("a")
    contenders.cut_off("a")
    await contenders.kit.eventually(lambda: not contenders.leading)
    contenders.server.accepted.add("Bearer a")
    await contenders.led_by("a")
    assert contenders.turns == ["a", "a"]


async def test_a_crashed_holder_is_waited_for_and_its_clock_is_not_believed(contenders):
    contenders.server.put(
        PATH,
        spec={"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"},
    )
    started = asyncio.get_running_loop().time()
    await contenders.start("a")
    await contenders.led_by("a")
    assert asyncio.get_running_loop().time() - started >= 1.0


async def test_an_old_renew_time_gives_no_right_to_take_over_at_once(contenders):
    contenders.server.put(
        PATH,
        spec={"holderIdentity": "slow", "leaseDurationSeconds": 1, "renewTime": "2001-01-01T00:00:00.000000Z"},
    )
    election = await contenders.start("a")
    for number in range(10):
        await contenders.kit.eventually(lambda: election.holder == "slow")
        await asyncio.sleep(0.2)
        contenders.server.put(PATH, spec=spec(contenders) | {"renewTime": f"2001-01-01T00:00:{number:02}.000000Z"})
    assert not contenders.turns
    await contenders.led_by("a")


async def test_a_lease_that_was_given_back_is_free(contenders):
    contenders.server.put(PATH, spec={"holderIdentity": "", "leaseDurationSeconds": 3600})
    await contenders.start("a")
    await contenders.led_by("a")


async def test_a_lease_without_a_spec_is_free(contenders):
    contenders.server.put(PATH)
    await contenders.start("a")
    await contenders.led_by("a")


async def test_other_writers_fields_are_kept_and_do_not_end_leading(contenders):
    await contenders.start("a")
    await contenders.led_by("a")
    contenders.server.put(PATH, metadata={"labels": {"owner": "me"}})
    before = spec(contenders)["renewTime"]
    await contenders.kit.eventually(lambda: spec(contenders)["renewTime"] != before)
    assert contenders.server.objects[PATH]["metadata"]["labels"] == {"owner": "me"}
    assert contenders.turns == ["a"] == contenders.leading


async def test_a_lease_that_another_took_ends_leading(contenders):
    await contenders.start("a")
    await contenders.led_by("a")
    contenders.server.put(PATH, spec=spec(contenders) | {"holderIdentity": "thief", "leaseDurationSeconds": 60})
    await contenders.kit.eventually(lambda: not contenders.leading)
    assert spec(contenders)["holderIdentity"] == "thief"


async def test_a_deleted_lease_is_created_again(contenders):
    await contenders.start("a")
    await contenders.led_by("a")
    contenders.server.remove(PATH)
    await contenders.kit.eventually(lambda: PATH in contenders.server.objects)
    assert contenders.turns == ["a"] == contenders.leading


async def test_returns_when_leading_ends_and_gives_the_lease_back(client, server):
    election = LeaderElection(client, "koordinator-system", "manager", "a")

    async def lead():
        assert election.is_leading

    await election.run(lead)
    assert not election.is_leading
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_raises_what_leading_raises_and_gives_the_lease_back(client, server):
    election = LeaderElection(client, "koordinator-system", "manager", "a")

    async def lead():
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await election.run(lead)
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_the_lease_is_kept_while_leading_takes_its_time_to_stop(client, server, kit):
    election = LeaderElection(
        client, "koordinator-system", "manager", "a", lease_duration_s=3, renew_deadline_s=1.0, retry_period_s=0.05
    )
    stopping = asyncio.Event()
    finish = asyncio.Event()

    async def lead():
        try:
            await asyncio.Event().wait()
        finally:
            stopping.set()
            await finish.wait()

    running = asyncio.ensure_future(election.run(lead))
    await kit.eventually(lambda: election.is_leading)
    running.cancel()
    await stopping.wait()
    renewed = server.objects[PATH]["spec"]["renewTime"]
    await kit.eventually(lambda: server.objects[PATH]["spec"]["renewTime"] != renewed)
    assert server.objects[PATH]["spec"]["holderIdentity"] == "a"
    finish.set()
    await asyncio.wait({running})
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_leading_that_cannot_be_stopped_is_an_error_and_keeps_the_lease(client, server, kit):
    election = LeaderElection(
        client, "koordinator-system", "manager", "a", lease_duration_s=1, renew_deadline_s=0.5, retry_period_s=0.05
    )
    finish = asyncio.Event()

    async def lead():
        while not finish.is_set():
            try:
                await finish.wait()
            except asyncio.CancelledError:
                continue

    running = asyncio.ensure_future(election.run(lead))
    await kit.eventually(lambda: election.is_leading)
    server.put(PATH, spec={"holderIdentity": "thief", "leaseDurationSeconds": 60})
    with pytest.raises(StillLeading, match="ignores its cancellation"):
        await asyncio.wait_for(running, 5)
    assert server.objects[PATH]["spec"]["holderIdentity"] == "thief"
    finish.set()


async def test_never_two_lead_while_anything_fails(contenders):
    source = random.Random(7)
    names = ["a", "b", "c", "d"]
    for name in names:
        await contenders.start(name, lease_duration_s=1, renew_deadline_s=0.5, retry_period_s=0.05)
    for _ in range(40):
        await asyncio.sleep(0.1)
        name = source.choice(names)
        match source.randrange(4):
            case 0:
                contenders.cut_off(name)
            case 1 | 2:
                contenders.server.accepted.add(f"Bearer {name}")
            case 3:
                contenders.server.faults.append(contenders.kit.refuse)
        assert len(contenders.leading) <= 1
    contenders.server.accepted.update(f"Bearer {name}" for name in names)
    await contenders.kit.eventually(lambda: contenders.leading)
    last = contenders.leading[0]
    contenders.cut_off(last)
    await contenders.kit.eventually(lambda: contenders.leading and contenders.leading != [last])


@pytest.mark.parametrize("durations", [(15, 15.0, 2.0), (15, 10.0, 10.0), (15, 10.0, 0.0)])
async def test_durations_that_cannot_be_safe_are_refused(client, durations):
    lease, renew, retry = durations
    with pytest.raises(ValueError, match="must hold"):
        LeaderElection(client, "n", "l", "me", lease_duration_s=lease, renew_deadline_s=renew, retry_period_s=retry)


def test_identities_differ():
    assert default_identity() != default_identity()


records = st.builds(
    LeaseRecord,
    holder=st.sampled_from(["", "me", "other"]),
    duration_s=st.floats(1, 60),
    renew_time=st.sampled_from(["1", "2", "3"]),
    transitions=st.integers(0, 3),
)


@given(st.lists(st.tuples(records, st.floats(0, 30)), min_size=1))
def test_anothers_lease_is_taken_only_after_it_stood_still_for_its_whole_duration(reads):
    now, observation, still_since = 0.0, None, 0.0
    for record, pause in reads:
        now += pause
        if observation is None or record != observation.record:
            still_since = now
        observation = observe(observation, record, now)
        taken = observation.may_be_taken("me", now)
        assert taken == (record.holder in ("", "me") or now >= still_since + record.duration_s)


@given(
    st.dictionaries(
        st.sampled_from(["holderIdentity", "leaseDurationSeconds", "leaseTransitions"]),
        st.none() | st.text(max_size=3) | st.integers(),
    )
)
def test_malformed_records_are_read_as_never_set(fields):
    record = read_record({"spec": fields}, 15)
    assert record.duration_s > 0
    assert isinstance(record.transitions, int)


def test_claiming_counts_transitions_and_leaves_its_input_alone():
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b", "renewTime": "x", "leaseTransitions": 4}}
    taken = claim(lease, "a", 15, 0.0)
    assert lease["spec"]["holderIdentity"] == "b"
    assert taken["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 5,
        "acquireTime": "1970-01-01T00:00:00.000000Z",
        "renewTime": "1970-01-01T00:00:00.000000Z",
    }
    renewed = claim(taken, "a", 15, 1.0)
    assert renewed["spec"] == taken["spec"] | {"renewTime": "1970-01-01T00:00:01.000000Z"}
    assert give_back(renewed, 2.0)["spec"]["holderIdentity"] == ""
    assert Observation(read_record(give_back(renewed, 2.0), 15), 0.0).may_be_taken("other", 0.0)
