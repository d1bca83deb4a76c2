"""slo-controller-config, judged before it reaches every node.

A key is judged when its text changes. First error wins: JSON and selectors, then ranges on the merged values, then
entries that could meet on one node, then nodes that two entries match now. The answer's text is Koordinator's
envelope, `___{"reason": ..., "message": ...}___`, which its tools parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord.api import names
from koord.api.errors import InvalidInput
from koord.api.objects import ConfigMap
from koord.slo_config import node_ratios, slo, slo_fields
from koord.slo_config.bounds import bound_errors
from koord.slo_config.json_document import json_document
from koord.slo_config.overlap import meeting, overlapping
from koord.slo_config.schema import Fragment, FragmentReader, ListOf, Record, Scalar, combine
from koord.slo_config.selection import SELECTOR_SCHEMA, NodeEntry, first_match, read_entries
from koord.slo_config.strategy import DEFAULTS, STRATEGY_SCHEMA
from webhook.judgement import ALLOWED, Judgement, Reason, refusal
from webhook.validation.config_network import network_errors

NodeLabels = Iterable[tuple[str, Mapping[str, str]]]
Check = Callable[[Fragment, str, str], None]

PARSE_FAILED: Final = "ParseConfigFail"
PARAMETER_INVALID: Final = "ConfigParamInvalid"
OVERLAP: Final = "NodeStrategiesOverlap"
NODE_CONFLICT: Final = "ExistNodeConfict"  # as Koordinator spells it, for tools that look for it


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its fields, defaults, and where the entries are. `flat`: the cluster's fields stand at the top."""

    name: str
    schema: Record
    defaults: Fragment
    entries: str
    flat: bool = False
    check: Check | None = None

    def document(self) -> Record:
        """The JSON document."""
        entry = Record({"name": Scalar("string"), "nodeSelector": SELECTOR_SCHEMA, **self.schema.fields})
        if self.flat:
            return Record({**self.schema.fields, self.entries: ListOf(entry)})
        return Record({"clusterStrategy": self.schema, self.entries: ListOf(entry)})


_APPLICATIONS = Record({"applications": ListOf(slo_fields.HOST_APPLICATION)})
KEYS: Final = (
    Key(names.KEY_COLOCATION, STRATEGY_SCHEMA, DEFAULTS, "nodeConfigs", flat=True),
    *(Key(block.key, block.schema, block.defaults, "nodeStrategies") for block in slo.BLOCKS),
    Key(names.KEY_HOST_APPLICATION, _APPLICATIONS, {}, "nodeConfigs", flat=True),
    Key(
        names.KEY_CPU_NORMALIZATION,
        node_ratios.NORMALIZATION,
        {},
        "nodeConfigs",
        flat=True,
        check=node_ratios.check_normalization,
    ),
    Key(
        names.KEY_RESOURCE_AMPLIFICATION,
        node_ratios.AMPLIFICATION,
        {},
        "nodeConfigs",
        flat=True,
        check=node_ratios.check_amplification,
    ),
)
_ORDER: Final = (names.KEY_COLOCATION, names.KEY_THRESHOLD, names.KEY_RESOURCE_QOS, names.KEY_SYSTEM)


class Refused(Exception):  # noqa: N818 - named by what it means for the object
    """The configuration is refused; `message` is a text, or facts by field."""

    def __init__(self, reason: str, message: Any) -> None:
        super().__init__(reason)
        self.envelope = f"___{msgspec.json.encode({'reason': reason, 'message': message}).decode()}___"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A key that reads: what the cluster and each entry state, and the entries' selectors."""

    key: Key
    stated: Fragment
    entries: tuple[NodeEntry, ...]

    @property
    def cluster(self) -> Fragment:
        """The cluster's complete value."""
        merged: Fragment = combine(self.key.schema, self.key.defaults, self.stated)
        return merged


def judge_config(new: ConfigMap, old: ConfigMap | None, nodes: NodeLabels, *, need_names: bool = False) -> Judgement:
    """Judge what changed of the configuration. `nodes`: the cluster's (name, labels), asked for only at the end."""
    before = old.data if old is not None else {}
    changed = [key for key in _ordered() if new.data.get(key.name) and new.data[key.name] != before.get(key.name)]
    try:
        parsed = []
        for key in changed:
            found = parse_key(key, new.data[key.name])
            _check_bounds(found, new.data)
            if need_names:
                _check_names(found)
            if pair := overlapping(found.entries):
                raise Refused(OVERLAP, _conflict(key, pair))
            parsed.append(found)
        _check_nodes(parsed, nodes)
    except Refused as refused:
        return refusal(Reason.INVALID_CONFIG, refused.envelope)
    return ALLOWED


def _ordered() -> list[Key]:
    return sorted(KEYS, key=lambda key: _ORDER.index(key.name) if key.name in _ORDER else len(_ORDER))


