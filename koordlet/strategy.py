"""What every strategy is to the agent: facts in, wishes and the numbers behind them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from koordlet.snapshot import Snapshot
from koordlet.sysfs.changes import Owner, Wish


@dataclass(frozen=True)
class Proposal:
    """The files a strategy wants, and the decision that led to them (for the log line when something changes)."""

    wishes: Sequence[Wish]
    decision: object


class Strategy(Protocol):
    """One concern of the node. Raising stops only this strategy's part of this cycle; its files stay as they are."""

    @property
    def owner(self) -> Owner:
        """Whose files these are."""
        ...

    def propose(self, snapshot: Snapshot) -> Proposal | None:
        """The wishes of this cycle, None to leave this strategy's files as they are."""
        ...
