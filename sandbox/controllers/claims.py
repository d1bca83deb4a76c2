"""Which children belong to a workload: owned ones that still match, matching ones without an owner. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from koord.api.selectors import Selector
from sandbox.admission.request import JsonObject
from sandbox.controllers.templates import labels_of


@dataclass(frozen=True)
class Claim:
    """keep: children to count. adopt: ones to become the controller of. release: ones to give up."""

    keep: tuple[JsonObject, ...]
    adopt: tuple[JsonObject, ...]
    release: tuple[JsonObject, ...]


def claim(owner: JsonObject, selector: Selector, owned: Sequence[JsonObject], orphans: Sequence[JsonObject]) -> Claim:
    """Sort children by the selector. An owner that is being deleted takes and gives nothing."""
    keep = tuple(child for child in owned if selector.matches(labels_of(child)))
    if owner["metadata"].get("deletionTimestamp"):
        return Claim(keep, (), ())
    release = tuple(child for child in owned if not selector.matches(labels_of(child)))
    adopt = tuple(
        child
        for child in orphans
        if selector.matches(labels_of(child)) and not child["metadata"].get("deletionTimestamp")
    )
    return Claim(keep, adopt, release)
