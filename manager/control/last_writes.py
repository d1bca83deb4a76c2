"""When each node was last written, also across restarts and changes of the leader."""

import zlib

from manager.overcommit.node_facts import NodeFacts


class LastWrites:
    """Moments in epoch seconds. A node that this process has not written yet says itself when it was; one that does
    not say gets a moment of the last interval, spread over the nodes, so that a restart does not write them all in
    one second."""

    def __init__(self, started_s: float) -> None:
        self._started_s = started_s
        self._at_s: dict[str, float] = {}

    def at(self, facts: NodeFacts, interval_s: float, now_s: float) -> float:
        """The last write of a node; `interval_s` is its update interval."""
        known = self._at_s.get(facts.name)
        if known is not None:
            return known
        noted_s = facts.last_offer.at_s
        if noted_s is None:
            spread = zlib.crc32(facts.name.encode()) / 2**32
            noted_s = self._started_s - interval_s * spread
        self._at_s[facts.name] = min(noted_s, now_s)
        return self._at_s[facts.name]

    def note(self, name: str, at_s: float) -> None:
        """The node was written."""
        self._at_s[name] = at_s

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._at_s.pop(name, None)
