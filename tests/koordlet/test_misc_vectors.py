"""Recorded cases of the agent's other arithmetic."""

from typing import Any

import pytest

from koord.api.qos import KubeQoS
from koordlet import batch
from koordlet.batch import BatchContainer
from koordlet.sampling.series import is_covered, wire_percentile
from koordlet.sysfs.knobs import Knob
from koordlet.sysfs.layout import Driver, Layout
from koordlet.sysfs.ordering import Change, order_writes

Case = dict[str, Any]
EXPECTED_TO_COME = {
    "l3_mask": "resctrl",
    "mba": "resctrl",
    "host_dir": "host applications",
}


def shares(given: Case, expect: Case) -> None:
    assert batch.shares_of(given["request_milli"]) == expect["shares"]


def weight(given: Case, expect: Case) -> None:
    assert batch.weight_of(given["shares"]) == expect["weight"]


def quota(given: Case, expect: Case) -> None:
    assert batch.quota_of(given["limit_milli"]) == expect["quota_us"]


def containers(given: Case) -> list[BatchContainer]:
    return [
        BatchContainer(str(number), one.get("request_milli"), one.get("limit_milli"), one.get("memory_limit_bytes"))
        for number, one in enumerate(given.get("containers", [given.get("container", given)]))
    ]


def batch_limits(given: Case, expect: Case) -> None:
    found = batch.pod_limits(
        containers(given),
        quota_allowed=given.get("quota_allowed", True),
        normalization_ratio=given.get("normalization_ratio", 1.0),
    )
    assert {"shares": found.shares, "quota_us": found.quota_us, "memory_limit_bytes": found.memory_bytes} == expect


def percentile(given: Case, expect: Case) -> None:
    assert wire_percentile(sorted(given["samples"]), given["p"]) == expect["value"]


def window(given: Case, expect: Case) -> None:
    assert is_covered(given["first_to_last_sample_seconds"], given["window_seconds"]) == expect["reported"]


def cgroup_path(given: Case, expect: Case) -> None:
    layout, qos = Layout(Driver(given["driver"])), KubeQoS(given["kube_qos"])
    container = given.get("container_id")
    if not given.get("uid"):
        found = layout.class_dir(qos)
    elif container:
        found = layout.container_dir(qos, given["uid"], container)
    else:
        found = layout.pod_dir(qos, given["uid"])
    assert found == expect["path"]


MERGED_KNOB = {"keep larger": Knob.MEMORY, "quota looser": Knob.QUOTA}


def merge(given: Case, expect: Case) -> None:
    change = Change("group", MERGED_KNOB[given["rule"]], given["current"], given["wanted"])
    writes = order_writes([change])
    expected = [value for value in (expect["pass1"], expect["pass2"]) if value is not None]
    assert [write.value for write in writes] == expected
    assert [write.is_final for write in writes] == [True]


RUNNERS = {
    "shares": shares,
    "weight": weight,
    "quota": quota,
    "batch_pod": batch_limits,
    "batch_container": batch_limits,
    "percentile": percentile,
    "window": window,
    "cgroup_path": cgroup_path,
    "merge": merge,
}


@pytest.mark.vectors("misc")
def test_arithmetic_matches_the_recorded_case(vector: Case) -> None:
    kind = vector["kind"]
    if kind in EXPECTED_TO_COME:
        pytest.skip(f"expected to come: {EXPECTED_TO_COME[kind]}")
    RUNNERS[kind](vector["input"], vector["expect"])
