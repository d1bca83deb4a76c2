"""Estimating how far protected usage will rise above its average: the burst that an opt-in peak policy sells not.

Each predictor says how much more than the reported average will be needed; the largest one counts. Together they are
the max-of-predictors policy of "Take it to the limit: peak prediction-driven resource overcommitment in datacenters"
(EuroSys 2021).

    percentile  node usage at that percentile of the window - average node usage
    sigmas      average of the window + n * deviation - average node usage, where the window's deviation is taken from
                its percentiles as if usage were normally distributed; and mean + n * deviation of the averages that
                the node reported within the window, this one included - this one
    prod peak   what the agent predicts production and system to need - what they use now

Node usage includes batch pods: where these fill the machine, its percentiles show little of production's bursts. The
averages over time and the agent's prediction do not have this weakness.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from koord.api.quantity import NANO, NANO_PER_MILLI, InvalidQuantity
from koord.api.slo import AggregatedUsage
from koord.slo_config import go_duration
from koord.slo_config.options import Peak
from manager.overcommit.amounts import ZERO, Amounts, ceil_div, read_amounts
from manager.overcommit.report import UsageReport
from manager.overcommit.sums import PodSums

_NANO_PER_MINUTE: Final = 60 * 10**9
# How many standard deviations the percentiles of a normal distribution lie above its mean.
_NORMAL_QUANTILE: Final = {"p90": 1.2816, "p95": 1.6449, "p99": 2.3263}
_AVERAGE: Final = "avg"


class History(NamedTuple):
    """Statistics of the protected usage (pods and system) that a node reported within the window; nano units."""

    reports: int
    mean: tuple[float, float]
    deviation: tuple[float, float]


Usage = tuple[int, int]
"""cpu and memory that a node reported as protected usage (pods, host applications and system); nano units."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The estimate per resource in nano units, and which predictor gave it ("" for none)."""

    amounts: Amounts
    cpu_by: str = ""
    memory_by: str = ""


NO_BURST: Final = Burst(ZERO)


def history_of(samples: Sequence[Usage]) -> History:
    """Mean and standard deviation of one sample or more."""
    cpu, memory = [float(sample[0]) for sample in samples], [float(sample[1]) for sample in samples]
    means = math.fsum(cpu) / len(cpu), math.fsum(memory) / len(memory)
    return History(len(samples), means, (_deviation(cpu, means[0]), _deviation(memory, means[1])))


def estimate(options: Peak, report: UsageReport, sums: PodSums, system: Amounts, past: Sequence[Usage]) -> Burst:
    """The burst above the reported average. system: what the system is charged with. past: what the node reported
    before, within the window.

    A predictor whose input is missing says nothing; an unreadable window counts as missing.
    """
    found: list[tuple[str, Amounts]] = []
    window = _window(report.windows, options.window_minutes)
    average = report.node_usage
    if window is not None and average is not None:
        found += _from_window(options, window, average)
    measured = _measured(sums, report)
    if options.sigmas > 0 and past:
        history = history_of([*past, (measured.cpu, measured.memory)])
        name = f"mean + {options.sigmas:g} deviations of {history.reports} reports"
        peak = Amounts(
            *(int(mean + options.sigmas * dev) for mean, dev in zip(history.mean, history.deviation, strict=True))
        )
        found.append((name, _above(peak, measured)))
    if options.prod_peak and report.prod_peak is not None:
        production = Amounts(
            system.cpu + sums.usage.cpu - sums.mid_usage.cpu,
            system.memory + sums.usage.memory - sums.mid_usage.memory,
        )
        found.append(("prodPeakMetric", _above(report.prod_peak, production)))
    return _largest(found)


def measured_usage(sums: PodSums, report: UsageReport) -> tuple[int, int]:
    """What a report adds to a node's history: protected pods, host applications and system, as charged."""
    return _measured(sums, report)


def _measured(sums: PodSums, report: UsageReport) -> Amounts:
    return sums.usage.plus(report.system).plus(report.host_applications)


def _from_window(options: Peak, window: dict[str, Amounts], average: Amounts) -> list[tuple[str, Amounts]]:
    found = []
    if (usage := window.get(options.percentile)) is not None:
        found.append((f"{options.percentile} of node usage", _above(usage, average)))
    mean = window.get(_AVERAGE)
    if options.sigmas > 0 and mean is not None:
        deviation = [
            max((window[name][index] - mean[index]) / far for name, far in _NORMAL_QUANTILE.items() if name in window)
            if any(name in window for name in _NORMAL_QUANTILE)
            else 0.0
            for index in (0, 1)
        ]
        peak = Amounts(*(int(mean[index] + options.sigmas * max(deviation[index], 0.0)) for index in (0, 1)))
        found.append((f"average + {options.sigmas:g} deviations of node usage", _above(peak, average)))
    return found


def _window(windows: Iterable[AggregatedUsage], most_minutes: int) -> dict[str, Amounts] | None:
    """The longest window up to so many minutes that holds samples, by percentile."""
    best_ns = 0
    best: AggregatedUsage | None = None
    for window in windows:
        try:
            duration_ns = go_duration.parse_ns(window.duration)
        except ValueError:
            continue
        if window.usage and best_ns < duration_ns <= most_minutes * _NANO_PER_MINUTE:
            best_ns, best = duration_ns, window
    if best is None:
        return None
    try:
        return {name: read_amounts(usage.resources) for name, usage in best.usage.items() if usage.resources}
    except InvalidQuantity:
        return None


def _above(peak: Amounts, average: Amounts) -> Amounts:
    return Amounts(max(peak.cpu - average.cpu, 0), max(peak.memory - average.memory, 0))


def _largest(found: list[tuple[str, Amounts]]) -> Burst:
    if not found:
        return NO_BURST
    cpu_by, cpu = max(found, key=lambda entry: entry[1].cpu)
    memory_by, memory = max(found, key=lambda entry: entry[1].memory)
    # An estimate needs no billionths: whole milli-cores and bytes, rounded up.
    cpu_nano = ceil_div(cpu.cpu, NANO_PER_MILLI) * NANO_PER_MILLI
    return Burst(Amounts(cpu_nano, ceil_div(memory.memory, NANO) * NANO), cpu_by, memory_by)


def _deviation(samples: list[float], mean: float) -> float:
    return math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / len(samples))
