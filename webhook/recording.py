"""Metrics of every decision, and a log line for every pod that was changed, refused or not understood.

Neither is written while an API server waits: decisions are noted, and some milliseconds later recorded together.
A run of equal work also costs a third of the same work spread between requests. For the same reason the log
record is filled directly: finding the caller's line would cost as much as a decision and always find this file.
"""

from __future__ import annotations

import asyncio
import logging
import time

from webhook import metrics
from webhook.decision import Decision, Reason, Verdict
from webhook.review import Submission, pod_reference

logger = logging.getLogger("koord.webhook.pods")

BATCH_S = 0.01
BATCH_LIMIT = 100

_QUIET = frozenset(
    {Reason.UNCHANGED, Reason.NOT_A_POD, Reason.OTHER_OPERATION, Reason.EXCLUDED_NAMESPACE, Reason.STATIC_POD}
)
_BLANK = {**vars(logging.LogRecord(logger.name, logging.INFO, __file__, 0, "", (), None)), "exc_info": None}


class _Line(logging.LogRecord):
    """A record that does not look around for who made it."""

    def __init__(self, level: int, message: str, created_s: float, fields: dict[str, object]) -> None:
        self.__dict__.update(_BLANK)
        self.__dict__.update(fields)
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.created, self.msecs = created_s, (created_s % 1) * 1000
        self.msg = message


class Recorder:
    """Notes decisions and records them in batches. Use from one event loop only."""

    def __init__(self) -> None:
        self._noted: list[tuple[Submission, Decision, int, float, float]] = []

    def note(self, submission: Submission, decision: Decision, answer_bytes: int, elapsed_s: float) -> None:
        """Have a decision, whose answer has that size, recorded within BATCH_S."""
        if not self._noted:
            asyncio.get_running_loop().call_later(BATCH_S, self.flush)
        self._noted.append((submission, decision, answer_bytes, elapsed_s, time.time()))
        if len(self._noted) >= BATCH_LIMIT:
            self.flush()

    def flush(self) -> None:
        """Record what was noted so far."""
        noted, self._noted = self._noted, []
        for submission, decision, answer_bytes, elapsed_s, at_s in noted:
            metrics.SECONDS.observe(elapsed_s)
            metrics.count_decision(submission.request.operation, decision.allowed, decision.reason)
            if decision.operations:
                metrics.ANSWER_BYTES.observe(answer_bytes)
            for outcome in decision.profiles:
                metrics.BY_VERDICT[outcome.verdict].inc()
            _log(submission, decision, elapsed_s, at_s)


def _log(submission: Submission, decision: Decision, elapsed_s: float, at_s: float) -> None:
    level = logging.INFO if decision.allowed else logging.WARNING
    if decision.reason in _QUIET or not logger.isEnabledFor(level):
        return
    message = "pod admitted" if decision.allowed else f"pod refused: {decision.message}"
    logger.handle(_Line(level, message, at_s, _fields(submission, decision, elapsed_s)))


def _fields(submission: Submission, decision: Decision, elapsed_s: float) -> dict[str, object]:
    applied: list[str] = []
    overridden: list[str] = []
    for outcome in decision.profiles:
        if outcome.verdict is Verdict.APPLIED:
            applied.append(outcome.name)
        overridden += [
            f"{outcome.name}: {change.key} was {change.before!r}"
            for change in outcome.changes
            if change.before is not None
        ]
    translation = decision.translation
    return {
        "pod": pod_reference(submission),
        "uid": submission.request.uid,
        "reason": decision.reason,
        "profiles": applied,
        "overridden": overridden,
        "resources": translation.reason if translation is not None else None,
        "band": translation.band if translation is not None else None,
        "operations": len(decision.operations),
        "warnings": decision.warnings,
        "dry_run": bool(submission.request.dry_run),
        "us": round(elapsed_s * 1e6),
    }
