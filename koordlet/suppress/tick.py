"""What a cycle does about suppression at all, from what is known (pure)."""

from dataclasses import dataclass
from enum import StrEnum

POLICY_QUOTA = "cfsQuota"
POLICY_CPUSET = "cpuset"


class Presence(StrEnum):
    """Whether the NodeSLO has told us anything."""

    UNKNOWN = "unknown"
    """Never read: nothing was changed on its account, nothing is to undo."""
    DELETED = "deleted"
    PRESENT = "present"


class Action(StrEnum):
    """What to do with one knob."""

    KEEP = "keep"
    RESTORE = "restore"
    SUPPRESS = "suppress"
    SUPPRESS_CONTAINERS = "suppress containers only"
    RESTORE_BUT_ALLOCATED = "restore but containers with own CPUs"
    STEP_DOWN = "step down"


class TickReason(StrEnum):
    """Why."""

    NO_SLO = "no NodeSLO yet"
    SLO_DELETED = "the NodeSLO was deleted"
    DISABLED = "resourceUsedThresholdWithBE.enable is not true"
    BE_CPU_MANAGER = "the best-effort CPU manager owns the CPU sets"
    NO_NODE = "own Node unknown"
    NO_PODS = "pod list is empty"
    LATE = "no fresh sample; waiting"
    STALE = "no fresh sample for too long"
    NO_PROCESSORS = "processor list unknown"
    POLICY = "policy"


@dataclass(frozen=True)
class TickInput:
    """What is at hand. `sample_age_s` None: there was never a sample of the node."""

    slo: Presence
    is_enabled: bool
    policy: str
    has_node: bool
    pod_count: int
    sample_age_s: float | None
    has_processors: bool
    is_static_cpu_manager: bool = False
    is_be_cpu_manager: bool = False


@dataclass(frozen=True)
class TickLimits:
    """Seconds. Older than `fresh_s` is not used; older than `stale_s` makes the limits fall."""

    fresh_s: float
    stale_s: float


@dataclass(frozen=True)
class Tick:
    """The outcome for both knobs."""

    quota: Action
    cpuset: Action
    reason: TickReason


def decide_tick(known: TickInput, limits: TickLimits) -> Tick:
    """Which way both knobs go this cycle.

    A missing NodeSLO that was there before is a switched-off feature: restore. Missing facts keep the last
    limits, but only for so long: after `stale_s` without a sample, production is protected by falling limits.
    """
    off = _switched_off(known)
    if off is not None:
        return off
    if not known.has_node:
        return Tick(Action.KEEP, Action.KEEP, TickReason.NO_NODE)
    age = known.sample_age_s
    if age is None or age > limits.fresh_s:
        if age is not None and age > limits.stale_s:
            return Tick(Action.STEP_DOWN, Action.KEEP, TickReason.STALE)
        return Tick(Action.KEEP, Action.KEEP, TickReason.LATE)
    if known.pod_count == 0:
        return Tick(Action.KEEP, Action.KEEP, TickReason.NO_PODS)
    if not known.has_processors:
        return Tick(Action.KEEP, Action.KEEP, TickReason.NO_PROCESSORS)
    if known.policy == POLICY_QUOTA:
        return Tick(Action.SUPPRESS, Action.RESTORE, TickReason.POLICY)
    if known.is_static_cpu_manager:
        return Tick(Action.RESTORE, Action.SUPPRESS_CONTAINERS, TickReason.POLICY)
    return Tick(Action.RESTORE, Action.SUPPRESS, TickReason.POLICY)


def _switched_off(known: TickInput) -> Tick | None:
    if known.slo is Presence.UNKNOWN:
        return Tick(Action.KEEP, Action.KEEP, TickReason.NO_SLO)
    if known.slo is Presence.DELETED:
        return Tick(Action.RESTORE, Action.RESTORE, TickReason.SLO_DELETED)
    if known.is_be_cpu_manager:
        return Tick(Action.RESTORE, Action.RESTORE_BUT_ALLOCATED, TickReason.BE_CPU_MANAGER)
    if not known.is_enabled:
        return Tick(Action.RESTORE, Action.RESTORE, TickReason.DISABLED)
    return None
