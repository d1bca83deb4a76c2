"""What the webhook decided about a pod, and everything it looked at: one record for the answer, the log, the
metrics and `koordctl explain`. Pure data.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from koord.api.priority import PriorityBand
from webhook.json_patch import Operation


class Reason(StrEnum):
    """Why the answer is what it is; the values of the metric's `reason` label."""

    PATCHED = "patched"
    UNCHANGED = "unchanged"
    # Never looked at:
    NOT_A_POD = "not-a-pod"
    OTHER_OPERATION = "other-operation"
    EXCLUDED_NAMESPACE = "excluded-namespace"
    STATIC_POD = "static-pod"
    # Refused, as Koordinator does:
    NO_OBJECT = "no-object"
    PRIORITY_CLASS_MISSING = "priority-class-missing"
    INVALID_PROBABILITY = "invalid-probability"
    PATCH_FAILED = "patch-failed"
    EXTENDED_SPEC_UNREADABLE = "extended-spec-unreadable"
    # Allowed unchanged because the fault is ours, or not ours to judge:
    INVALID_QUANTITY = "invalid-quantity"
    UNDECODABLE = "undecodable"
    INTERNAL_ERROR = "internal-error"


class Verdict(StrEnum):
    """What became of one profile."""

    APPLIED = "applied"
    LOST_DRAW = "lost-draw"
    INVALID = "invalid"
    NAMESPACE_UNKNOWN = "namespace-unknown"
    NAMESPACE_MISMATCH = "namespace-mismatch"
    POD_MISMATCH = "pod-mismatch"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One thing a profile changed: `field` of its spec, the key it wrote, the value before (None: absent)."""

    field: str
    key: str
    before: str | None
    after: str | None


class ProfileOutcome(msgspec.Struct, frozen=True, gc=False):
    """One profile's part. `percent` and `draw`: applied when draw < percent; None when nothing was drawn."""

    name: str
    verdict: Verdict
    detail: str = ""
    percent: int = 100
    draw: int | None = None
    changes: tuple[Change, ...] = ()


class TranslationReason(StrEnum):
    """Why native resources were, or were not, replaced by the band's."""

    TRANSLATED = "translated"
    NOTHING_TO_TRANSLATE = "nothing-to-translate"
    NO_PROFILE_APPLIED = "no-profile-applied"
    SKIPPED_BY_PROFILE = "skipped-by-profile"
    SKIPPED_BY_GATE = "skipped-by-gate"
    BAND_WITHOUT_RESOURCES = "band-without-resources"


class Translation(msgspec.Struct, frozen=True, gc=False):
    """Outcome of the resource translation. `detail`: the profile that skipped it, or whence the band came."""

    reason: TranslationReason
    band: PriorityBand = PriorityBand.NONE
    detail: str = ""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The whole decision. A refusal has a `code` and a `message` and no operations."""

    allowed: bool
    reason: Reason
    operations: tuple[Operation, ...] = ()
    code: int = 0
    message: str = ""
    warnings: tuple[str, ...] = ()
    profiles: tuple[ProfileOutcome, ...] = ()
    translation: Translation | None = None


class Refusal(Exception):  # noqa: N818 - named by what it means for the pod
    """The pod must be refused; carries what the answer says."""

    def __init__(self, reason: Reason, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code
