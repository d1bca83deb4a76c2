"""What the demo found, as values: the one object that the table, the JSON and the HTML report read. Pure."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from sandbox.demo.statistics import median, median_of_ratios

JsonObject = dict[str, Any]


class PhaseName(StrEnum):
    """How the batch pods ran beside the service."""

    ALONE = "alone"
    PLAIN = "plain"
    KOORD = "koord"


class CpuUse(msgspec.Struct, frozen=True):
    """Mean CPUs in use over a window, by whom.

    `cluster` is what stands for the rest of Kubernetes here (API server, binder, kubelet, this demo),
    `components` is Koord itself (webhook, manager, koordlet), `outside` every other process of the
    machine, `steal` what the hypervisor took. All parts add up to `cpus` up to sampling error.
    """

    cpus: int
    seconds: float
    service: float
    batch: float
    generator: float
    components: float
    cluster: float
    outside: float
    steal: float
    idle: float

    @property
    def use_ratio(self) -> float:
        """The share of the machine that was busy, 0-1."""
        return min(1.0, max(0.0, 1 - (self.idle + self.steal) / self.cpus))

    @property
    def batch_share_of_idle(self) -> float | None:
        """Of the CPU that the service left idle, the share that batch pods used; Koord's own use counts as lost."""
        left = self.batch + self.idle + self.components
        return self.batch / left if left > 0 else None


class Phase(msgspec.Struct, frozen=True):
    """One measured window. Work and requests are counts within it; batch work is in blocks hashed."""

    name: PhaseName
    began_s: float
    cpu: CpuUse
    p50_ms: float
    p99_ms: float
    requests: int
    errors: int
    batch_work: int
    latencies_ms: tuple[float, ...] = ()

    @property
    def ended_s(self) -> float:
        """End of the window on the run's clock, seconds."""
        return self.began_s + self.cpu.seconds


class Round(msgspec.Struct, frozen=True):
    """The three phases measured one after the other, and why they may not be trusted (empty: quiet)."""

    alone: Phase
    plain: Phase
    koord: Phase
    noise: tuple[str, ...] = ()

    def phase(self, name: PhaseName) -> Phase:
        """The phase of that name."""
        phases = {PhaseName.ALONE: self.alone, PhaseName.PLAIN: self.plain, PhaseName.KOORD: self.koord}
        return phases[name]


class LoadStep(msgspec.Struct, frozen=True):
    """The service's load steps up beside running batch pods.

    `reaction_ms` is the time from the step to the first cut of the batch quota seen in the cgroup, None
    when there was none. `quota` holds (seconds from the step, CPUs; None: unlimited), `p99` holds
    (seconds from the step, milliseconds).
    """

    began_s: float
    from_rps: float
    to_rps: float
    reaction_ms: float | None
    quota: tuple[tuple[float, float | None], ...]
    p99: tuple[tuple[float, float], ...]
    requests: int = 0


class Sample(msgspec.Struct, frozen=True):
    """The state of node and cgroups at one moment; None: not there (yet), or without a limit."""

    at_s: float
    batch_cpu_milli: int | None = None
    batch_memory_bytes: int | None = None
    quota_cpus: float | None = None
    besteffort_weight: int | None = None
    service_weight: int | None = None
    service_cpus: float | None = None
    batch_cpus: float | None = None
    busy_cpus: float | None = None


class Restart(msgspec.Struct, frozen=True):
    """A component that ended by itself and was started again."""

    component: str
    at_s: float
    reason: str


class Pod(msgspec.Struct, frozen=True):
    """A pod as the API server holds it after admission and binding; resources of its first container."""

    namespace: str
    name: str
    qos: str
    priority_class: str
    kube_qos: str
    node: str
    requests: dict[str, str]
    limits: dict[str, str]


class Machine(msgspec.Struct, frozen=True):
    """Where it ran."""

    cpus: int
    cpu_model: str
    memory_bytes: int
    kernel: str
    cgroups: str
    python: str


