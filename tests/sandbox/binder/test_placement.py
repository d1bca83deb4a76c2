"""The binder's decision: fit, wording, score, and that no node is ever promised more than it has."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koord.api.objects import Node
from sandbox.binder import placement
from sandbox.binder.ledger import Ledger, NodeFacts, demand_of, facts_of
from sandbox.node.model import PodSpec

READY = {"type": "Ready", "status": "True"}


def node(name: str, *, unschedulable: bool = False, ready: str = "True", **allocatable: str) -> NodeFacts:
    return sized(name, allocatable, unschedulable=unschedulable, ready=ready)


def sized(name: str, allocatable: dict[str, str], *, unschedulable: bool = False, ready: str = "True") -> NodeFacts:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    amounts |= {key.replace("batch_", "kubernetes.io/batch-"): text for key, text in allocatable.items()}
    document = {
        "metadata": {"name": name, "labels": {"host": name}},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": amounts, "conditions": [READY | {"status": ready}]},
    }
    return facts_of(msgspec.convert(document, Node))


def spec(**requests: str) -> PodSpec:
    amounts = {key.replace("batch_", "kubernetes.io/batch-"): text for key, text in requests.items()}
    return msgspec.convert({"containers": [{"name": "c", "resources": {"requests": amounts}}]}, PodSpec)


def decide(pod: PodSpec, *nodes: NodeFacts, ledger: Ledger | None = None) -> placement.Placement:
    return placement.decide(pod, demand_of(pod), (ledger or Ledger()).candidates(nodes))


def test_the_emptiest_node_is_chosen() -> None:
    ledger = Ledger()
    ledger.assign("u", "a", demand_of(spec(cpu="1", memory="1Gi")))
    decision = decide(spec(cpu="1", memory="1Gi"), node("a"), node("b"), ledger=ledger)
    assert (decision.node, decision.score) == ("b", (75 + 87) // 2)


def test_ties_go_to_fewer_pods_then_to_the_first_name() -> None:
    tiny = spec(cpu="1m", memory="1Ki")
    assert decide(tiny, node("c"), node("b")).node == "b"
    ledger = Ledger()
    ledger.assign("u", "b", demand_of(tiny))
    assert decide(tiny, node("c"), node("b"), ledger=ledger).node == "c"


def test_batch_resources_count_as_any_other() -> None:
    pod = spec(batch_cpu="1500", batch_memory="1Gi")
    decision = decide(pod, node("a"), node("b", batch_cpu="1000", batch_memory="2Gi"), node("c", batch_cpu="9k"))
    assert decision.message == (
        "0/3 nodes are available: 2 Insufficient kubernetes.io/batch-cpu, 2 Insufficient kubernetes.io/batch-memory."
    )
    assert decide(pod, node("a"), node("b", batch_cpu="1500", batch_memory="1Gi")).node == "b"


def test_each_node_is_refused_by_its_first_filter() -> None:
    pod = msgspec.structs.replace(spec(cpu="5"), node_selector={"host": "small"})
    decision = decide(
        pod, node("cordoned", unschedulable=True), node("lost", ready="Unknown"), node("other"), node("small")
    )
    assert decision.message == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_the_number_of_pods_is_limited() -> None:
    ledger = Ledger()
    ledger.assign("u", "a", demand_of(PodSpec()))
    decision = decide(spec(cpu="1"), node("a", pods="1"), ledger=ledger)
    assert decision.refusals == {"a": ("Too many pods",)}


def test_without_nodes_the_reason_says_so() -> None:
    assert decide(spec()).message == "no nodes available to schedule pods"


def test_a_node_that_is_not_ready_takes_what_tolerates_it() -> None:
    document = {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}
    assert decide(msgspec.convert(document, PodSpec), node("a", ready="False")).node == "a"
    assert decide(PodSpec(), node("a", ready="False")).node is None


def test_releasing_gives_back_exactly_what_was_taken() -> None:
    ledger = Ledger()
    assert ledger.assign("u", "a", demand_of(spec(cpu="4")))
    assert not ledger.assign("u", "a", demand_of(spec(cpu="4")))
    assert decide(spec(cpu="1"), node("a"), ledger=ledger).node is None
    assert ledger.assign("u", "a", demand_of(spec(cpu="3")))
    assert decide(spec(cpu="1"), node("a"), ledger=ledger).node == "a"
    assert ledger.release("u")
    assert not ledger.release("u")
    assert decide(spec(cpu="4"), node("a"), ledger=ledger).node == "a"


amounts = st.builds(lambda milli, batch: {"cpu": f"{milli}m", "batch_cpu": str(batch)},
                    st.integers(0, 5000), st.integers(0, 5000))  # fmt: skip


@given(pods=st.lists(amounts, max_size=30), sizes=st.lists(st.tuples(amounts, st.integers(0, 6)), max_size=4))
def test_no_node_is_ever_promised_more_than_it_has(
    pods: list[dict[str, str]], sizes: list[tuple[dict[str, str], int]]
) -> None:
    nodes = [sized(f"n{index}", {**size, "pods": str(count)}) for index, (size, count) in enumerate(sizes)]
    ledger = Ledger()
    for index, requests in enumerate(pods):
        pod = spec(**requests)
        decision = decide(pod, *nodes, ledger=ledger)
        if decision.node is not None:
            ledger.assign(f"pod-{index}", decision.node, demand_of(pod))
        else:
            assert set(decision.refusals) == {facts.name for facts in nodes}
    for facts in nodes:
        usage = ledger.usage(facts.name)
        assert all(amount <= facts.allocatable[name] for name, amount in usage.requests.items())
        assert usage.pods * 10**9 <= facts.allocatable["pods"]


@given(pods=st.lists(amounts, max_size=10), order=st.permutations(["a", "b", "c"]))
def test_the_decision_does_not_depend_on_the_order_of_nodes(pods: list[dict[str, str]], order: list[str]) -> None:
    ledger = Ledger()
    for index, requests in enumerate(pods):
        pod = spec(**requests)
        sorted_choice = decide(pod, *(node(name, batch_cpu="9000") for name in "abc"), ledger=ledger)
        assert (
            decide(pod, *(node(name, batch_cpu="9000") for name in order), ledger=ledger).node == sorted_choice.node
        )
        if sorted_choice.node is not None:
            ledger.assign(f"pod-{index}", sorted_choice.node, demand_of(pod))
