"""`koordctl top`: nodes and classes, what they asked for, use, are offered and took."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from koordctl.usage_rows import Rows

_FILE = click.Path(exists=True, path_type=Path, allow_dash=True)
SORTS = ("name", "used", "batch-offered", "batch-taken", "age")


@click.command()
@click.option("--once", is_flag=True, help="Print the tables once instead of refreshing them.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds between tables."
)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Order of the nodes.")
@click.option(
    "--limit", type=click.IntRange(1), help="Nodes to show; without it, what fits the terminal (once: all)."
)
@click.option(
    "--from",
    "dumps",
    multiple=True,
    type=_FILE,
    metavar="DUMP",
    help="As of `koordctl explain node`; implies --once.",
)
@click.option("--kubeconfig", type=click.Path(exists=True, path_type=Path), help="Default: $KUBECONFIG.")
@click.option("--context", help="Of the kubeconfig.")
def top(
    *,
    once: bool,
    output: str,
    interval: float,
    sort: str,
    limit: int | None,
    dumps: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Show nodes and classes: requested, used, offered, taken.

    Requested is what pods ask for, waiting ones included; taken is what those with a node ask for; used is what the
    node agents report; offered is what nodes show as allocatable (production: of the machine; mid and batch: of what
    is sold again). With -o json one JSON object a round, cpu in cores, memory in bytes.
    """
    from koordctl.top_tables import as_json, print_tables, sorted_nodes

    def show(rows: "Rows", now_s: float, lines: int | None) -> None:
        ordered = sorted_nodes(rows, sort)
        if output == "json":
            click.echo(as_json(ordered, now_s))
        else:
            print_tables(ordered, limit if limit is not None else lines)

    if dumps:
        _show_dump(dumps, show)
        return
    _follow(kubeconfig, context, show, None if once else interval, live=output == "table")


def _show_dump(dumps: tuple[Path, ...], show: "Callable[[Rows, float, int | None], None]") -> None:
    import time

    from koordctl.colocation_objects import read_dump
    from koordctl.top_source import rows_of_dump

    found = read_dump(dumps)
    for problem in found.problems:
        click.echo(problem, err=True)
    now_s = found.newest_s if found.newest_s is not None else time.time()
    show(rows_of_dump(found, now_s), now_s, None)


def _follow(
    kubeconfig: Path | None,
    context: str | None,
    show: "Callable[[Rows, float, int | None], None]",
    interval_s: float | None,
    *,
    live: bool,
) -> None:
    import asyncio
    import contextlib
    import signal
    import sys

    from koord.kube.access import AccessError
    from koord.kube.errors import ApiError
    from koordctl.top_source import follow

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        path = str(kubeconfig) if kubeconfig else None
        clears = live and interval_s is not None and sys.stdout.isatty()
        await follow(path, context, show, interval_s, clears=clears)

    try:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(run())
    except (AccessError, ApiError) as error:
        raise click.ClickException(str(error)) from error
