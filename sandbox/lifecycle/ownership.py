"""What garbage collection does with one object, from its owners and dependents. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sandbox.admission.request import JsonObject

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class OwnerState(StrEnum):
    """How an owner that a reference names is doing."""

    SOLID = "solid"
    WAITING = "waiting"  # being deleted in the foreground: waits for its dependents to go
    ABSENT = "absent"


@dataclass(frozen=True)
class Keep:
    """Nothing to do."""


@dataclass(frozen=True)
class DropReferences:
    """Keep the object, without the references to these owners (by uid)."""

    uids: tuple[str, ...]


@dataclass(frozen=True)
class Delete:
    """Delete the object; propagation is Background, Foreground or Orphan."""

    propagation: str


@dataclass(frozen=True)
class RemoveFinalizer:
    """Nothing more holds the object's own deletion back."""

    finalizer: str


@dataclass(frozen=True)
class ReleaseDependents:
    """Take this owner out of its dependents' references, then let it go."""


Act = Keep | DropReferences | Delete | RemoveFinalizer | ReleaseDependents


def decide_as_dependent(
    obj: JsonObject, owners: Sequence[tuple[JsonObject, OwnerState]], has_dependents: bool
) -> Act:
    """What becomes of an object given the state of each of its owners.

    One solid owner keeps it; without any it goes, in the foreground when an owner waits for it and it
    has dependents of its own.
    """
    if not owners or obj["metadata"].get("deletionTimestamp"):
        return Keep()
    states = [state for _, state in owners]
    if OwnerState.SOLID in states:
        gone = tuple(owner["uid"] for owner, state in owners if state is not OwnerState.SOLID)
        return DropReferences(gone) if gone else Keep()
    if OwnerState.WAITING in states and has_dependents:
        return Delete("Foreground")
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return Delete("Orphan")
    return Delete("Foreground" if FOREGROUND in finalizers else "Background")


def decide_as_owner(obj: JsonObject, dependents: Sequence[JsonObject]) -> Act:
    """What a deleted object that is held by one of the collector's finalizers needs next.

    A foreground deletion waits for the dependents whose reference says blockOwnerDeletion.
    """
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if not metadata.get("deletionTimestamp"):
        return Keep()
    if ORPHAN in finalizers:
        return ReleaseDependents() if dependents else RemoveFinalizer(ORPHAN)
    if FOREGROUND in finalizers and not any(blocks(dependent, metadata["uid"]) for dependent in dependents):
        return RemoveFinalizer(FOREGROUND)
    return Keep()


def blocks(dependent: JsonObject, owner_uid: str) -> bool:
    """Whether a dependent holds back the foreground deletion of its owner."""
    references = dependent["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == owner_uid and owner.get("blockOwnerDeletion") for owner in references)


def is_waiting(owner: JsonObject) -> bool:
    """Whether an owner is being deleted in the foreground."""
    metadata = owner["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())
