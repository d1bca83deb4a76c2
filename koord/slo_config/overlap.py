"""Which entries of a key may meet on one node: the first would win silently, so admission refuses them, and reading
them says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from koord.api.selectors import Selector
from koord.slo_config.selection import NodeEntry

_MOST_SAMPLES = 1000
"""Label sets made of one entry at most; a selector of many values is sampled from the front."""


def overlapping(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, NodeEntry] | None:
    """Two entries whose selectors both match some node that could be, found by labels that satisfy one of them."""
    for entry in entries:
        for labels in _samples(entry.selector):
            matching = [one for one in entries if one.selector is not None and one.selector.matches(labels)]
            if len(matching) > 1:
                return matching[0], matching[1]
    return None


def overlap_warnings(entries: Sequence[NodeEntry]) -> list[str]:
    """A sentence when two entries may meet on one node, for a reader who did not refuse them."""
    if (pair := overlapping(entries)) is None:
        return []
    return [f"{pair[0].label()} and {pair[1].label()} can match the same node; the first one wins there"]


def meeting(
    entries: Sequence[NodeEntry], nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[str, tuple[NodeEntry, NodeEntry]] | None:
    """A node that two entries match, with them. `nodes`: (name, labels)."""
    for name, labels in nodes:
        matching = [entry for entry in entries if entry.selector is not None and entry.selector.matches(labels)]
        if len(matching) > 1:
            return name, (matching[0], matching[1])
    return None


def _samples(selector: Selector | None) -> Iterator[dict[str, str]]:
    """Label sets that the selector's own equalities and values suggest."""
    if selector is None:
        return
    valued = [requirement for requirement in selector.requirements if requirement.values]
    choices = product(*(requirement.values for requirement in valued))
    for _, values in zip(range(_MOST_SAMPLES), choices, strict=False):
        yield dict(selector.equalities) | {
            requirement.key: value for requirement, value in zip(valued, values, strict=True)
        }
