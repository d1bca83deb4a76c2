"""The plots of the report, each drawn from the result alone. Pure; every function returns an SVG or ""."""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import groupby

from sandbox.demo import svg
from sandbox.demo.result import DemoResult, LoadStep, PhaseName, Round, Sample
from sandbox.demo.statistics import percentile, survival_curve

LABEL_ROOM = 92


def _with_headroom(values: Sequence[float], floor: float = 0.0) -> float:
    return max([floor, *values]) * 1.15


def latency_tail(result: DemoResult) -> str:
    """Latency over percentile, log-log, one line per phase, all rounds pooled."""
    curves = {}
    for name in PhaseName:
        latencies = [value for item in result.rounds for value in item.phase(name).latencies_ms]
        curves[name] = survival_curve([max(value, 0.01) for value in latencies])
    if not all(curves.values()):
        return ""
    values = [value for curve in curves.values() for value, _ in curve]
    shares = [share for curve in curves.values() for _, share in curve]
    area = svg.frame(
        (0, 1),
        (min(values) * 0.85, max(values) * 1.25),
        height=320,
        x_title="percentile of requests",
        y_title="latency, ms",
        y_log=True,
        right=LABEL_ROOM,
    )
    ticks = tuple(share for share in (1.0, 0.5, 0.1, 0.01, 0.001, 0.0001) if share >= min(shares))
    # From the best to the worst request: the share above falls from 1 to 1/n along the axis.
    x = svg.Scale(min(shares), 1.0, area.x.pixel_high, area.x.pixel_low, log=True)
    area = dataclasses.replace(area, x=x, x_text=_percentile_name, x_ticks=ticks)
    layers = []
    for name, curve in curves.items():
        layers.append(svg.line(area, [(share, value) for value, share in curve], name))
    layers += _end_labels(area, {str(name): curve[-1][0] for name, curve in curves.items()})
    return svg.drawing(area, layers, "Latency of the service over the percentile, for each phase")


def _percentile_name(share: float) -> str:
    return "best" if share >= 1 else f"p{100 * (1 - share):.4g}"


def _end_labels(area: svg.Frame, ends: dict[str, float], gap: float = 15) -> list[str]:
    """Names beside the right end of lines, moved apart where they would overlap."""
    labels, lowest = [], float("inf")
    _, right = area.sides
    for name, value in sorted(ends.items(), key=lambda item: item[1]):
        y = min(area.y(value) + 4, lowest - gap)
        lowest = y
        labels.append(svg.text(right + 8, y, name, classes=f"label c-{name}"))
    return labels


def round_ratios(result: DemoResult) -> str:
    """p99 relative to alone of the same round: a dot per round, plain and koord."""
    if not result.rounds:
        return ""
    ratios = {
        name: [item.phase(name).p99_ms / item.alone.p99_ms for item in result.rounds]
        for name in (PhaseName.PLAIN, PhaseName.KOORD)
    }
    count = len(result.rounds)
    area = svg.frame(
        (0.5, count + 0.5),
        (0, _with_headroom([value for values in ratios.values() for value in values], 1.5)),
        height=240,
        x_title="round",
        y_title="p99 ÷ p99 alone",
        right=LABEL_ROOM,
    )
    area = dataclasses.replace(area, x_ticks=tuple(range(1, count + 1)), x_text=lambda value: f"{value:.0f}")
    layers = [svg.level(area, 1.0, "alone", "alone = 1", at_end=False)]
    for name, values in ratios.items():
        points = [(index + 1.0, value) for index, value in enumerate(values)]
        layers += [svg.line(area, points, name, thin=True), svg.dots(area, points, name)]
    layers += _end_labels(area, {str(name): values[-1] for name, values in ratios.items()})
    return svg.drawing(area, layers, "Ratio of the 99th percentile to alone in each round")


