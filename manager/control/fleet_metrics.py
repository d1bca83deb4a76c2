"""Gauges about nodes and their sums, made from the last decisions whenever somebody asks.

So deciding costs nothing for them, and a node that is gone leaves none behind. Cores and bytes throughout.
"""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from manager.overcommit.account import Account, account_of, cores
from manager.overcommit.amounts import Amounts, Offer
from manager.overcommit.decision import NodeDecision

Decided = tuple[NodeDecision, Amounts, float | None]
"""A decision, the node's capacity, and when its report was made (epoch seconds)."""

_SUMS: tuple[tuple[str, str, Callable[[Account], Offer]], ...] = (
    ("capacity", "", lambda account: account.capacity),
    ("offered", "batch", lambda account: account.batch_offered),
    ("offered", "mid", lambda account: account.mid_offered),
    ("held", "batch", lambda account: account.batch_held),
    ("held", "mid", lambda account: account.mid_held),
    ("used", "batch", lambda account: account.batch_used),
    ("used", "production", lambda account: account.production_used),
    ("violated", "batch", lambda account: account.violated),
)
_HELP = {
    "capacity": "Capacity of all nodes",
    "offered": "What nodes offer of a tier",
    "held": "What running pods hold of a tier",
    "used": "What is used, by batch pods and by everything else (system included)",
    "violated": "How much of what batch pods hold is no longer free beside production",
}


class FleetMetrics(Collector):
    """Gauges per node and over all nodes. `decided` gives the last decision of every node."""

    def __init__(self, decided: Callable[[], Iterable[Decided]]) -> None:
        self._decided = decided

    def register(self, registry: CollectorRegistry) -> None:
        """Have the registry ask here."""
        registry.register(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing up front, so that registering does not walk all nodes."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """All gauges, as of now."""
        node = {
            (tier, unit): GaugeMetricFamily(
                f"koord_manager_node_{tier}_{unit}", f"{tier} {unit} decided for a node.", labels=["node"]
            )
            for tier in ("batch", "mid")
            for unit in ("cpu_cores", "memory_bytes")
        }
        reported = GaugeMetricFamily(
            "koord_manager_node_report_timestamp_seconds",
            "When a node's report was made, by its own clock.",
            labels=["node"],
        )
        totals: dict[tuple[str, str], list[int]] = {(kind, tier): [0, 0] for kind, tier, _ in _SUMS}
        for decision, capacity, report_s in self._decided():
            account = account_of(decision, capacity)
            for tier, offer in (("batch", account.batch_offered), ("mid", account.mid_offered)):
                node[tier, "cpu_cores"].add_metric([decision.node], cores(offer.cpu))
                node[tier, "memory_bytes"].add_metric([decision.node], offer.memory)
            if report_s is not None:
                reported.add_metric([decision.node], report_s)
            for kind, tier, pick in _SUMS:
                amount = pick(account)
                totals[kind, tier][0] += amount.cpu
                totals[kind, tier][1] += amount.memory
        yield from node.values()
        yield reported
        yield from _total_families(totals)


def _total_families(totals: dict[tuple[str, str], list[int]]) -> Iterable[GaugeMetricFamily]:
    for position, unit in ((0, "cpu_cores"), (1, "memory_bytes")):
        for kind, help_text in _HELP.items():
            tiers = [tier for found, tier in totals if found == kind]
            labels = ["tier"] if tiers != [""] else []
            family = GaugeMetricFamily(f"koord_manager_{kind}_{unit}", f"{help_text}.", labels=labels)
            for tier in tiers:
                amount = totals[kind, tier][position]
                family.add_metric([tier] if labels else [], cores(amount) if position == 0 else amount)
            yield family
