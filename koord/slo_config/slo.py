"""The five keys that become NodeSLO blocks: their documents, read and layered over the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from koord.api import names
from koord.slo_config import slo_fields
from koord.slo_config.bounds import refuse_out_of_bounds
from koord.slo_config.json_document import json_document
from koord.slo_config.overlap import overlap_warnings
from koord.slo_config.schema import Fragment, FragmentReader, ListOf, Record, Scalar, combine
from koord.slo_config.selection import SELECTOR_SCHEMA, NodeEntry, first_match, read_entries


@dataclass(frozen=True, slots=True)
class Block:
    """One key of the ConfigMap and the NodeSLO field that it fills."""

    key: str
    spec_field: str
    schema: Record
    defaults: Fragment

    def document(self) -> Record:
        """The JSON document of the key."""
        entry = Record({"name": Scalar("string"), "nodeSelector": SELECTOR_SCHEMA, **self.schema.fields})
        return Record({"clusterStrategy": self.schema, "nodeStrategies": ListOf(entry)})


BLOCKS: Final = (
    Block(
        names.KEY_THRESHOLD,
        "resourceUsedThresholdWithBE",
        slo_fields.THRESHOLD,
        slo_fields.THRESHOLD_DEFAULTS,
    ),
    Block(names.KEY_RESOURCE_QOS, "resourceQOSStrategy", slo_fields.QOS, slo_fields.QOS_DEFAULTS),
    Block(names.KEY_CPU_BURST, "cpuBurstStrategy", slo_fields.BURST, slo_fields.BURST_DEFAULTS),
    Block(names.KEY_SYSTEM, "systemStrategy", slo_fields.SYSTEM, slo_fields.SYSTEM_DEFAULTS),
)


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """A usable configuration of one block: the cluster value and, per entry, the complete value for its nodes."""

    cluster: Fragment
    entries: tuple[NodeEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def value_for(self, labels: Mapping[str, str]) -> Fragment:
        """The block's value for a node with these labels."""
        entry = first_match(self.entries, labels)
        return entry.fields if entry else self.cluster


@dataclass(frozen=True, slots=True)
class HostApplicationConfig:
    """Host applications: a matching entry replaces the cluster's list, even by nothing."""

    applications: tuple[Fragment, ...] = ()
    entries: tuple[NodeEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def value_for(self, labels: Mapping[str, str]) -> tuple[Fragment, ...]:
        """The applications of a node with these labels."""
        entry = first_match(self.entries, labels)
        return tuple(entry.fields.get("applications", ())) if entry else self.applications


_HOST_ENTRY = Record(
    {
        "name": Scalar("string"),
        "nodeSelector": SELECTOR_SCHEMA,
        "applications": ListOf(slo_fields.HOST_APPLICATION),
    }
)
_HOST_DOCUMENT: Final = Record(
    {"applications": ListOf(slo_fields.HOST_APPLICATION), "nodeConfigs": ListOf(_HOST_ENTRY)}
)


def built_in(block: Block) -> BlockConfig:
    """What holds when the key is missing."""
    return BlockConfig(block.defaults)


def parse_block(block: Block, text: str, object_ref: str) -> BlockConfig:
    """Read a block's document. Raises InvalidInput for bad JSON, a wrong type, or a value that the CRD or admission
    refuses."""
    reader = FragmentReader(object_ref)
    document = reader.read(block.document(), json_document(text, object_ref), "")
    stated = document.get("clusterStrategy", {})
    cluster = combine(block.schema, block.defaults, stated)
    refuse_out_of_bounds(block.key, cluster, stated, object_ref, "clusterStrategy")
    entries = []
    for entry in read_entries(document.get("nodeStrategies", ()), "nodeStrategies"):
        fields = entry.fields
        if block.key == names.KEY_SYSTEM:
            # Koordinator always encodes this field, so an entry that omits it states zero ("unknown").
            fields = {**slo_fields.SYSTEM_DEFAULTS, **fields}
        complete = combine(block.schema, cluster, fields)
        refuse_out_of_bounds(block.key, complete, entry.fields, object_ref, entry.path)
        entries.append(NodeEntry(entry.name, entry.path, entry.selector, complete, entry.problem))
    return BlockConfig(cluster, tuple(entries), _warnings(reader, entries))


def parse_host_applications(text: str, object_ref: str) -> HostApplicationConfig:
    """Read the host applications' document. Raises InvalidInput for bad JSON or a wrong type."""
    reader = FragmentReader(object_ref)
    document = reader.read(_HOST_DOCUMENT, json_document(text, object_ref), "")
    entries = read_entries(document.get("nodeConfigs", ()), "nodeConfigs")
    return HostApplicationConfig(tuple(document.get("applications", ())), entries, _warnings(reader, entries))


def _warnings(reader: FragmentReader, entries: list[NodeEntry] | tuple[NodeEntry, ...]) -> tuple[str, ...]:
    unknown = [f"{path}: unknown field, ignored" for path in reader.unknown_fields]
    return (*unknown, *(entry.problem for entry in entries if entry.problem), *overlap_warnings(entries))