def parse_key(key: Key, text: str) -> Parsed:
    """Read one key. Raises Refused for what is no JSON, a wrong type or an entry that selects no node."""
    reader = FragmentReader(key.name)
    try:
        document = reader.read(key.document(), json_document(text, key.name), "")
        if key.check is not None:
            key.check(_cluster_of(key, document), key.name, "(cluster)")
            for index, entry in enumerate(document.get(key.entries, ())):
                key.check(entry, key.name, f"{key.entries}[{index}]")
    except InvalidInput as error:
        is_range = "a whole number from" in error.allowed or key.check is not None
        raise Refused(PARAMETER_INVALID if is_range else PARSE_FAILED, str(error)) from error
    entries = read_entries(document.get(key.entries, ()), key.entries)
    for entry, written in zip(entries, document.get(key.entries, ()), strict=True):
        where = f"{key.name}: {entry.label()}"
        if not written.get("nodeSelector"):
            raise Refused(PARSE_FAILED, f"{where}: NodeSelector must not empty")
        if entry.selector is None:
            raise Refused(PARSE_FAILED, f"{where}: failed to parse node selector: {entry.problem}")
    return Parsed(key, _cluster_of(key, document), entries)


def _cluster_of(key: Key, document: Fragment) -> Fragment:
    if not key.flat:
        return dict(document.get("clusterStrategy", {}))
    return {name: value for name, value in document.items() if name != key.entries}


def _check_bounds(found: Parsed, data: Mapping[str, str]) -> None:
    key, cluster = found.key, found.cluster
    errors = bound_errors(key.name, cluster, found.stated)
    for entry in found.entries:
        merged = combine(key.schema, cluster, entry.fields)
        errors |= {
            f"{entry.label()}: {path}": text for path, text in bound_errors(key.name, merged, entry.fields).items()
        }
    if key.name == names.KEY_RESOURCE_QOS and not errors:
        errors = _network(found, data)
    if errors:
        raise Refused(PARAMETER_INVALID, errors)


def _network(found: Parsed, data: Mapping[str, str]) -> dict[str, str]:
    """Network shares against the bandwidth that system-config gives the same nodes."""
    system = None
    if data.get(names.KEY_SYSTEM):
        system = parse_key(next(key for key in KEYS if key.name == names.KEY_SYSTEM), data[names.KEY_SYSTEM])
    errors = network_errors(found.stated, _bandwidth(system, None))
    for entry in found.entries:
        merged = combine(found.key.schema, found.cluster, entry.fields)
        for path, text in network_errors(merged, _bandwidth(system, entry)).items():
            errors[f"{entry.label()}: {path}"] = text
    return errors


def _bandwidth(system: Parsed | None, entry: NodeEntry | None) -> str | int | float:
    """Of the nodes of an entry: that of the system-config entry they match, as far as equalities tell."""
    if system is None:
        return 0
    fields = system.cluster
    if entry is not None and entry.selector is not None:
        match = first_match(system.entries, dict(entry.selector.equalities))
        fields = {**fields, **match.fields} if match else fields
    total: str | int | float = fields.get("totalNetworkBandwidth", 0)
    return total


def _check_names(found: Parsed) -> None:
    seen: set[str] = set()
    for entry in found.entries:
        if not entry.name or entry.name in seen:
            problem = f'name "{entry.name}" is used twice' if entry.name else "name must not be empty"
            raise Refused(PARAMETER_INVALID, f"{found.key.name}: {entry.path}: {problem}")
        seen.add(entry.name)


def _check_nodes(parsed: list[Parsed], nodes: NodeLabels) -> None:
    several = [found for found in parsed if len(found.entries) > 1]
    if not several:
        return
    known = list(nodes)
    for found in several:
        if met := meeting(found.entries, known):
            raise Refused(NODE_CONFLICT, _conflict(found.key, met[1], met[0]))


def _conflict(key: Key, pair: tuple[NodeEntry, NodeEntry], node: str = "") -> dict[str, Any]:
    facts: dict[str, Any] = {"config": key.name, "strategies": [entry.label() for entry in pair]}
    return {**facts, "exampleNodes": [node]} if node else facts


def judge_node_labels(
    new: Mapping[str, str], old: Mapping[str, str], name: str, config: ConfigMap | None
) -> Judgement:
    """A node whose labels change must not come to match two entries of one key. Keys that do not read are skipped."""
    if new == old or config is None:
        return ALLOWED
    for key in KEYS:
        try:
            found = parse_key(key, config.data.get(key.name) or "{}")
        except Refused:
            continue
        if met := meeting(found.entries, [(name, new)]):
            envelope = Refused(NODE_CONFLICT, _conflict(key, met[1], name)).envelope
            return refusal(Reason.NODE_CONFLICT, envelope)
    return ALLOWED
