"""The documents of cpu-normalization-config and resource-amplification-config: their fields and usable values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from koord.api.errors import InvalidInput
from koord.slo_config.json_document import json_document
from koord.slo_config.overlap import overlap_warnings
from koord.slo_config.schema import Fragment, FragmentReader, ListOf, MapOf, Record, Scalar, combine
from koord.slo_config.selection import SELECTOR_SCHEMA, NodeEntry, first_match, read_entries

_RATIO = Scalar("float")
_MODEL_RATIOS: Final = (
    "baseRatio",
    "hyperThreadEnabledRatio",
    "turboEnabledRatio",
    "hyperThreadTurboEnabledRatio",
)
NORMALIZATION: Final = Record(
    {
        "enable": Scalar("bool"),
        "defaultRatio": _RATIO,
        "ratioModel": MapOf(Record(dict.fromkeys(_MODEL_RATIOS, _RATIO))),
    }
)
AMPLIFICATION: Final = Record({"enable": Scalar("bool"), "resourceAmplificationRatio": MapOf(_RATIO)})

LOWEST_NORMALIZATION: Final = 1.0
HIGHEST_NORMALIZATION: Final = 5.0
LOWEST_AMPLIFICATION: Final = 1.0


def check_normalization(strategy: Fragment, object_ref: str, path: str) -> None:
    """Raises InvalidInput for a ratio outside 1 to 5, which no node would take."""
    found = {"defaultRatio": strategy["defaultRatio"]} if "defaultRatio" in strategy else {}
    for model, ratios in strategy.get("ratioModel", {}).items():
        found |= {f"ratioModel.{model}.{name}": ratio for name, ratio in ratios.items()}
    for name, ratio in found.items():
        if not LOWEST_NORMALIZATION <= ratio <= HIGHEST_NORMALIZATION:
            allowed = f"{LOWEST_NORMALIZATION:g} to {HIGHEST_NORMALIZATION:g}"
            raise InvalidInput(object_ref, f"{path}.{name}", ratio, allowed)


def check_amplification(strategy: Fragment, object_ref: str, path: str) -> None:
    """Raises InvalidInput for a ratio below 1: amplification never shrinks a node."""
    for name, ratio in strategy.get("resourceAmplificationRatio", {}).items():
        if ratio < LOWEST_AMPLIFICATION:
            raise InvalidInput(object_ref, f"{path}.resourceAmplificationRatio.{name}", ratio, "1 or above")


@dataclass(frozen=True, slots=True)
class RatioConfig:
    """A usable configuration of one of the two keys: the cluster value and, per entry, the complete one."""

    cluster: Fragment
    entries: tuple[NodeEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def value_for(self, labels: Mapping[str, str]) -> Fragment:
        """The value for a node with these labels."""
        entry = first_match(self.entries, labels)
        return entry.fields if entry else self.cluster


NO_NORMALIZATION: Final = RatioConfig({"enable": False, "ratioModel": {}})
NO_AMPLIFICATION: Final = RatioConfig({"enable": False, "resourceAmplificationRatio": {}})


def parse_normalization(text: str, object_ref: str) -> RatioConfig:
    """Read cpu-normalization-config. Raises InvalidInput for bad JSON, a wrong type or a ratio outside 1 to 5."""
    return _parse(text, object_ref, NORMALIZATION, NO_NORMALIZATION.cluster, check_normalization)


def parse_amplification(text: str, object_ref: str) -> RatioConfig:
    """Read resource-amplification-config. Raises InvalidInput for bad JSON, a wrong type or a ratio below 1."""
    return _parse(text, object_ref, AMPLIFICATION, NO_AMPLIFICATION.cluster, check_amplification)


def _parse(
    text: str, object_ref: str, schema: Record, defaults: Fragment, check: Callable[[Fragment, str, str], None]
) -> RatioConfig:
    entry_schema = Record({"name": Scalar("string"), "nodeSelector": SELECTOR_SCHEMA, **schema.fields})
    reader = FragmentReader(object_ref)
    whole = Record({**schema.fields, "nodeConfigs": ListOf(entry_schema)})
    document = reader.read(whole, json_document(text, object_ref), "")
    stated = {name: value for name, value in document.items() if name != "nodeConfigs"}
    check(stated, object_ref, "(cluster)")
    cluster = combine(schema, defaults, stated)
    entries = []
    for entry in read_entries(document.get("nodeConfigs", ()), "nodeConfigs"):
        check(entry.fields, object_ref, entry.path)
        complete = combine(schema, cluster, entry.fields)
        entries.append(NodeEntry(entry.name, entry.path, entry.selector, complete, entry.problem))
    warnings = [f"{path}: unknown field, ignored" for path in reader.unknown_fields]
    warnings += [entry.problem for entry in entries if entry.problem] + overlap_warnings(entries)
    return RatioConfig(cluster, tuple(entries), tuple(warnings))
