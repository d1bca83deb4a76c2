"""What the NUMA zones of a topology object offer, and the patch that touches nothing else of it."""

import copy
import json
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koord.api import quantity
from koord.api.topology import NodeResourceTopology
from manager.overcommit import node_facts, pod_share
from manager.overcommit.amounts import Offer
from manager.overcommit.report import read_report
from manager.overcommit.write_rule import WriteReason
from manager.overcommit.zone_patch import ZoneWrite, read_zones, zone_write
from manager.overcommit.zones import offered_by_zones
from tests.manager.cases import BATCH, decided, metric, node, pod, strategy


def entry(name: str, amount: str) -> dict[str, str]:
    return {"name": name, "capacity": amount, "allocatable": amount, "available": amount}


def topology(*zones: list[dict[str, str]]) -> dict[str, Any]:
    listed = zones or ([entry("cpu", "16"), entry("memory", "32Gi")],) * 2
    return {
        "metadata": {"name": "n", "resourceVersion": "7"},
        "topologyPolicies": ["None"],
        "zones": [
            {"name": f"node-{index}", "type": "Node", "costs": [{"name": "x", "value": 10}], "resources": list(zone)}
            for index, zone in enumerate(listed)
        ],
    }


def typed(document: dict[str, Any]) -> NodeResourceTopology:
    return msgspec.convert(document, NodeResourceTopology)


def write(document: dict[str, Any], offers: list[Offer] | None, since_s: float = 1.0) -> ZoneWrite:
    return zone_write(typed(document), offers, 0.1, 300.0, since_s)


def applied(document: dict[str, Any], found: ZoneWrite) -> dict[str, Any]:
    result: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(document), list(found.operations))
    return result


def shown(document: dict[str, Any], zone: int) -> dict[str, str]:
    return {found["name"]: found["available"] for found in document["zones"][zone]["resources"]}


OFFERS = [Offer(4000, 2**30), Offer(500, 2**20)]


def test_each_zone_gets_its_two_entries_sorted_in_and_nothing_else_changes() -> None:
    before = topology([entry("cpu", "16"), entry("memory", "32Gi"), entry("z", "1")], [entry("memory", "32Gi")])
    found = write(before, OFFERS)
    assert found.reason is WriteReason.APPEARS
    after = applied(before, found)
    assert [each["name"] for each in after["zones"][0]["resources"]] == ["cpu", *BATCH, "memory", "z"]
    assert shown(after, 0)["kubernetes.io/batch-memory"] == "1Gi"
    for document in (before, after):
        for zone in document["zones"]:
            zone["resources"] = [each for each in zone["resources"] if each["name"] not in BATCH]
    assert before == after


def test_what_was_written_is_not_written_again() -> None:
    after = applied(topology(), write(topology(), OFFERS))
    assert write(after, OFFERS, 1e9) == ZoneWrite((), WriteReason.UNCHANGED)


def test_small_differences_are_corrected_when_they_are_due_and_large_ones_at_once() -> None:
    after = applied(topology(), write(topology(), OFFERS))
    close, far = [Offer(4100, 2**30), OFFERS[1]], [Offer(8000, 2**30), OFFERS[1]]
    assert write(after, close) == ZoneWrite((), WriteReason.BELOW_THRESHOLD, 299.0)
    overdue = write(after, close, 301.0)
    assert overdue.reason is WriteReason.OVERDUE
    assert shown(applied(after, overdue), 0)["kubernetes.io/batch-cpu"] == "4100"
    assert write(after, far).reason is WriteReason.MOVED


def test_degraded_or_disabled_zones_lose_their_entries() -> None:
    after = applied(topology(), write(topology(), OFFERS))
    found = write(after, None)
    assert found.reason is WriteReason.DISAPPEARS
    assert applied(after, found) == topology()
    assert write(topology(), None).operations == ()


def test_a_patch_is_of_the_state_that_was_looked_at() -> None:
    assert write(topology(), OFFERS).operations[0] == {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": "7",
    }


def test_objects_without_zones_of_cpu_or_memory_are_left_alone() -> None:
    problems: list[str] = []
    assert read_zones(typed(topology([entry("gpu", "1")])), problems) == []
    assert read_zones(typed({"metadata": {"name": "n"}}), problems) == []
    assert not problems
    zones = read_zones(typed(topology([entry("cpu", "lots")], [entry("cpu", "1")])), problems)
    assert [zone.allocatable.cpu for zone in zones] == [0, 10**9]
    assert "zone node-0" in problems[0]


def test_an_entry_that_cannot_be_read_is_replaced() -> None:
    document = topology([entry("cpu", "16"), entry(BATCH[0], "much")], [entry("cpu", "16")])
    assert shown(applied(document, write(document, OFFERS)), 0)["kubernetes.io/batch-cpu"] == "4k"


def offered(age_s: float = 0.0, normalization: float | None = None, **options: Any) -> list[Offer]:
    report = metric({"web": ("4", "4Gi")}, age_s=age_s)
    pinned = {"scheduling.koordinator.sh/resource-status": json.dumps({"numaNodeResources": [{"node": 1}]})}
    web = pod("web", annotations=pinned)
    decision = decided(node(), report, web, resolved=strategy(**options), normalization=normalization)
    zones = read_zones(typed(topology()), [])
    shares = [pod_share.derive(web)]
    return offered_by_zones(zones, node_facts.derive(node()), read_report(report), shares, decision)


def test_a_pinned_pod_is_charged_to_its_zone() -> None:
    free, taken = offered()
    assert free.cpu - taken.cpu == 4000


def test_zones_follow_the_node_down_when_its_offer_is_cut() -> None:
    assert [zone.cpu for zone in offered(age_s=540)] == [zone.cpu // 2 for zone in offered()]
    assert [zone.cpu for zone in offered(normalization=1.5)] == [int(zone.cpu * 1.5) for zone in offered()]


@given(st.integers(0, 900), st.sampled_from([None, 1.0, 1.33, 5.0]))
def test_zones_of_an_evenly_split_node_never_offer_more_than_the_node(age_s: int, ratio: float | None) -> None:
    report = metric(age_s=age_s)
    decision = decided(node(), report, normalization=ratio)
    zones = read_zones(typed(topology()), [])
    found = offered_by_zones(zones, node_facts.derive(node()), read_report(report), (), decision)
    assert decision.published is not None
    assert sum(zone.cpu for zone in found) <= decision.published.cpu + len(found)
    assert sum(zone.memory for zone in found) <= decision.published.memory + len(found)
    assert all(quantity.format_value(zone.cpu) for zone in found)
