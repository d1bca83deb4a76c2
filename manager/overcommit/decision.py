"""The decision about one node's batch resources, with everything that led to it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from koord.api import names, quantity
from koord.slo_config.resolve import Resolved
from manager.overcommit.formula import Ledger
from manager.overcommit.pod_share import PodKey

_SHOWN_PODS = 20


class Reason(StrEnum):
    """Why the batch resources are what they are. CALCULATED publishes; every other reason removes them."""

    CALCULATED = "calculated"
    CLUSTER_DISABLED = "colocation-disabled-for-cluster"
    NODE_DISABLED = "colocation-disabled-for-node"
    NO_REPORT = "no-report"
    REPORT_WITHOUT_TIME = "report-without-time"
    REPORT_EXPIRED = "report-expired"
    REPORT_UNUSABLE = "report-unusable"

    @property
    def is_degraded(self) -> bool:
        """Colocation is on, but the report cannot be trusted."""
        return self not in (Reason.CALCULATED, Reason.CLUSTER_DISABLED, Reason.NODE_DISABLED)


class Batch(NamedTuple):
    """Batch amounts in their own units: cpu in milli-cores, memory in bytes."""

    cpu: int
    memory: int


NO_BATCH: Final = Batch(0, 0)


class Term(NamedTuple):
    """One number of the formula. amount: a quantity text (cores or bytes) or a percent; source: where it is from."""

    resource: str
    name: str
    amount: str
    source: str


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """What to publish on a node.

    calculated: the formula's result. origin: after cpu normalization, what the origin annotation carries (zeros
    when removed). published: after other schedulers' allocations, None to remove. expires_at_s: when the report
    gets too old; the decision must be taken again then. report_age_s: by the manager's clock, negative when the
    agent's clock is ahead. unmeasured and dangling: see ProtectedSums.
    """

    node: str
    reason: Reason
    resolved: Resolved
    origin: Batch
    published: Batch | None
    calculated: Batch | None = None
    cpu: Ledger | None = None
    memory: Ledger | None = None
    cpu_normalization: float | None = None
    third_party: Batch = NO_BATCH
    report_age_s: float | None = None
    expires_at_s: float | None = None
    unmeasured: tuple[PodKey, ...] = ()
    dangling: tuple[PodKey, ...] = ()
    notes: tuple[str, ...] = ()

    def terms(self) -> tuple[Term, ...]:
        """Every term of both formulas in the order they are applied; empty when nothing was calculated."""
        ledgers = [ledger for ledger in (self.cpu, self.memory) if ledger is not None]
        return tuple(term for ledger in ledgers for term in self._terms_of(ledger))

    def as_log(self) -> dict[str, Any]:
        """The decision for a log line or `explain`: reason, results, terms, and the pods that deserve a word."""
        fields: dict[str, Any] = {"node": self.node, "reason": str(self.reason)}
        if self.report_age_s is not None:
            fields["report_age_s"] = round(self.report_age_s, 3)
        if self.published is not None:
            fields[names.BATCH_CPU], fields[names.BATCH_MEMORY] = self.published
        for term in self.terms():
            fields.setdefault("terms", {}).setdefault(term.resource, {})[term.name] = term.amount
        for title, pods in (("unmeasured", self.unmeasured), ("dangling", self.dangling)):
            if pods:
                fields[title] = [f"{namespace}/{name}" for namespace, name in pods[:_SHOWN_PODS]]
                fields[f"{title}_count"] = len(pods)
        if self.notes:
            fields["notes"] = list(self.notes)
        return fields

    def _terms_of(self, ledger: Ledger) -> list[Term]:
        resource = ledger.resource
        strategy = self.resolved

        def term(name: str, amount: int | None, source: str) -> Term:
            return Term(resource, name, "none" if amount is None else quantity.format_nano(amount), source)

        reclaim = f"{resource}ReclaimThresholdPercent"
        cap_field = "batchCPUThresholdPercent" if resource == "cpu" else "batchMemoryThresholdPercent"
        policy_field = f"{resource}CalculatePolicy"
        position = 0 if resource == "cpu" else 1
        calculated = self.calculated or NO_BATCH
        return [
            term("capacity", ledger.capacity, "node status.capacity"),
            Term(resource, "reclaimPercent", str(ledger.reclaim_percent), strategy.source_of(reclaim)),
            term("margin", ledger.margin, "(100 - reclaimPercent) of capacity"),
            term("systemUsage", ledger.system_measured, "NodeMetric systemUsage"),
            term("hostApplications", ledger.host_applications, "NodeMetric hostApplicationMetric, prod and mid"),
            term("kubeletReserved", ledger.kubelet_reserved, "node capacity - allocatable"),
            term("annotationReserved", ledger.annotation_reserved, names.ANNOTATION_NODE_RESERVATION),
            term("system", ledger.system, "max(systemUsage + hostApplications, reserved)"),
            term("protectedUsage", ledger.protected_usage, "NodeMetric podsMetric, requests where unmeasured"),
            term("protectedRequests", ledger.protected_requests, "pod specs"),
            term("protectedMax", ledger.protected_max, "max(request, usage) of measured pods"),
            Term(resource, "policy", ledger.policy, strategy.source_of(policy_field)),
            term("charged", ledger.charged, f"by policy {ledger.policy}"),
            term("cap", ledger.cap, strategy.source_of(cap_field)),
            Term(resource, "calculated", str(calculated[position]), "max(capacity - margin - charged, 0), capped"),
            Term(resource, "afterNormalization", str(self.origin[position]), "cpu normalization ratio, if above 1"),
            Term(resource, "thirdParty", str(self.third_party[position]), names.ANNOTATION_THIRD_PARTY_ALLOCATIONS),
            Term(resource, "published", str((self.published or NO_BATCH)[position]), "node status"),
        ]
