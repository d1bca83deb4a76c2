"""The HTML report: one file, nothing loaded from elsewhere, readable in light and dark. Pure but for `write`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path

from sandbox.demo import plots, table
from sandbox.demo.result import DemoResult, PhaseName, Pod, Round

KEY_PHASES = (("alone", "service alone"), ("plain", "plain Kubernetes"), ("koord", "with Koord"))
KEY_CPU = (("service", "service"), ("batch", "batch pods"), ("other", "load generator, control plane, others"))
SHADED = "Shaded: the measured windows (grey alone, orange plain, green Koord, purple the load step)."
KEY_OFFER = (("koord", "batch-cpu of the node"), ("quota", "quota of the best-effort cgroup"))


def write(result: DemoResult, path: Path, at: datetime | None = None) -> None:
    """Render and write the report. Raises OSError when the file cannot be written."""
    path.write_text(render(result, at or datetime.now(UTC)), encoding="utf-8")


def render(result: DemoResult, at: datetime) -> str:
    """The whole document."""
    style = resources.files("sandbox.demo").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join(
        part
        for part in (
            _head(result, at),
            _tiles(result),
            _warning(result),
            _table(result),
            _latency(result),
            _resources(result),
            _step(result),
            _pods(result.pods),
            _rounds(result),
            _restarts(result),
            _method(result),
            _machine(result),
        )
        if part
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Koord demo</title><style>\n{style}</style></head><body><main>\n{body}\n</main></body></html>\n"
    )


def _head(result: DemoResult, at: datetime) -> str:
    return (
        "<h1>A web service and batch pods on one machine</h1>"
        f'<p class="soft">koordctl demo, {at:%Y-%m-%d %H:%M} UTC, {result.took_s:.0f} s, '
        f"{result.machine.cpus} CPUs ({escape(result.machine.cpu_model)})</p>"
        f'<p class="lead">{escape(table.headline(result))}</p>'
    )


def _tiles(result: DemoResult) -> str:
    if not result.measured:
        return ""
    tiles = [
        ("plain", table.times(result.p99_ratio(PhaseName.PLAIN)), "service p99 beside batch, plain Kubernetes"),
        ("koord", table.times(result.p99_ratio(PhaseName.KOORD)), "service p99 beside batch, with Koord"),
        ("koord", table.percent(result.batch_share_of_idle(PhaseName.KOORD)), "of the idle CPU put to work"),
    ]
    if result.step and result.step.reaction_ms is not None:
        tiles.append(("quota", f"{result.step.reaction_ms:,.0f} ms", "from load step to the first quota cut"))
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><strong class="c-{name}">{escape(value)}</strong><span>{escape(what)}</span></div>'
            for name, value, what in tiles
        )
        + "</div>"
    )


def _warning(result: DemoResult) -> str:
    note = table.noise_note(result)
    if not note:
        return ""
    return f'<p class="{"soft" if result.quiet else "warning"}">{escape(note)}</p>'


def _table(result: DemoResult) -> str:
    if not result.measured:
        return ""
    head = "".join(f'<th class="c-{name}">{escape(table.TITLES[name])}</th>' for name in PhaseName)
    lines = "".join(
        f'<tr class="{"emphasis" if row.emphasis else ""}"><td>{escape(row.title)}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
        + "</tr>"
        for row in table.rows(result)
    )
    return (
        "<h2>What was measured</h2>"
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
        f'<p class="soft">Medians over {_count(len(result.rounds), "round")}; ratios are formed within a round, '
        "then their median is taken.</p>"
    )


def _figure(title: str, drawing: str, caption: str, key: Sequence[tuple[str, str]] = ()) -> str:
    if not drawing:
        return ""
    entries = "".join(f'<span class="c-{name}"><i></i><b>{escape(what)}</b></span>' for name, what in key)
    shown = f'<div class="key">{entries}</div>' if key else ""
    return f"<figure><h3>{escape(title)}</h3>{shown}{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _latency(result: DemoResult) -> str:
    figures = _figure(
        "Latency by percentile",
        plots.latency_tail(result),
        "All requests of all rounds. Latency counts from the moment at which a request was due, "
        "so time spent waiting behind others is part of it. Both axes are logarithmic.",
        KEY_PHASES,
    ) + _figure(
        "Each round",
        plots.round_ratios(result),
        "The 99th percentile relative to the service alone in the same round. The closer to 1 the better.",
        KEY_PHASES[1:],
    )
    return f"<h2>What the service felt</h2>{figures}" if figures else ""


def _resources(result: DemoResult) -> str:
    figures = _figure(
        "CPU in use",
        plots.cpu_over_time(result),
        "Read from the cgroups and from /proc/stat. " + SHADED,
        KEY_CPU,
    ) + _figure(
        "What the node offers to batch pods",
        plots.batch_cpu_over_time(result),
        "The manager offers as kubernetes.io/batch-cpu what services leave unused. Batch pods run as plain pods "
        "count as services, so the offer falls while they run. The quota caps the best-effort cgroup. " + SHADED,
        KEY_OFFER,
    )
    return f"<h2>What the machine did</h2>{figures}" if figures else ""


def _step(result: DemoResult) -> str:
    figures = _figure(
        "Quota of the batch pods",
        plots.step_quota(result.step, result.machine.cpus),
        "Read from the cgroup every few milliseconds.",
    ) + _figure("Service p99", plots.step_latency(result.step), "Beside the same running batch pods.")
    return f"<h2>When the load steps up</h2><p>{escape(table.reaction(result))}</p>{figures}" if figures else ""


def _pods(pods: Sequence[Pod]) -> str:
    if not pods:
        return ""
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td>{cell}</td>"
            for cell in (
                f"<code>{escape(pod.namespace)}/{escape(pod.name)}</code>",
                escape(pod.qos or "none"),
                escape(pod.priority_class or "none"),
                escape(pod.kube_qos),
                _resource_list(pod.requests),
                _resource_list(pod.limits),
            )
        )
        + "</tr>"
        for pod in pods
    )
    return (
        "<h2>The pods as the API server holds them</h2>"
        "<p>The executors come from one manifest, created with kubectl in two namespaces. In the one that the "
        "ClusterColocationProfile selects, the webhook made them best-effort pods that ask for batch resources.</p>"
        '<div class="scroll"><table class="words"><thead><tr><th>pod</th><th>QoS class</th><th>priority class</th>'
        f"<th>Kubernetes QoS</th><th>requests</th><th>limits</th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _resource_list(amounts: dict[str, str]) -> str:
    return "<br>".join(f"<code>{escape(name)}: {escape(amount)}</code>" for name, amount in amounts.items()) or "none"


def _rounds(result: DemoResult) -> str:
    lines = [_round_line(str(number), item, counted=True) for number, item in enumerate(result.rounds, start=1)] + [
        _round_line("discarded", item, counted=False) for item in result.discarded_rounds
    ]
    if not lines:
        return ""
    return (
        '<h2>Every round</h2><div class="scroll"><table><thead><tr><th>round</th><th>p99 alone</th><th>p99 plain</th>'
        "<th>p99 Koord</th><th>plain ÷ alone</th><th>Koord ÷ alone</th><th>idle CPU used</th><th>outside CPU</th>"
        f"</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _round_line(title: str, item: Round, *, counted: bool) -> str:
    outside = max(item.phase(name).cpu.outside for name in PhaseName)
    cells = [
        title if not item.noise or not counted else f"{title} (noisy)",
        *(table.milliseconds(item.phase(name).p99_ms) for name in PhaseName),
        table.times(item.plain.p99_ms / item.alone.p99_ms),
        table.times(item.koord.p99_ms / item.alone.p99_ms),
        table.percent(item.koord.cpu.batch_share_of_idle),
        table.cpus(outside),
    ]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _restarts(result: DemoResult) -> str:
    if not result.restarts:
        return ""
    lines = "".join(
        f"<li>{restart.at_s:.1f} s: {escape(restart.component)} ({escape(restart.reason)}), started again</li>"
        for restart in result.restarts
    )
    return f"<h2>Components that were restarted</h2><ul>{lines}</ul>"


def _method(result: DemoResult) -> str:
    load = (
        f"A generator sends it {result.rps:g} requests a second in random (Poisson) order of arrival, on schedule "
        f"whether or not earlier ones were answered (scheduling: {result.generator_scheduling}); every phase of the "
        "run meets the same arrivals. "
        if result.measured
        else ""
    )
    return (
        "<h2>How it was done</h2>"
        "<p>A sandbox cluster ran on this machine: an API server over TLS with admission, a binder, and this machine "
        "as a node whose pods are processes in cgroups. Koord's webhook, manager and koordlet ran beside it as they "
        "would in any cluster, each knowing nothing but the API server. All objects were applied with kubectl.</p>"
        f"<p>The service spends about one millisecond of CPU on each request. {escape(load)}"
        "The batch executors hash blocks as fast as they may. <em>Alone</em>: no batch pod runs. <em>Plain</em>: the "
        "executors run with the cpu requests that their manifest states, so the kernel gives them as much weight as "
        "the service or more. <em>Koord</em>: the webhook makes them best-effort, the node's batch-cpu admits them, "
        "and koordlet gives the service precedence and caps them.</p>"
    )


def _machine(result: DemoResult) -> str:
    machine = result.machine
    facts = [
        ("CPU", f"{machine.cpus} × {machine.cpu_model}"),
        ("memory", f"{machine.memory_bytes / 2**30:.1f} GiB"),
        ("kernel", machine.kernel),
        ("cgroups", machine.cgroups),
        ("Python", machine.python),
        ("seed", str(result.seed)),
        *sorted(result.versions.items()),
    ]
    lines = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in facts)
    return f'<h2>The machine</h2><table class="words"><tbody>{lines}</tbody></table>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
