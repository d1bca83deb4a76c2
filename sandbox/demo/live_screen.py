"""The demo's live screen on a terminal, drawn with rich."""

import time
from collections import deque
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sandbox.demo.result import DemoResult, PhaseName, Sample
from sandbox.demo.table import TITLES, rows

STYLES = {PhaseName.ALONE: "bold", PhaseName.PLAIN: "bold dark_orange", PhaseName.KOORD: "bold cyan"}
BARS = " ▁▂▃▄▅▆▇█"
HISTORY = 100
NOTES = 12


class LiveScreen:
    """Redraws itself once a second; notes scroll in the lower part."""

    def __init__(self, console: Console, cpus: int) -> None:
        self._origin_s = time.monotonic()
        self._cpus = cpus
        self._notes: deque[Text] = deque(maxlen=NOTES)
        self._history: deque[Sample] = deque(maxlen=HISTORY)
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=1, transient=True)
        self._live.start()

    def note(self, text: str) -> None:
        """Add a line to the log."""
        at = f"{time.monotonic() - self._origin_s:6.1f} s  "
        self._notes.append(Text.assemble((at, "dim"), text))

    def sample(self, sample: Sample) -> None:
        """Take the newest state."""
        self._history.append(sample)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()

    def _draw(self) -> Group:
        seconds = time.monotonic() - self._origin_s
        title = f"koordctl demo  {seconds:.0f} s"
        return Group(Panel(self._state(), title=title, title_align="left"), *self._notes)

    def _state(self) -> Table:
        table = Table.grid(padding=(0, 2))
        if not self._history:
            table.add_row("starting")
            return table
        now, past = self._history[-1], list(self._history)[-60:]
        if now.busy_cpus is not None:
            busy = [sample.busy_cpus for sample in past]
            table.add_row("CPUs busy", f"{now.busy_cpus:.2f} of {self._cpus}", sparkline(busy, self._cpus))
            for name, read in (("  service", now.service_cpus), ("  batch pods", now.batch_cpus)):
                table.add_row(name, f"{read or 0:.2f}")
        offer = [sample.batch_cpu_milli for sample in past]
        shown = "none" if now.batch_cpu_milli is None else f"{now.batch_cpu_milli}"
        table.add_row("batch-cpu offered", shown, sparkline(offer, 1000 * self._cpus))
        if now.besteffort_weight is not None:
            quotas = [sample.quota_cpus for sample in past]
            quota = "no limit" if now.quota_cpus is None else f"{now.quota_cpus:.2f} CPUs"
            table.add_row("batch quota", quota, sparkline(quotas, self._cpus))
            table.add_row("weight service : batch", f"{now.service_weight or '-'} : {now.besteffort_weight}")
        return table


def sparkline(values: Sequence[float | None], top: float) -> str:
    """A line of bars from 0 to `top`; unknown values are gaps. Pure."""
    return "".join(
        " " if value is None else BARS[min(len(BARS) - 1, max(0, round(value / top * (len(BARS) - 1))))]
        for value in values
    )


def result_table(result: DemoResult) -> Table:
    """The final table."""
    table = Table(title="medians over the rounds", title_style="dim", title_justify="left")
    table.add_column("")
    for name in PhaseName:
        table.add_column(TITLES[name], justify="right", header_style=STYLES[name])
    for row in rows(result):
        table.add_row(row.title, *row.cells, style="bold" if row.emphasis else "")
    return table
