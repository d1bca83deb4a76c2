"""What a decision means for one node in figures: sold, used, and what is no longer there. Pure."""

from dataclasses import dataclass

from koord.api.quantity import NANO_PER_MILLI
from manager.overcommit.amounts import NO_OFFER, Amounts, Offer, to_offer
from manager.overcommit.decision import NodeDecision


@dataclass(frozen=True, slots=True)
class Account:
    """One node at one moment; milli-cores and bytes.

    batch_offered, mid_offered: what the node should show. batch_held, mid_held: what running pods took of it.
    batch_used: what batch pods use. production_used: what everything else uses, the system included, an unmeasured
    pod by its request. violated: how much of what batch pods hold is no longer beside production: production grew
    into what was sold. Zeros while there is no usable report.
    """

    capacity: Offer
    batch_offered: Offer
    mid_offered: Offer
    batch_held: Offer
    mid_held: Offer
    batch_used: Offer = NO_OFFER
    production_used: Offer = NO_OFFER
    violated: Offer = NO_OFFER


def account_of(decision: NodeDecision, capacity: Amounts) -> Account:
    """The account of a decision on a node of this capacity."""
    whole = to_offer(capacity)
    account = Account(
        capacity=whole,
        batch_offered=decision.published or NO_OFFER,
        mid_offered=decision.mid_published or NO_OFFER,
        batch_held=decision.held_batch,
        mid_held=decision.held_mid,
    )
    calculation = decision.calculation
    if calculation is None:
        return account
    sums = calculation.sums
    system = Amounts(calculation.cpu.system, calculation.memory.system)
    production = to_offer(sums.usage.plus(system))
    held_cores = _in_cores(decision)
    left = whole.minus(production)
    return Account(
        whole,
        account.batch_offered,
        account.mid_offered,
        account.batch_held,
        account.mid_held,
        to_offer(sums.batch_usage),
        production,
        held_cores.minus(left),
    )


def _in_cores(decision: NodeDecision) -> Offer:
    """What batch pods hold, in this machine's own milli-cores: batch-cpu is sold in normalized ones."""
    ratio = decision.cpu_normalization or 1.0
    return Offer(int(decision.held_batch.cpu / max(ratio, 1.0)), decision.held_batch.memory)


def cores(milli: int) -> float:
    """Milli-cores as cores."""
    return milli * NANO_PER_MILLI / 1e9