class DemoResult(msgspec.Struct, frozen=True):
    """The whole run."""

    measured: bool
    why_not_measured: str
    machine: Machine
    seed: int
    rps: float
    rounds: tuple[Round, ...] = ()
    discarded_rounds: tuple[Round, ...] = ()
    step: LoadStep | None = None
    samples: tuple[Sample, ...] = ()
    restarts: tuple[Restart, ...] = ()
    pods: tuple[Pod, ...] = ()
    generator_scheduling: str = ""
    took_s: float = 0.0
    versions: dict[str, str] = msgspec.field(default_factory=dict)

    def over_rounds(self, read: Callable[[Round], float | None]) -> float | None:
        """The median over the rounds of what `read` finds in each."""
        return median(value for value in map(read, self.rounds) if value is not None)

    def p99_ratio(self, name: PhaseName) -> float | None:
        """The median over rounds of the p99 of a phase relative to alone in the same round."""
        return median_of_ratios((item.phase(name).p99_ms, item.alone.p99_ms) for item in self.rounds)

    def p50_ratio(self, name: PhaseName) -> float | None:
        """As `p99_ratio`, of the median latency."""
        return median_of_ratios((item.phase(name).p50_ms, item.alone.p50_ms) for item in self.rounds)

    def batch_share_of_idle(self, name: PhaseName) -> float | None:
        """The median over rounds of the share of the service's idle CPU that batch pods used."""
        return self.over_rounds(lambda item: item.phase(name).cpu.batch_share_of_idle)

    @property
    def quiet(self) -> bool:
        """Whether every round that counts was free of foreign load."""
        return bool(self.rounds) and not any(item.noise for item in self.rounds)


def changes(values: Iterable[int | None]) -> list[int]:
    """The known values, in order, repetitions kept."""
    return [value for value in values if value is not None]


def _phase_summary(result: DemoResult, name: PhaseName) -> JsonObject:
    def over(read: Callable[[Phase], float]) -> float | None:
        return _rounded(result.over_rounds(lambda item: read(item.phase(name))))

    return {
        "name": str(name),
        "cpu_use_ratio": over(lambda phase: phase.cpu.use_ratio),
        "ls_p50_ms": over(lambda phase: phase.p50_ms),
        "ls_p99_ms": over(lambda phase: phase.p99_ms),
        "ls_requests": _whole(over(lambda phase: phase.requests)),
        "ls_errors": _whole(over(lambda phase: phase.errors)),
        "batch_work": _whole(over(lambda phase: phase.batch_work)),
        "batch_cpus": over(lambda phase: phase.cpu.batch),
        "service_cpus": over(lambda phase: phase.cpu.service),
        "outside_cpus": over(lambda phase: phase.cpu.outside),
        "steal_cpus": over(lambda phase: phase.cpu.steal),
    }


def _round_json(item: Round) -> JsonObject:
    phases = {}
    for name in PhaseName:
        phase = msgspec.to_builtins(item.phase(name))
        phase.pop("latencies_ms")
        phases[str(name)] = _rounded_tree(phase)
    return {"noise": list(item.noise), **phases}


def _step_json(step: LoadStep | None) -> JsonObject | None:
    return None if step is None else dict(_rounded_tree(msgspec.to_builtins(step)))


def to_json(result: DemoResult) -> JsonObject:
    """The object that `--json` prints. Numbers that were not measured are null."""
    return {
        "measured": result.measured,
        "why_not_measured": result.why_not_measured or None,
        "quiet": result.quiet if result.measured else None,
        "phases": [_phase_summary(result, name) for name in PhaseName],
        "ls_p99_ratio_plain": _rounded(result.p99_ratio(PhaseName.PLAIN)),
        "ls_p99_ratio_koord": _rounded(result.p99_ratio(PhaseName.KOORD)),
        "ls_p50_ratio_plain": _rounded(result.p50_ratio(PhaseName.PLAIN)),
        "ls_p50_ratio_koord": _rounded(result.p50_ratio(PhaseName.KOORD)),
        "be_share_of_idle": _rounded(result.batch_share_of_idle(PhaseName.KOORD)),
        "batch_cpu_milli": changes(sample.batch_cpu_milli for sample in result.samples),
        "reaction_ms": _rounded(result.step.reaction_ms if result.step else None, 1),
        "rounds": [_round_json(item) for item in result.rounds],
        "discarded_rounds": [_round_json(item) for item in result.discarded_rounds],
        "load_step": _step_json(result.step),
        "restarts": [msgspec.to_builtins(restart) for restart in result.restarts],
        "pods": [msgspec.to_builtins(pod) for pod in result.pods],
        "samples": [_rounded_tree(msgspec.to_builtins(sample)) for sample in result.samples],
        "machine": msgspec.to_builtins(result.machine),
        "generator_scheduling": result.generator_scheduling,
        "seed": result.seed,
        "rps": result.rps,
        "took_s": _rounded(result.took_s, 1),
        "versions": result.versions,
    }


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded_tree(value: Any) -> Any:
    """The same JSON value with every float at four decimals."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded_tree(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded_tree(item) for item in value]
    return value
