"""The decision about one node's batch and mid resources, with everything that led to it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koord.slo_config.resolve import Resolved
from manager.overcommit.amounts import NO_OFFER, Offer
from manager.overcommit.formula import Ledger
from manager.overcommit.joint import JointLedger
from manager.overcommit.mid import MidLedger
from manager.overcommit.peak import NO_BURST, Burst
from manager.overcommit.pod_share import PodKey
from manager.overcommit.shortage import RESOURCE_NAMES, Shortage, TierName
from manager.overcommit.staleness import FRESH, Freshness
from manager.overcommit.sums import PodSums


class Reason(StrEnum):
    """Why the resources are what they are. CALCULATED publishes; every other reason removes them."""

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


@dataclass(frozen=True, slots=True)
class Cut:
    """One step after the formula that offered less than was calculated. by: what did it."""

    tier: TierName
    by: str
    before: Offer
    after: Offer
    why: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """What the formulas gave and their terms. joint_cpu, joint_memory: the ledger over both tiers, whether or not it
    is enforced. batch, mid: the formulas' results. sums: what they added up."""

    batch: Offer
    mid: Offer
    cpu: Ledger
    memory: Ledger
    mid_cpu: MidLedger
    mid_memory: MidLedger
    joint_cpu: JointLedger
    joint_memory: JointLedger
    sums: PodSums
    burst: Burst = NO_BURST


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """What to publish on a node.

    calculation: None when the resources are removed. target: batch before damping, in the units of the node; what
    the stabilization window remembers. origin: what the origin annotation carries, before other schedulers' share is
    taken off (zeros when removed). published, mid_published: what the node should show, None to remove. cuts: what
    made less of the results. held_batch, held_mid: what running pods hold. expires_at_s: when the report gets too
    old. look_again_s: when, by time alone, another decision may be due (epoch seconds). report_age_s: by the
    manager's clock, negative when the agent's is ahead. unmeasured and dangling: see PodSums.
    """

    node: str
    reason: Reason
    resolved: Resolved
    origin: Offer = NO_OFFER
    published: Offer | None = None
    mid_published: Offer | None = None
    calculation: Calculation | None = None
    target: Offer = NO_OFFER
    mid_target: Offer = NO_OFFER
    cpu_normalization: float | None = None
    third_party: Offer = NO_OFFER
    held_batch: Offer = NO_OFFER
    held_mid: Offer = NO_OFFER
    cuts: tuple[Cut, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    freshness: Freshness = FRESH
    report_age_s: float | None = None
    expires_at_s: float | None = None
    look_again_s: float | None = None
    unmeasured: tuple[PodKey, ...] = ()
    dangling: tuple[PodKey, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def calculated(self) -> Offer | None:
        """The result of the batch formula."""
        return self.calculation.batch if self.calculation else None

    @property
    def cpu(self) -> Ledger | None:
        """The batch formula of cpu."""
        return self.calculation.cpu if self.calculation else None

    @property
    def memory(self) -> Ledger | None:
        """The batch formula of memory."""
        return self.calculation.memory if self.calculation else None

    def offers(self) -> dict[TierName, Offer | None]:
        """What each tier should show."""
        return {TierName.BATCH: self.published, TierName.MID: self.mid_published}

    def resources(self) -> dict[str, int | None]:
        """The amount of each owned resource name: milli-cores or bytes, None to remove it."""
        found: dict[str, int | None] = {}
        for tier, offer in self.offers().items():
            cpu_name, memory_name = RESOURCE_NAMES[tier]
            found[cpu_name] = None if offer is None else offer.cpu
            found[memory_name] = None if offer is None else offer.memory
        return found


TIERS: Final = (TierName.BATCH, TierName.MID)
