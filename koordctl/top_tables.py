"""The rows of `koordctl top` as tables and as JSON."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from koord.api.timestamps import format_rfc3339
from koordctl.usage_rows import CLASSES, Amount, NodeRow, Rows, Use

_GIB = 2**30
_WIDTH_WITHOUT_TERMINAL = 160
_KEYS: dict[str, Callable[[NodeRow], Any]] = {
    "name": lambda row: row.name,
    "used": lambda row: -(row.used.cpu / row.capacity.cpu if row.used and row.capacity.cpu else 0.0),
    "batch-offered": lambda row: -row.classes["batch"].offered.cpu,
    "batch-taken": lambda row: -row.classes["batch"].taken.cpu,
    "age": lambda row: -(row.report_age_s if row.report_age_s is not None else float("inf")),
}


def sorted_nodes(rows: Rows, sort: str) -> Rows:
    """The rows with their nodes in the order asked for; equal ones by name."""
    return replace(rows, nodes=tuple(sorted(rows.nodes, key=lambda row: (_KEYS[sort](row), row.name))))


def print_tables(rows: Rows, limit: int | None) -> None:
    """Both tables, with so many nodes at most, on standard output."""
    console = Console()
    console = console if console.is_terminal else Console(width=_WIDTH_WITHOUT_TERMINAL)
    console.print(class_table(rows))
    console.print(node_table(rows.nodes[:limit]))
    if limit is not None and len(rows.nodes) > limit:
        console.print(f"{len(rows.nodes) - limit} more nodes; --limit and --sort choose", highlight=False)


def class_table(rows: Rows) -> Table:
    """One line a class: cpu, then memory."""
    table = Table(title="Classes", title_justify="left", box=None, pad_edge=False)
    table.add_column("CLASS")
    table.add_column("PODS", justify="right")
    for resource in ("CPU", "MEM"):
        for column in ("requested", "used", "offered", "taken"):
            table.add_column(f"{resource} {column}", justify="right")
    for name in CLASSES:
        use = rows.classes[name]
        amounts = (use.requested, use.used, use.offered, use.taken)
        cells = [_cores(amount) for amount in amounts] + [_gib(amount) for amount in amounts]
        table.add_row(name, str(use.pods), *cells)
    return table


def node_table(nodes: tuple[NodeRow, ...]) -> Table:
    """One line a node. Of each tier offered/taken/used; SHORT marks tiers that offer less than pods hold."""
    table = Table(title="\nNodes (of each tier: offered/taken/used)", title_justify="left", box=None, pad_edge=False)
    table.add_column("NODE")
    for resource in ("CPU", "MEM"):
        for column in ("used/all", "prod taken/used", "mid", "batch"):
            table.add_column(f"{resource} {column}", justify="right")
    table.add_column("REPORT", justify="right")
    table.add_column("SHORT")
    for row in nodes:
        cells = []
        for text in (_cores, _gib):
            production = row.classes["production"]
            used = "?" if row.used is None else text(row.used)
            cells += [
                f"{used}/{text(row.capacity)}",
                f"{text(production.taken)}/{text(production.used)}",
                _triple(row.classes["mid"], text),
                _triple(row.classes["batch"], text),
            ]
        age = "none" if row.report_age_s is None else f"{max(row.report_age_s, 0):.0f}s"
        table.add_row(row.name, *cells, age, ",".join(row.short))
    return table


def _triple(use: Use, text: Callable[[Amount], str]) -> str:
    return "/".join(text(amount) for amount in (use.offered, use.taken, use.used))


def _cores(amount: Amount) -> str:
    return f"{amount.cpu:.1f}"


def _gib(amount: Amount) -> str:
    return f"{amount.memory / _GIB:.1f}G"


def as_json(rows: Rows, now_s: float) -> str:
    """One JSON object: cpu in cores, memory in bytes."""
    return msgspec.json.encode(
        {
            "at": format_rfc3339(now_s),
            "classes": {name: _use(use) for name, use in rows.classes.items()},
            "nodes": [
                {
                    "name": row.name,
                    "capacity": row.capacity._asdict(),
                    "used": None if row.used is None else row.used._asdict(),
                    "reportAgeSeconds": row.report_age_s,
                    "short": row.short,
                    "classes": {name: _use(use) for name, use in row.classes.items()},
                }
                for row in rows.nodes
            ],
        }
    ).decode()


def _use(use: Use) -> dict[str, Any]:
    return {
        "pods": use.pods,
        "requested": use.requested._asdict(),
        "used": use.used._asdict(),
        "offered": use.offered._asdict(),
        "taken": use.taken._asdict(),
    }
