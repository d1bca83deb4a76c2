"""The table and the sentences that say what was found; the screen and the report show the same. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.demo.result import DemoResult, Phase, PhaseName

TITLES = {PhaseName.ALONE: "service alone", PhaseName.PLAIN: "plain Kubernetes", PhaseName.KOORD: "with Koord"}
NOT_MEASURED = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what it is, and its text for alone, plain and koord."""

    title: str
    cells: tuple[str, str, str]
    emphasis: bool = False


def percent(value: float | None) -> str:
    """0.123 as "12 %"."""
    return NOT_MEASURED if value is None else f"{100 * value:.0f} %"


def times(value: float | None) -> str:
    """1.234 as "1.23 ×"."""
    return NOT_MEASURED if value is None else f"{value:.2f} ×"


def milliseconds(value: float | None) -> str:
    """A latency with three digits."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def whole(value: float | None) -> str:
    """A count with thousands separated."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def cpus(value: float | None) -> str:
    """CPUs with two decimals."""
    return NOT_MEASURED if value is None else f"{value:.2f}"


def rows(result: DemoResult) -> list[Row]:
    """The table: medians over the rounds; ratios are medians of the per-round ratios."""

    def row(title: str, show: Callable[[float | None], str], read: Callable[[Phase], float | None]) -> Row:
        return Row(title, _cells(lambda name: show(result.over_rounds(lambda item: read(item.phase(name))))))

    def batch(cell: Row) -> Row:
        return Row(cell.title, (NOT_MEASURED, *cell.cells[1:]))

    return [
        row("CPU use of the machine", percent, lambda phase: phase.cpu.use_ratio),
        row("service p50", milliseconds, lambda phase: phase.p50_ms),
        row("service p99", milliseconds, lambda phase: phase.p99_ms),
        Row("p50 relative to alone", _cells(lambda name: times(result.p50_ratio(name)))),
        Row("p99 relative to alone", _cells(lambda name: times(result.p99_ratio(name))), emphasis=True),
        row("requests per phase", whole, lambda phase: phase.requests),
        row("requests that failed", whole, lambda phase: phase.errors),
        row("batch work done (blocks)", whole, lambda phase: phase.batch_work),
        batch(row("CPUs used by batch pods", cpus, lambda phase: phase.cpu.batch)),
        batch(
            Row(
                "of the CPU that the service left idle",
                _cells(lambda name: percent(result.batch_share_of_idle(name))),
                emphasis=True,
            )
        ),
        row("CPUs used by Koord itself", cpus, lambda phase: phase.cpu.components),
        row("CPUs used outside the demo", cpus, lambda phase: phase.cpu.outside),
    ]


def _cells(read: Callable[[PhaseName], str]) -> tuple[str, str, str]:
    return (read(PhaseName.ALONE), read(PhaseName.PLAIN), read(PhaseName.KOORD))


def headline(result: DemoResult) -> str:
    """The finding in one or two sentences."""
    if not result.measured:
        return f"Nothing was measured: {result.why_not_measured}. The control plane ran."
    alone = percent(result.over_rounds(lambda item: item.alone.cpu.use_ratio))
    koord = percent(result.over_rounds(lambda item: item.koord.cpu.use_ratio))
    return (
        f"Batch pods raised the CPU use of this machine from {alone} to {koord}. "
        f"With Koord the service's p99 was {times(result.p99_ratio(PhaseName.KOORD))} what it is alone; "
        f"with the same pods as plain Kubernetes runs them it was {times(result.p99_ratio(PhaseName.PLAIN))}."
    )


def reaction(result: DemoResult) -> str:
    """What the load step showed, or why it shows nothing."""
    step = result.step
    if step is None:
        return ""
    load = f"When the load stepped from {step.from_rps:g} to {step.to_rps:g} requests/s, "
    if step.reaction_ms is None:
        return load + "the quota of the batch pods was not cut."
    return load + f"the quota of the batch pods was cut after {step.reaction_ms:,.0f} ms."


def noise_note(result: DemoResult) -> str:
    """Whether the figures can be trusted."""
    if not result.measured:
        return ""
    discarded = len(result.discarded_rounds)
    dropped = f" {discarded} noisy round{'s' if discarded != 1 else ''} discarded." if discarded else ""
    if result.quiet:
        rounds = f"all {len(result.rounds)} rounds" if len(result.rounds) > 1 else "its one round"
        return f"The machine was quiet in {rounds}.{dropped}"
    noisy = [reason for item in result.rounds for reason in item.noise]
    return (
        f"The machine was NOT quiet: {len(noisy)} of {3 * len(result.rounds)} phases met foreign load, "
        f"for example {noisy[0]}. Take the figures with care.{dropped}"
    )
