"""`koordctl demo`: what Koord does, on this machine, measured."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sandbox.demo.plan import Plan
    from sandbox.demo.result import DemoResult
    from sandbox.demo.screen import Screen
    from sandbox.demo.session import Kept


@click.command()
@click.option("--quick", is_flag=True, help="One round instead of five, shorter phases: under a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr.")
@click.option("--keep", is_flag=True, help="Leave the cluster and its pods running, and say how to end them.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("koord-demo.html"),
    show_default=True,
    help="Where to write the HTML report.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the requests' arrivals.")
def demo(*, quick: bool, as_json: bool, keep: bool, report: Path, seed: int) -> None:
    """Run a web service and batch pods on this machine and measure both.

    A cluster of its own runs on this machine for a few minutes: an API server, this machine as its node, and
    Koord. A web service meets a steady load, first alone, then beside batch pods as plain Kubernetes runs
    them, then beside the same pods under Koord. Needs root (cgroups) to measure; without, it shows the
    control plane only. Nothing is left behind.
    """
    from dataclasses import replace

    from sandbox.demo.plan import FULL, QUICK

    if not report.absolute().parent.is_dir():
        raise click.BadParameter(f"{report.absolute().parent} is not a directory", param_hint="--report")
    plan = replace(QUICK if quick else FULL, seed=seed)
    screen = _screen(as_json=as_json)
    try:
        result, kept = _run(plan, screen, keep=keep)
    finally:
        screen.close()
    _tell(result, kept, report, as_json=as_json)


def _screen(*, as_json: bool) -> "Screen":
    import os

    from sandbox.demo.screen import PlainScreen

    stream = sys.stderr if as_json else sys.stdout
    if as_json or not stream.isatty():
        return PlainScreen(stream)
    from rich.console import Console

    from sandbox.demo.live_screen import LiveScreen

    return LiveScreen(Console(file=stream), os.cpu_count() or 1)


def _run(plan: "Plan", screen: "Screen", *, keep: bool) -> "tuple[DemoResult, Kept | None]":
    """Run the demo; ends the program with a clear message when it cannot be done."""
    from koordctl.interrupt import until_signal
    from sandbox.demo.cluster_process import ClusterFailed
    from sandbox.demo.cluster_view import NotInTime
    from sandbox.demo.kubectl import KubectlFailed, KubectlMissing
    from sandbox.demo.load import LoadFailed
    from sandbox.demo.session import Session

    async def work() -> "tuple[DemoResult, Kept | None]":
        return await Session(plan, screen).run(keep=keep)

    try:
        return until_signal(work, screen.note)
    except ClusterFailed as failure:
        screen.close()
        raise click.ClickException(f"{failure}\n{_indented(failure.log_tail)}".rstrip()) from failure
    except (KubectlFailed, KubectlMissing, LoadFailed, NotInTime) as failure:
        screen.close()
        raise click.ClickException(str(failure)) from failure


def _tell(result: "DemoResult", kept: "Kept | None", report: Path, *, as_json: bool) -> None:
    from sandbox.demo import report as html
    from sandbox.demo import table
    from sandbox.demo.result import to_json

    progress = sys.stderr if as_json else sys.stdout
    html.write(result, report)
    if as_json:
        import json

        document = to_json(result)
        document["report"] = str(report.absolute())
        document["kept"] = {"kubeconfig": str(kept.kubeconfig), "end": kept.end_command} if kept else None
        print(json.dumps(document))
    else:
        _print_table(result)
    for line in (table.headline(result), table.reaction(result), table.noise_note(result)):
        if line:
            print(line, file=progress)
    print(f"Report: {report.absolute()}", file=progress)
    if kept is not None:
        print(f"The cluster runs on. Use it: export KUBECONFIG={kept.kubeconfig}", file=progress)
        print(f"Logs: {kept.logs}. End it and remove everything: {kept.end_command}", file=progress)


def _print_table(result: "DemoResult") -> None:
    if not result.measured:
        return
    from rich.console import Console

    from sandbox.demo.live_screen import result_table

    console = Console()
    # Without a terminal the width is unknown; the table needs about 100 columns.
    console = console if console.is_terminal else Console(width=110)
    console.print(result_table(result))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
