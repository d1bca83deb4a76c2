"""The manager against a real API server: what it writes, when, and what it leaves alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from koord.api import names, quantity
from koord.api.objects import JsonObject
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.resources import EVENTS, NODE_METRICS, NODES, Resource
from manager import metrics
from manager.control.controller import RAW_NODE_SLOS, Controller
from tests.manager.fleet import CONFIG_NAMESPACE, Fleet, eventually

ON = {"enable": True, "metricReportIntervalSeconds": 2}
RunManager = Callable[..., Any]


async def wait_decided(controller: Controller, node: str, system_cores: int) -> None:
    """Until the manager has decided on a report with this system usage."""

    async def decided() -> bool:
        decision = controller.resources.decision(node)
        return (
            decision is not None
            and decision.cpu is not None
            and (decision.cpu.system_measured == system_cores * 10**9)
        )

    await eventually(decided, f"Node/{node} is decided with system usage {system_cores}")


async def exists(client: Client, resource: Resource[Any], name: str) -> bool:
    try:
        await client.get(resource, name)
    except NotFound:
        return False
    return True


def writes() -> float:
    """What managers in this process have written so far. (Others write to nodes too: controllers, kubelets.)"""
    return sum(
        sample.value
        for family in metrics.WRITES.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


async def test_a_node_gets_its_objects_and_loses_them_with_itself(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(
        colocation_config=ON,
        resource_threshold_config={"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 55}},
    )
    async with run_manager():
        node = await fleet.add_node()

        async def rendered() -> JsonObject | None:
            if not await exists(client, NODE_METRICS, node) or not await exists(client, RAW_NODE_SLOS, node):
                return None
            return await client.get(RAW_NODE_SLOS, node)

        slo = await eventually(rendered, "NodeMetric and NodeSLO exist")
        metric = await client.get(NODE_METRICS, node)
        assert slo["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 55
        assert metric.spec.metric_collect_policy is not None
        assert metric.spec.metric_collect_policy.report_interval_seconds == 2

        await client.delete(NODES, node)

        async def gone() -> bool:
            return not await exists(client, NODE_METRICS, node) and not await exists(client, RAW_NODE_SLOS, node)

        await eventually(gone, "NodeMetric and NodeSLO are gone")


async def test_a_changed_spec_is_put_right_and_what_others_stored_is_kept(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await client.patch(NODE_METRICS, node, {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 7}}})
        foreign = {"resourceUsedThresholdWithBE": {"enable": True}, "extensions": {"Object": {"theirs": {"a": 1}}}}

        async def patched() -> bool:
            try:
                await client.patch(RAW_NODE_SLOS, node, {"spec": foreign})
            except NotFound:
                return False
            return True

        await eventually(patched, "NodeSLO exists")

        async def right() -> bool:
            metric = await client.get(NODE_METRICS, node)
            slo = await client.get(RAW_NODE_SLOS, node)
            policy = metric.spec.metric_collect_policy
            return (
                policy is not None
                and policy.report_interval_seconds == 2
                and slo["spec"]["resourceUsedThresholdWithBE"]["enable"] is False
                and slo["spec"]["extensions"]["Object"]["theirs"] == {"a": 1}
            )

        await eventually(right, "both specs are as configured")


async def test_batch_resources_follow_the_reports(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        pod = await fleet.bind_pod(node, cpu="10")
        await fleet.report(node, system="1", pods={pod: "4"})
        await fleet.wait_batch_cpu(node, "14200")  # 32 - 12.8 - 1 - 4
        shown = await fleet.node(node)
        assert shown.status.allocatable["cpu"] == "32"
        assert "14200" in shown.metadata.annotations[names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE]

        await fleet.report(node, system="1", pods={pod: "9"})
        await fleet.wait_batch_cpu(node, "9200")


async def test_a_newly_bound_production_pod_counts_before_any_report(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node, system="1")
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.bind_pod(node, cpu="10")
        await fleet.wait_batch_cpu(node, "8200")


async def test_nothing_is_written_while_nothing_changes(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager() as controller:
        node = await fleet.add_node()
        await fleet.report(node, system="1")
        await fleet.wait_batch_cpu(node, "18200")

        async def all_created() -> bool:
            return await exists(client, RAW_NODE_SLOS, node)

        await eventually(all_created, "NodeSLO exists")
        before = writes()
        for age_s in range(5, 0, -1):
            await fleet.report(node, system="1", age_s=age_s)
        # The last report differs by less than the threshold: seen, but not worth a write yet.
        await fleet.report(node, system="2")
        await wait_decided(controller, node, 2)
        assert writes() == before
        assert await fleet.batch_cpu(node) == "18200"


async def test_a_small_difference_is_written_when_it_is_due(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config={**ON, "updateTimeThresholdSeconds": 1})
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node, system="1")
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.report(node, system="2")
        await fleet.wait_batch_cpu(node, "17200")


async def test_an_expired_report_removes_batch_resources_without_any_event(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    cliff = {"koord": {"staleReports": {"mode": "cliff"}}}
    await fleet.configure(colocation_config={**ON, "degradeTimeMinutes": 1, "extensions": cliff})
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node, age_s=57)
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.wait_batch_cpu(node, None)

        async def told() -> bool:
            found = await client.list(EVENTS, "default", field_selector=f"involvedObject.name={node}")
            return any("too old" in event["message"] for event in found.items)

        await eventually(told, "an Event on the node says why")


async def test_without_news_an_offer_holds_then_decays_then_goes(fleet: Fleet, run_manager: RunManager) -> None:
    graded = {"koord": {"staleReports": {"holdSeconds": 55}}}
    await fleet.configure(colocation_config={**ON, "degradeTimeMinutes": 1, "extensions": graded})
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node, age_s=52)
        await fleet.wait_batch_cpu(node, "18200")
        seen: list[str | None] = ["18200"]

        async def gone() -> bool:
            shown = await fleet.batch_cpu(node)
            if shown != seen[-1]:
                seen.append(shown)
            return shown is None

        await eventually(gone, "the offer is gone")
        amounts = [quantity.value(text) for text in seen if text is not None]
        assert len(amounts) > 2
        assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize("how", ["cluster", "node"])
async def test_switching_colocation_off_removes_batch_resources(
    fleet: Fleet, run_manager: RunManager, how: str
) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
        if how == "cluster":
            await fleet.configure(colocation_config={"enable": False})
        else:
            annotations = {names.ANNOTATION_COLOCATION_STRATEGY: '{"enable": false}'}
            await fleet.client.patch(NODES, node, {"metadata": {"annotations": annotations}})
        await fleet.wait_batch_cpu(node, None)
        assert (await fleet.node(node)).status.allocatable["memory"] == "64Gi"


async def test_a_broken_key_keeps_the_last_good_one_and_an_event_says_so(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config={**ON, "cpuReclaimThresholdPercent": 50})
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "15k")
        await fleet.configure(
            colocation_config='{"enable": true, "cpuReclaimThresholdPercent": "sixty"}',
            resource_threshold_config={"clusterStrategy": {"enable": True}},
        )

        async def told() -> bool:
            selector = f"involvedObject.name={fleet.config_name}"
            found = await client.list(EVENTS, CONFIG_NAMESPACE, field_selector=selector)
            return any(
                event["reason"] == "ColocationCfgUnmarshalFailed" and "'sixty'" in event["message"]
                for event in found.items
            )

        await eventually(told, "an Event on the ConfigMap names the value")

        async def other_key_advanced() -> bool:
            slo = await client.get(RAW_NODE_SLOS, node)
            return bool(slo["spec"]["resourceUsedThresholdWithBE"]["enable"])

        await eventually(other_key_advanced, "the other key is in force")
        assert await fleet.batch_cpu(node) == "15k"


async def test_a_node_without_an_agent_is_left_alone(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager() as controller:
        plain = await fleet.add_node()

        async def decided() -> bool:
            return controller.resources.decision(plain) is not None

        await eventually(decided, "the node is decided")
        node = await fleet.node(plain)
        assert names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE not in node.metadata.annotations
        assert names.BATCH_CPU not in node.status.capacity


async def test_one_node_that_cannot_be_written_holds_up_no_other(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager(writes_at_once=1):
        nodes = [await fleet.add_node() for _ in range(5)]
        for node in nodes:
            await fleet.report(node)
        # A node that vanishes between decision and write answers 404 to it.
        await fleet.client.delete(NODES, nodes[0])
        for node in nodes[1:]:
            await fleet.wait_batch_cpu(node, "18200")


async def test_a_write_that_had_to_wait_writes_what_is_right_by_then(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        nodes = [await fleet.add_node() for _ in range(5)]
        await asyncio.gather(*(fleet.report(node, age_s=3600) for node in nodes))
    before = writes()
    async with run_manager(writes_per_s=2.0, write_burst=1) as controller:
        await asyncio.gather(*(fleet.report(node) for node in nodes))

        async def all_decided() -> bool:
            decisions = [controller.resources.decision(node) for node in nodes]
            return all(decision is not None and decision.published is not None for decision in decisions)

        await eventually(all_decided, "all nodes wait for their turn")
        await fleet.configure(colocation_config={**ON, "enable": False})

        async def all_off() -> bool:
            decisions = [controller.resources.decision(node) for node in nodes]
            shown = [await fleet.batch_cpu(node) for node in nodes]
            return all(decision is not None and decision.published is None for decision in decisions) and not any(
                shown
            )

        await eventually(all_off, "no node shows batch resources")
        # Five nodes written and then cleaned again would be ten; the policies are written back too.
        assert writes() - before < 2 * len(nodes) + len(nodes)
        assert not any([await fleet.batch_cpu(node) for node in nodes])


async def test_a_restarted_manager_finds_everything_as_it_left_it(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
    before = writes()
    async with run_manager() as controller:
        await wait_decided(controller, node, 1)
        await fleet.report(node, system="2")
        await wait_decided(controller, node, 2)
    assert writes() == before