def cpu_over_time(result: DemoResult) -> str:
    """CPU in use over the run, stacked: service, batch pods, everything else."""
    samples = [sample for sample in result.samples if sample.busy_cpus is not None]
    if len(samples) < 2:
        return ""
    top = result.machine.cpus
    area = _time_frame(samples, (0, top * 1.12), "CPUs in use")
    at = [sample.at_s for sample in samples]
    service = [sample.service_cpus or 0.0 for sample in samples]
    batch = [below + (sample.batch_cpus or 0.0) for below, sample in zip(service, samples, strict=True)]
    busy = [max(below, sample.busy_cpus or 0.0) for below, sample in zip(batch, samples, strict=True)]
    edges = [[0.0] * len(at), service, batch, busy]
    layers = _phase_bands(area, result.rounds, result.step)
    for name, low, high in zip(("service", "batch", "other"), edges, edges[1:], strict=False):
        layers.append(svg.filled(area, list(zip(at, low, strict=True)), list(zip(at, high, strict=True)), name))
    layers.append(svg.level(area, top, "alone", f"{top} CPUs", at_end=False))
    return svg.drawing(area, layers, "CPU in use over the run by service, batch pods and everything else")


def batch_cpu_over_time(result: DemoResult) -> str:
    """The node's batch-cpu and the quota of the best-effort cgroup, both in CPUs."""
    offered = _known(result.samples, lambda sample: sample.batch_cpu_milli)
    if len(offered) < 2:
        return ""
    offered = [(at, milli / 1000) for at, milli in offered]
    quotas = [
        [(sample.at_s, sample.quota_cpus) for sample in samples if sample.quota_cpus is not None]
        for limited, samples in groupby(result.samples, lambda sample: sample.quota_cpus is not None)
        if limited
    ]
    values = [value for points in [offered, *quotas] for _, value in points]
    area = _time_frame(result.samples, (0, _with_headroom(values, 0.5)), "CPUs")
    layers = _phase_bands(area, result.rounds, result.step)
    layers += [svg.steps(area, points, "quota", dashed=True) for points in quotas]
    layers.append(svg.steps(area, offered, "koord"))
    return svg.drawing(area, layers, "batch-cpu that the node offers and the quota of best-effort pods over the run")


def _known(samples: Sequence[Sample], read: Callable[[Sample], float | None]) -> list[svg.Point]:
    found = ((sample.at_s, read(sample)) for sample in samples)
    return [(at, float(value)) for at, value in found if value is not None]


def _time_frame(samples: Sequence[Sample], y: tuple[float, float], y_title: str) -> svg.Frame:
    ends = (samples[0].at_s, samples[-1].at_s)
    return svg.frame(ends, y, height=250, x_title="seconds since the demo began", y_title=y_title)


def _phase_bands(area: svg.Frame, rounds: Sequence[Round], step: LoadStep | None) -> list[str]:
    bands = []
    for item in rounds:
        for name in PhaseName:
            phase = item.phase(name)
            bands.append(svg.band(area, phase.began_s, phase.ended_s, name, str(name)))
    if step is not None and step.p99:
        began, ended = step.began_s + step.p99[0][0], step.began_s + step.p99[-1][0]
        bands.append(svg.band(area, began, ended, "quota", "load step"))
    return bands


def step_quota(step: LoadStep | None, cpus: int) -> str:
    """The batch quota around the load step, as read from the cgroup."""
    if step is None or len(step.quota) < 2:
        return ""
    points = [(at, float(cpus) if value is None else value) for at, value in step.quota]
    area = svg.frame(
        (points[0][0], points[-1][0]),
        (0, _with_headroom([value for _, value in points], cpus)),
        height=220,
        x_title="seconds from the load step",
        y_title="batch quota, CPUs",
    )
    layers = [svg.steps(area, points, "batch")]
    layers.append(svg.upright(area, 0, "service", f"{step.from_rps:g} → {step.to_rps:g} requests/s"))
    if step.reaction_ms is not None:
        layers.append(svg.upright(area, step.reaction_ms / 1000, "quota", "cut", lower=True))
    return svg.drawing(area, layers, "Quota of the batch pods around the load step")


def step_latency(step: LoadStep | None) -> str:
    """The service's p99 in short windows around the load step."""
    if step is None or len(step.p99) < 2:
        return ""
    values = [value for _, value in step.p99]
    area = svg.frame(
        (step.p99[0][0], step.p99[-1][0]),
        (0, max(_with_headroom(values), percentile(values, 100))),
        height=220,
        x_title="seconds from the load step",
        y_title="p99 of 0.5 s windows, ms",
    )
    layers = [svg.line(area, step.p99, "service"), svg.dots(area, step.p99, "service")]
    layers.append(svg.upright(area, 0, "service", "load steps up"))
    return svg.drawing(area, layers, "99th percentile of the service around the load step")
