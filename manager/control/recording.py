"""A recording of decisions in a file, one JSON object a line: what was sold, what was used, what was violated.

Written in batches off the loop, turned over at a size, and never in the way: when the disk is slower than the
decisions, lines are dropped and counted. `bench/replay.py --recording` reads it.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.api.timestamps import format_rfc3339
from manager import metrics
from manager.overcommit.account import account_of
from manager.overcommit.amounts import Amounts
from manager.overcommit.decision import NodeDecision

logger = logging.getLogger("koord.manager.recording")

FLUSH_S: Final = 1.0
MOST_WAITING: Final = 50_000
"""Lines that wait for the disk; more are dropped."""


def line_of(decision: NodeDecision, capacity: Amounts, at_s: float, report_s: float | None, write: str) -> bytes:
    """One decision as a line. Amounts are [milli-cores, bytes]; write: the write rule's reason."""
    account = account_of(decision, capacity)
    fields: dict[str, Any] = {
        "at": format_rfc3339(at_s),
        "node": decision.node,
        "reason": str(decision.reason),
        "report": None if report_s is None else format_rfc3339(report_s),
        "write": write,
        "capacity": account.capacity,
        "batch_offered": decision.published,
        "mid_offered": decision.mid_published,
        "batch_held": account.batch_held,
        "mid_held": account.mid_held,
        "batch_used": account.batch_used,
        "production_used": account.production_used,
        "violated": account.violated,
    }
    return msgspec.json.encode(fields) + b"\n"


class Recording:
    """Appends to a file, which becomes `<path>.1` when it has reached `most_bytes`."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._waiting: list[bytes] = []
        self._last_report: dict[str, tuple[float | None, str]] = {}

    def note(
        self, decision: NodeDecision, capacity: Amounts, at_s: float, report_s: float | None, write: str
    ) -> None:
        """Take down a decision, if its report, its outcome or the write differ from the last one's."""
        mark = (report_s, f"{decision.reason} {write} {decision.published} {decision.mid_published}")
        if self._last_report.get(decision.node) == mark:
            return
        self._last_report[decision.node] = mark
        if len(self._waiting) >= MOST_WAITING:
            metrics.RECORDED.labels("dropped").inc()
            return
        self._waiting.append(line_of(decision, capacity, at_s, report_s, write))

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._last_report.pop(node, None)

    async def run(self) -> None:
        """Write for ever; what waits at the end is written before it returns."""
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                if lines := self._take():
                    await asyncio.to_thread(self._write, lines)
        finally:
            self._write(self._take())

    def _take(self) -> list[bytes]:
        lines, self._waiting = self._waiting, []
        return lines

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        try:
            self._append(b"".join(lines))
        except OSError as error:
            metrics.RECORDED.labels("dropped").inc(len(lines))
            logger.warning("recording %s: %s; %d lines are lost", self._path, error, len(lines))
        else:
            metrics.RECORDED.labels("written").inc(len(lines))

    def _append(self, text: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size + len(text) > self._most_bytes:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("ab") as file:
            file.write(text)
