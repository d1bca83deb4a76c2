"""QoS and priority: derivation and defaulting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import names
from koord.api.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus, ResourceList, ResourceRequirements
from koord.api.pod_resources import limits_nano, requests_nano
from koord.api.priority import BANDS, PriorityBand, band_of_value, defaulted_class, defaulted_value, raw_class
from koord.api.qos import KubeQoS, QoSClass, computed_kube_qos, defaulted_qos, raw_qos

GIB = 1024**3 * 10**9
CPU = 10**9


def container(requests: ResourceList | None = None, limits: ResourceList | None = None, **more: str) -> Container:
    return Container(resources=ResourceRequirements(requests or {}, limits or {}), **more)


def pod(*containers: Container, labels: dict[str, str] | None = None, priority: int | None = None) -> Pod:
    return Pod(metadata=ObjectMeta(labels=labels or {}), spec=PodSpec(containers=containers, priority=priority))


@pytest.mark.parametrize("spelling", ["be", "Be", "", "LSX"])
def test_a_misspelt_qos_label_reads_as_none(spelling: str) -> None:
    assert raw_qos({names.LABEL_QOS: spelling}) is None


FULL: ResourceList = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container()], KubeQoS.BEST_EFFORT),
        ([container({"cpu": "0"})], KubeQoS.BEST_EFFORT),
        ([container({names.BATCH_CPU: "1k"}, {names.BATCH_CPU: "1k"})], KubeQoS.BEST_EFFORT),
        ([container(FULL, FULL)], KubeQoS.GUARANTEED),
        ([container({"cpu": "1000m", "memory": "1024Mi"}, FULL)], KubeQoS.GUARANTEED),
        ([container({}, FULL)], KubeQoS.BURSTABLE),
        ([container(FULL, FULL), container()], KubeQoS.BURSTABLE),
        ([container({"cpu": "1"}, {"cpu": "1"})], KubeQoS.BURSTABLE),
        ([container(FULL, {"cpu": "2", "memory": "1Gi"})], KubeQoS.BURSTABLE),
    ],
)
def test_kubernetes_class_is_computed_from_cpu_and_memory_only(
    containers: list[Container], expected: KubeQoS
) -> None:
    assert computed_kube_qos(PodSpec(containers=tuple(containers))) is expected


def test_pod_level_resources_alone_decide_the_class_when_present() -> None:
    spec = PodSpec(containers=(container(),), resources=ResourceRequirements(FULL, FULL))
    assert computed_kube_qos(spec) is KubeQoS.GUARANTEED


@pytest.mark.parametrize(
    ("containers", "expected"),
    [([container(FULL, FULL)], QoSClass.LSR), ([container(FULL)], QoSClass.LS), ([container()], QoSClass.BE)],
)
def test_without_a_label_the_kubernetes_class_decides(containers: list[Container], expected: QoSClass) -> None:
    assert defaulted_qos(pod(*containers)) is expected


def test_the_class_in_the_status_wins_over_the_computed_one() -> None:
    running = Pod(spec=PodSpec(containers=(container(FULL),)), status=PodStatus(qos_class="BestEffort"))
    assert defaulted_qos(running) is QoSClass.BE


@pytest.mark.parametrize(
    ("value", "band"),
    [
        (9000, "koord-prod"), (9999, "koord-prod"), (7000, "koord-mid"), (7999, "koord-mid"), (5000, "koord-batch"),
        (5999, "koord-batch"), (3000, "koord-free"), (3999, "koord-free"), (None, ""), (0, ""), (-1, ""), (2999, ""),
        (4000, ""), (4999, ""), (6000, ""), (8500, ""), (10000, ""), (2000000000, ""),
    ],
)  # fmt: skip
def test_the_bands_have_inclusive_bounds_and_gaps(value: int | None, band: str) -> None:
    assert band_of_value(value) == band


def test_the_label_decides_the_class_and_a_misspelt_one_hides_the_number() -> None:
    assert raw_class({names.LABEL_PRIORITY_CLASS: "koord-mid"}, 5500) is PriorityBand.MID
    assert raw_class({names.LABEL_PRIORITY_CLASS: "koord-bach"}, 5500) is PriorityBand.NONE


@pytest.mark.parametrize("qos", list(QoSClass))
def test_a_pod_without_a_class_gets_it_from_its_qos(qos: QoSClass) -> None:
    expected = PriorityBand.BATCH if qos is QoSClass.BE else PriorityBand.PROD
    assert defaulted_class(pod(labels={names.LABEL_QOS: qos})) is expected


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_pod_has_a_class_and_a_value(priority: int) -> None:
    subject = pod(container(FULL), priority=priority)
    assert defaulted_class(subject) in BANDS
    assert defaulted_value(subject) == (priority or 9500)


def test_the_scheduling_total_counts_sidecars_init_peak_and_overhead() -> None:
    spec = PodSpec(
        containers=(container({"cpu": "1"}), container({"cpu": "2", "memory": "1Gi"})),
        init_containers=(
            container({"cpu": "500m"}, restart_policy="Always"),
            container({"cpu": "4", "memory": "512Mi"}),
            container({"cpu": "250m"}, restart_policy="Always"),
        ),
        overhead={"cpu": "100m"},
    )
    # containers + sidecars = 3.75; the init phase peaks at 4 + the sidecar declared before it = 4.5
    assert requests_nano(spec) == {"cpu": 4600 * CPU // 1000, "memory": GIB}


def test_pod_level_requests_replace_the_sum() -> None:
    spec = PodSpec(
        containers=(container({"cpu": "1", "example.com/gpu": "1"}),),
        resources=ResourceRequirements({"cpu": "3", "hugepages-2Mi": "4Mi"}),
    )
    assert requests_nano(spec) == {"cpu": 3 * CPU, "example.com/gpu": CPU, "hugepages-2Mi": 4 * 1024**2 * CPU}


def test_overhead_raises_only_limits_that_exist() -> None:
    spec = PodSpec(containers=(container(limits={"cpu": "1"}),), overhead={"cpu": "100m", "memory": "1Gi"})
    assert limits_nano(spec) == {"cpu": 1100 * CPU // 1000}


AMOUNTS = st.integers(0, 8000)


@given(st.lists(AMOUNTS, max_size=4), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4))
def test_the_total_covers_the_running_phase_and_every_moment_of_the_init_phase(
    apps: list[int], inits: list[tuple[int, bool]]
) -> None:
    spec = PodSpec(
        containers=tuple(container({"cpu": f"{milli}m"}) for milli in apps),
        init_containers=tuple(
            container({"cpu": f"{milli}m"}, **({"restart_policy": "Always"} if sidecar else {}))
            for milli, sidecar in inits
        ),
    )
    moments = [sum(apps) + sum(milli for milli, sidecar in inits if sidecar)]
    for index, (milli, _) in enumerate(inits):
        moments.append(milli + sum(other for other, sidecar in inits[:index] if sidecar))
    assert requests_nano(spec).get("cpu", 0) == max(moments) * CPU // 1000
