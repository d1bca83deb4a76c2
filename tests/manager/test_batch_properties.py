"""What must hold for any node, report and pods: nothing is sold twice, and more use never means more to sell."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.quantity import NANO, NANO_PER_MILLI
from koord.slo_config import colocation
from koord.slo_config.resolve import Resolved, resolve
from manager.overcommit.amounts import NO_OFFER, ZERO, Amounts
from manager.overcommit.decide import decide
from manager.overcommit.decision import NodeDecision, Reason
from manager.overcommit.node_facts import NodeFacts
from manager.overcommit.pod_share import PodShare
from manager.overcommit.report import PodUse, UsageReport
from manager.overcommit.shortage import TierName
from manager.overcommit.terms import terms_of

NOW_S = 1_800_000_000.0
CPU_POLICIES = ("usage", "maxUsageRequest", "typo")
MEMORY_POLICIES = ("usage", "request", "maxUsageRequest", "typo")

cpu_nano = st.integers(0, 200_000 * NANO_PER_MILLI)
memory_nano = st.integers(0, 2**40).map(lambda number: number * NANO)
amounts = st.builds(Amounts, cpu_nano, memory_nano)


def strategy_of(**fields: Any) -> Resolved:
    stated = {"enable": True, **fields}
    config = colocation.ColocationConfig(stated, {**colocation.BUILT_IN.cluster, **stated}, ())
    return resolve(config, {}, {})


strategies = st.builds(
    strategy_of,
    cpuReclaimThresholdPercent=st.integers(0, 100),
    memoryReclaimThresholdPercent=st.integers(0, 100),
    cpuCalculatePolicy=st.sampled_from(CPU_POLICIES),
    memoryCalculatePolicy=st.sampled_from(MEMORY_POLICIES),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[NodeFacts, UsageReport, list[PodShare]]:
    facts = node_facts_of(draw(amounts), draw(amounts), draw(amounts))
    pods: list[PodShare] = []
    reported: dict[tuple[str, str], PodUse] = {}
    for number in range(draw(st.integers(0, 6))):
        key = ("default", f"pod-{number}")
        protected = draw(st.booleans())
        if draw(st.booleans()):
            reported[key] = PodUse(*draw(amounts), protected)
        if draw(st.booleans()):
            pods.append(PodShare(key, "node", draw(st.booleans()), protected, draw(st.booleans()), draw(amounts)))
    report = UsageReport(NOW_S, True, draw(amounts), draw(amounts), reported)
    return facts, report, pods


def node_facts_of(capacity: Amounts, kubelet: Amounts = ZERO, reserved: Amounts = ZERO) -> NodeFacts:
    return NodeFacts(
        name="node",
        labels={},
        strategy_annotation="",
        capacity=capacity,
        kubelet_reserved=Amounts(min(kubelet.cpu, capacity.cpu), min(kubelet.memory, capacity.memory)),
        annotation_reserved=reserved,
        third_party=NO_OFFER,
        published={},
        origin=None,
    )


def batch_of(decision: NodeDecision) -> tuple[int, int]:
    assert decision.calculated is not None
    return decision.calculated


@given(situations(), strategies)
def test_batch_margin_system_and_protected_pods_never_exceed_capacity(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], resolved: Resolved
) -> None:
    decision = decide(*situation, resolved, NOW_S)
    for ledger, unit in ((decision.cpu, NANO_PER_MILLI), (decision.memory, NANO)):
        assert ledger is not None
        if ledger.batch > 0:
            # The result is rounded up to its unit, so it may stand less than one unit above.
            assert (ledger.batch - 1) * unit + ledger.margin + ledger.charged < ledger.capacity
        assert ledger.batch >= 0


@given(situations(), strategies, amounts)
def test_more_system_use_never_means_more_batch(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], resolved: Resolved, more: Amounts
) -> None:
    facts, report, pods = situation
    busier = UsageReport(report.updated_s, True, report.system.plus(more), report.host_applications, report.pods)
    before = batch_of(decide(facts, report, pods, resolved, NOW_S))
    after = batch_of(decide(facts, busier, pods, resolved, NOW_S))
    assert after[0] <= before[0]
    assert after[1] <= before[1]


@given(situations(), strategies, amounts)
def test_a_new_protected_pod_never_means_more_batch(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], resolved: Resolved, request: Amounts
) -> None:
    facts, report, pods = situation
    new = PodShare(("default", "new"), "node", True, True, False, request)
    before = batch_of(decide(facts, report, pods, resolved, NOW_S))
    after = batch_of(decide(facts, report, [*pods, new], resolved, NOW_S))
    assert after[0] <= before[0]
    assert after[1] <= before[1]


@given(situations(), strategies)
def test_batch_pods_change_nothing(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], resolved: Resolved
) -> None:
    facts, report, pods = situation
    protected_only = [pod for pod in pods if pod.protected or pod.key in report.pods]
    without = decide(facts, report, protected_only, resolved, NOW_S)
    assert batch_of(without) == batch_of(decide(facts, report, pods, resolved, NOW_S))


@given(situations(), st.integers(-3600, 3600 * 24))
def test_an_old_report_sells_nothing_whatever_it_says(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], age_s: int
) -> None:
    facts, report, pods = situation
    decision = decide(facts, report, pods, strategy_of(degradeTimeMinutes=15), NOW_S + age_s)
    assert (decision.published is None) == (age_s > 15 * 60)
    assert (decision.reason is Reason.REPORT_EXPIRED) == (age_s > 15 * 60)


@given(situations(), strategies)
def test_the_terms_of_a_decision_add_up_to_its_result(
    situation: tuple[NodeFacts, UsageReport, list[PodShare]], resolved: Resolved
) -> None:
    decision = decide(*situation, resolved, NOW_S)
    shown = {(term.resource, term.name): term for term in terms_of(decision) if term.tier is TierName.BATCH}
    assert decision.published is not None
    assert shown["cpu", "published"].amount == str(decision.published.cpu)
    assert shown["memory", "published"].amount == str(decision.published.memory)
    assert all(term.source for term in shown.values())
