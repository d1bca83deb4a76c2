"""What is remembered of each node beyond its objects: recent offers for damping, recent usage for peak policies.

Nothing is kept for a node whose strategy uses neither, and nothing survives the process: a manager that has just
begun to lead lets offers grow only after it has watched for a whole stabilization window.
"""

import math
from collections import deque
from typing import Final

from koord.slo_config.options import Options
from manager.overcommit.amounts import Offer
from manager.overcommit.damping import Recent
from manager.overcommit.decide import NO_MEMORY, Memory
from manager.overcommit.decision import NodeDecision
from manager.overcommit.peak import measured_usage
from manager.overcommit.report import UsageReport
from manager.overcommit.sums import PodSums

_SECONDS_PER_MINUTE: Final = 60.0


class WindowMinimum:
    """The smallest value of a step function over the last `window_s` seconds."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque()
        self._since_s = math.inf

    def add(self, at_s: float, value: int) -> None:
        """From `at_s` on the function has this value. Times do not go back."""
        self._since_s = min(self._since_s, at_s)
        begins_s = at_s
        while self._steps and self._steps[-1][1] >= value:
            # A window that begins within the larger step holds this smaller value too.
            begins_s = self._steps.pop()[0]
        self._steps.append((begins_s, value))

    def get(self, now_s: float, window_s: float) -> int | None:
        """The minimum; None while what is known does not reach back that far."""
        begin_s = now_s - window_s
        if self._since_s > begin_s:
            return None
        while len(self._steps) > 1 and self._steps[1][0] <= begin_s:
            self._steps.popleft()
        return self._steps[0][1]


class NodeMemory:
    """The memory of one node."""

    def __init__(self) -> None:
        self._offers = tuple(WindowMinimum() for _ in range(4))
        self._usage: deque[tuple[float, int, int]] = deque()

    def note_decision(self, decision: NodeDecision, now_s: float) -> None:
        """Remember what would be offered without damping."""
        for window, value in zip(self._offers, (*decision.target, *decision.mid_target), strict=True):
            window.add(now_s, value)

    def note_usage(self, report: UsageReport, sums: PodSums, window_minutes: int) -> None:
        """Remember a report's usage, once."""
        at_s = report.updated_s
        if at_s is None or (self._usage and at_s <= self._usage[-1][0]):
            return
        self._usage.append((at_s, *measured_usage(sums, report)))
        while self._usage[0][0] < at_s - window_minutes * _SECONDS_PER_MINUTE:
            self._usage.popleft()

    def recall(self, options: Options, report: UsageReport | None, now_s: float, unchanged_s: float) -> Memory:
        """What a decision on the report may use."""
        if not (options.damping.is_on or options.peak.sigmas > 0):
            return NO_MEMORY
        window_s = float(options.damping.stabilization_seconds)
        lowest = [window.get(now_s, window_s) for window in self._offers]
        return Memory(
            Recent(_offer(lowest[0], lowest[1]), unchanged_s),
            Recent(_offer(lowest[2], lowest[3]), unchanged_s),
            self._before(report, options.peak.window_minutes) if options.peak.sigmas > 0 else (),
        )

    def _before(self, report: UsageReport | None, window_minutes: int) -> tuple[tuple[int, int], ...]:
        if report is None or report.updated_s is None:
            return ()
        begin_s = report.updated_s - window_minutes * _SECONDS_PER_MINUTE
        return tuple((cpu, memory) for at_s, cpu, memory in self._usage if begin_s <= at_s < report.updated_s)


def _offer(cpu: int | None, memory: int | None) -> Offer | None:
    return None if cpu is None or memory is None else Offer(cpu, memory)
