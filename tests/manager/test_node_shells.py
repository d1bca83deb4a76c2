"""What the manager writes to nodes and topology objects beside batch resources, against a real API server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from koord.api import names, quantity
from koord.kube.client import Client
from koord.kube.resources import DEVICES, EVENTS, NODE_RESOURCE_TOPOLOGIES, NODES
from manager.control.controller import Controller
from manager.control.recording import Recording
from manager.overcommit.shortage import CONDITIONS, TierName
from tests.manager.fleet import CONFIG_NAMESPACE, Fleet, eventually

ON = {"enable": True, "metricReportIntervalSeconds": 2}
RunManager = Callable[..., Any]
ZONE = [{"name": "cpu", "capacity": "16", "allocatable": "16", "available": "16"}]


def zone(name: str) -> dict[str, Any]:
    return {"name": name, "type": "Node", "costs": [{"name": "x", "value": 10}], "resources": ZONE}


async def events(client: Client, name: str) -> list[dict[str, Any]]:
    found = await client.list(EVENTS, "default", field_selector=f"involvedObject.name={name}")
    return list(found.items)


async def test_mid_resources_are_offered_beside_batch(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node, reclaimable={"cpu": "3", "memory": "5Gi"})
        await fleet.wait_allocatable(node, names.MID_CPU, "3k")
        assert await fleet.allocatable(node, names.MID_MEMORY) == "5Gi"
        await fleet.configure(colocation_config={**ON, "midReclaimMode": "static", "midStaticCPUReservedPercent": 50})
        await fleet.wait_allocatable(node, names.MID_CPU, "16k")
        await fleet.configure(colocation_config={"enable": False})
        await fleet.wait_allocatable(node, names.MID_CPU, None)


async def test_zones_are_written_follow_and_are_emptied(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config=ON)

    async def shown(name: str) -> list[str | None]:
        topology = await client.get(NODE_RESOURCE_TOPOLOGIES, name)
        return [
            next((str(entry.available) for entry in one.resources if entry.name == names.BATCH_CPU), None)
            for one in topology.zones
        ]

    async def wait_shown(name: str, wanted: list[str | None]) -> None:
        async def is_shown() -> bool:
            return await shown(name) == wanted

        await eventually(is_shown, f"zones of {name} show {wanted}")

    async with run_manager():
        node = await fleet.add_node()
        await fleet.create(NODE_RESOURCE_TOPOLOGIES, node, zones=[zone("node-0"), zone("node-1")])
        await fleet.report(node, system="2")
        await wait_shown(node, ["8600", "8600"])  # 16 - 6.4 - 1
        await fleet.report(node, system="6")
        await wait_shown(node, ["6600", "6600"])
        kept = await client.request("GET", f"/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/{node}")
        assert json.loads(kept)["zones"][0]["costs"] == [{"name": "x", "value": 10}]
        await fleet.configure(colocation_config={"enable": False})
        await wait_shown(node, [None, None])


async def test_the_cpus_ratio_scales_batch_cpu_and_goes_into_the_annotations(
    fleet: Fleet, run_manager: RunManager
) -> None:
    ratio = {"enable": True, "ratioModel": {"fast": {"baseRatio": 1.5}}}
    await fleet.configure(
        colocation_config=ON,
        cpu_normalization_config=ratio,
        resource_amplification_config={"enable": True, "resourceAmplificationRatio": {"memory": 2}},
    )
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")

        async def told() -> bool:
            return any("which CPU" in event["message"] for event in await events(fleet.client, node))

        await eventually(told, "an Event says that the CPU is not known")
        await fleet.create(NODE_RESOURCE_TOPOLOGIES, node, zones=[zone("node-0")])
        annotation = {names.ANNOTATION_CPU_BASIC_INFO: '{"cpuModel": "fast"}'}
        await fleet.client.patch(NODE_RESOURCE_TOPOLOGIES, node, {"metadata": {"annotations": annotation}})
        await fleet.wait_batch_cpu(node, "27300")
        shown = (await fleet.node(node)).metadata.annotations
        assert shown[names.ANNOTATION_CPU_NORMALIZATION_RATIO] == "1.50"
        assert shown[names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO] == '{"cpu":1.50,"memory":2.00}'


async def test_devices_of_a_node_become_resources_and_labels(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config={"enable": False})
    card = {"type": "gpu", "health": True, "resources": {names.GPU_CORE: "100", names.GPU_MEMORY: "16Gi"}}
    async with run_manager():
        node = await fleet.add_node()
        await fleet.create(DEVICES, node, spec={"devices": [card, card]})
        await fleet.wait_allocatable(node, names.GPU_CORE, "200")
        assert await fleet.allocatable(node, names.GPU_MEMORY) == "32Gi"
        labels = {names.LABEL_GPU_MODEL: "M"}
        changed = {"metadata": {"labels": labels}, "spec": {"devices": [card, {**card, "health": False}]}}
        await client.patch(DEVICES, node, changed)
        await fleet.wait_allocatable(node, names.GPU_CORE, "100")
        assert (await fleet.node(node)).metadata.labels[names.LABEL_GPU_MODEL] == "M"
        await client.delete(DEVICES, node)
        await fleet.wait_allocatable(node, names.GPU_CORE, None)


async def test_less_than_running_pods_hold_is_said_by_a_condition_and_an_event(
    client: Client, fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config=ON)

    async def condition(node: str) -> tuple[str, str] | None:
        for found in (await client.get(NODES, node)).status.conditions:
            if found.type == CONDITIONS[TierName.BATCH]:
                return found.status, found.message
        return None

    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.bind_pod(node, "15000", "BE", names.BATCH_CPU)
        assert await condition(node) is None
        await fleet.report(node, system="9")
        await fleet.wait_batch_cpu(node, "10200")

        async def is_short() -> bool:
            found = await condition(node)
            return found is not None and found[0] == "True" and "hold 15k, 10200 is offered" in found[1]

        await eventually(is_short, "the condition says what is short")
        await fleet.report(node)

        async def is_covered() -> bool:
            found = await condition(node)
            return found is not None and found[0] == "False"

        await eventually(is_covered, "the condition says that it is over")

        async def told() -> set[str]:
            reasons = {event["reason"] for event in await events(client, node)}
            return reasons & {"BatchResourcesShort", "ResourcesCovered"}

        async def both() -> bool:
            return len(await told()) == 2

        await eventually(both, "Events say both")


async def test_growth_is_damped_and_shrinking_is_not(fleet: Fleet, run_manager: RunManager) -> None:
    damping = {"koord": {"damping": {"growthPercentPerMinute": 20}}}
    strategy = {**ON, "extensions": damping, "updateTimeThresholdSeconds": 3600}
    await fleet.configure(colocation_config=strategy)
    async with run_manager() as controller:
        node = await fleet.add_node()
        await fleet.report(node, system="1")
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.report(node, system="10")
        await fleet.wait_batch_cpu(node, "9200")
        await fleet.report(node, system="1")

        async def damped() -> bool:
            decision = controller.resources.decision(node)
            return decision is not None and any(cut.by == "damping" for cut in decision.cuts)

        await eventually(damped, "growth is held back")
        shown = await fleet.batch_cpu(node)
        assert shown is not None
        assert quantity.value(shown) < 12000


async def test_peak_policies_use_what_a_node_reported_before(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config={**ON, "extensions": {"koord": {"peak": {"sigmas": 1}}}})
    async with run_manager() as controller:
        node = await fleet.add_node()
        for age_s, system in ((8, "1"), (6, "9"), (2, "1")):
            await fleet.report(node, system=system, age_s=age_s)

            async def decided(cores: str = system) -> bool:
                return _system_cores(controller, node) == int(cores)

            await eventually(decided, f"the report of {system} cores is decided")
        decision = controller.resources.decision(node)
        assert decision is not None
        assert decision.calculation is not None
        # 1, 9 and 1 cores: mean 3.67, deviation 3.77, of which 1 is used now.
        assert decision.calculation.burst.amounts.cpu == pytest.approx(6.438 * 10**9, abs=10**6)


async def test_a_node_that_others_write_all_the_time_is_written_too(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        stop = asyncio.Event()

        async def kubelet() -> int:
            beats = 0
            while not stop.is_set():
                beats += 1
                status = {"status": {"capacity": {"ephemeral-storage": str(beats)}}}
                await fleet.client.patch(NODES, node, status, subresource="status")
                await asyncio.sleep(0.02)  # fifty times a second, a thousand times what kubelets do
            return beats

        heart = asyncio.create_task(kubelet())
        try:
            for system, wanted in (("1", "18200"), ("5", "14200"), ("9", "10200")):
                await fleet.report(node, system=system)
                await fleet.wait_batch_cpu(node, wanted)
        finally:
            stop.set()
            assert await heart > 0


async def test_nothing_is_written_without_the_lease(fleet: Fleet, run_manager: RunManager) -> None:
    await fleet.configure(colocation_config=ON)
    leading = True
    async with run_manager(may_write=lambda: leading) as controller:
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
        leading = False
        await fleet.report(node, system="9")

        async def decided() -> bool:
            return _system_cores(controller, node) == 9

        await eventually(decided, "the new report is decided")
        assert await fleet.batch_cpu(node) == "18200"
        leading = True
        await fleet.wait_batch_cpu(node, "10200")


def _system_cores(controller: Controller, node: str) -> float:
    decision = controller.resources.decision(node)
    return 0.0 if decision is None or decision.cpu is None else decision.cpu.system_measured / 10**9


async def test_a_restart_within_the_update_interval_knows_when_the_node_was_written(
    fleet: Fleet, run_manager: RunManager
) -> None:
    await fleet.configure(colocation_config={**ON, "updateTimeThresholdSeconds": 3600})
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
    noted = json.loads((await fleet.node(node)).metadata.annotations[names.ANNOTATION_LAST_OFFER])
    assert noted["why"] == "appears"
    async with run_manager() as controller:
        await fleet.report(node, system="2")

        async def decided() -> bool:
            return _system_cores(controller, node) == 2

        await eventually(decided, "the small difference is decided")
        assert await fleet.batch_cpu(node) == "18200"


# The configuration across restarts


async def config_map(fleet: Fleet, suffix: str = "-last-good") -> dict[str, str] | None:
    from koord.kube.errors import NotFound
    from koord.kube.resources import CONFIGMAPS

    try:
        return (await fleet.client.get(CONFIGMAPS, fleet.config_name + suffix, CONFIG_NAMESPACE)).data
    except NotFound:
        return None


async def wait_stored(fleet: Fleet, **texts: Any) -> None:
    wanted = {key.replace("_", "-"): json.dumps(value) for key, value in texts.items()}

    async def stored() -> bool:
        return await config_map(fleet) == wanted

    await eventually(stored, f"stored as last good: {wanted}")


async def test_a_restart_beside_a_broken_key_goes_on_with_the_last_good_one(
    fleet: Fleet, run_manager: RunManager
) -> None:
    good = {**ON, "cpuReclaimThresholdPercent": 50}
    await fleet.configure(colocation_config=good)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "15k")
        await wait_stored(fleet, colocation_config=good)
        await fleet.configure(colocation_config="{", cpu_burst_config={"clusterStrategy": {"policy": "auto"}})
        await wait_stored(fleet, colocation_config=good, cpu_burst_config={"clusterStrategy": {"policy": "auto"}})
    async with run_manager() as controller:
        await fleet.report(node, system="5")
        await fleet.wait_batch_cpu(node, "11k")
        (fault,) = controller.config.current().faults
        assert "stored before a restart" in fault.kept

        async def told() -> bool:
            found = await fleet.client.list(
                EVENTS, CONFIG_NAMESPACE, field_selector=f"involvedObject.name={fleet.config_name}"
            )
            return any("stored before a restart" in event["message"] for event in found.items)

        await eventually(told, "an Event says what is in force")


async def test_a_deleted_configuration_stays_in_force_also_across_restarts(
    fleet: Fleet, run_manager: RunManager
) -> None:
    from koord.kube.resources import CONFIGMAPS

    await fleet.configure(colocation_config=ON)
    async with run_manager():
        node = await fleet.add_node()
        await fleet.report(node)
        await fleet.wait_batch_cpu(node, "18200")
        await wait_stored(fleet, colocation_config=ON)
        await fleet.client.delete(CONFIGMAPS, fleet.config_name, CONFIG_NAMESPACE)

        async def told() -> bool:
            selector = f"involvedObject.name={fleet.config_name}"
            found = await fleet.client.list(EVENTS, CONFIG_NAMESPACE, field_selector=selector)
            return any(event["reason"] == "ConfigurationDeleted" for event in found.items)

        await eventually(told, "an Event says so")
    async with run_manager():
        await fleet.report(node, system="5")
        await fleet.wait_batch_cpu(node, "14200")
        await fleet.configure(colocation_config={"enable": False})
        await fleet.wait_batch_cpu(node, None)


# The recording


async def test_decisions_are_recorded_for_graphs(fleet: Fleet, run_manager: RunManager, tmp_path: Path) -> None:
    await fleet.configure(colocation_config=ON)
    recording = Recording(tmp_path / "decisions.jsonl", most_bytes=10**6)
    async with run_manager(recording=recording):
        node = await fleet.add_node()
        await fleet.bind_pod(node, "15000", "BE", names.BATCH_CPU)
        await fleet.report(node, system="1")
        await fleet.wait_batch_cpu(node, "18200")
        await fleet.report(node, system="20")
        await fleet.wait_batch_cpu(node, "0")
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    ours = [line for line in lines if line["node"] == node and line["reason"] == "calculated"]
    first = next(line for line in ours if line["batch_offered"][0] == 18200)
    assert first["production_used"][0] == 1000
    assert first["batch_held"][0] == 15000
    assert first["violated"] == [0, 0]
    last = ours[-1]
    assert last["batch_offered"][0] == 0
    assert last["violated"][0] == 3000


def test_a_full_recording_is_turned_over_and_a_broken_disk_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording(tmp_path / "d.jsonl", most_bytes=25)
    for number in range(4):
        recording._write([b'{"line": %d}\n' % number])
    assert (tmp_path / "d.jsonl.1").read_text() == '{"line": 0}\n{"line": 1}\n'
    assert (tmp_path / "d.jsonl").read_text() == '{"line": 2}\n{"line": 3}\n'
    Recording(tmp_path / "missing" / "d.jsonl", most_bytes=25)._write([b"x\n"])
    assert "1 lines are lost" in caplog.text
