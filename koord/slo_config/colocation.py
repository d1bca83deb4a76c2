"""`colocation-config`: the cluster strategy and the exceptions for some nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config.bounds import bound_problems, refuse_out_of_bounds
from koord.slo_config.json_document import json_document
from koord.slo_config.overlap import overlap_warnings
from koord.slo_config.schema import Fragment, FragmentReader, ListOf, Record, Scalar, combine
from koord.slo_config.selection import SELECTOR_SCHEMA, NodeEntry, first_match, read_entries
from koord.slo_config.strategy import DEFAULTS, STRATEGY_FIELDS, STRATEGY_SCHEMA, problem_with

_ENTRY = Record({"name": Scalar("string"), "nodeSelector": SELECTOR_SCHEMA, **STRATEGY_FIELDS})
_DOCUMENT: Final = Record({**STRATEGY_FIELDS, "nodeConfigs": ListOf(_ENTRY)})


@dataclass(frozen=True, slots=True)
class ColocationConfig:
    """A usable configuration. `stated` is the cluster fragment as written, `cluster` the same over the defaults."""

    stated: Fragment
    cluster: Fragment
    entries: tuple[NodeEntry, ...]
    warnings: tuple[str, ...] = ()

    def entry_for(self, labels: Mapping[str, str]) -> NodeEntry | None:
        """The entry that applies to a node with these labels."""
        return first_match(self.entries, labels)


BUILT_IN: Final = ColocationConfig({}, DEFAULTS, ())


def parse(text: str, object_ref: str) -> ColocationConfig:
    """Read the JSON text of the key and refuse a cluster strategy that is out of range.

    Raises InvalidInput as `read` does, and for the first field out of range.
    """
    config = read(text, object_ref)
    if problem := problem_with(config.cluster):
        field, _, rest = problem.partition(": ")
        raise InvalidInput(object_ref, field, config.cluster[field], rest.partition("allowed: ")[2])
    refuse_out_of_bounds(names.KEY_COLOCATION, config.cluster, config.stated, object_ref)
    return config


def read(text: str, object_ref: str) -> ColocationConfig:
    """Read without judging the cluster strategy's ranges. An empty text or `null` states nothing.

    Raises InvalidInput for text that is no JSON and for a wrong type anywhere. An entry of nodeConfigs that
    cannot be used is neutralised, with a warning.
    """
    reader = FragmentReader(object_ref)
    document = reader.read(_DOCUMENT, json_document(text, object_ref) if text else {}, "")
    stated = {name: value for name, value in document.items() if name != "nodeConfigs"}
    cluster = combine(STRATEGY_SCHEMA, DEFAULTS, stated)
    entries, warnings = [], [f"{path}: unknown field, ignored" for path in reader.unknown_fields]
    for entry in read_entries(document.get("nodeConfigs", ()), "nodeConfigs"):
        judged = _neutralised_if_unusable(entry, cluster)
        if judged.problem:
            warnings.append(judged.problem)
        entries.append(judged)
    warnings += overlap_warnings(entries)
    return ColocationConfig(stated, cluster, tuple(entries), tuple(warnings))


def _neutralised_if_unusable(entry: NodeEntry, cluster: Fragment) -> NodeEntry:
    if entry.problem:
        return entry
    merged = combine(STRATEGY_SCHEMA, cluster, entry.fields)
    wrong = problem_with(merged)
    for found in bound_problems(names.KEY_COLOCATION, merged, entry.fields):
        wrong = wrong or f"{found.path}: invalid value {found.number:g}: {found.allowed}"
    if not wrong:
        return entry
    problem = f"{entry.path}.{wrong}; the cluster strategy applies to its nodes"
    return NodeEntry(entry.name, entry.path, entry.selector, {}, problem)
