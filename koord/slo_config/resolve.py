"""The strategy in force for one node, and where each stated value comes from.

Lowest to highest: built-in defaults, the cluster strategy, the first matching entry of nodeConfigs, the node's
colocation-strategy annotation, the node's ratio labels.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.options import NO_OPTIONS, Options, options_of
from koord.slo_config.schema import INT64_MAX, Fragment, FragmentReader, combine
from koord.slo_config.strategy import STRATEGY_SCHEMA, Strategy, typed

RATIO_LABELS: Final = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
    names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "midStaticCPUReservedPercent",
    names.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: "midStaticMemoryReservedPercent",
}
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FROM_DEFAULTS: Final = "built-in default"
FROM_CLUSTER: Final = "cluster strategy"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A node's strategy. `stated_by` names the layer of each field that is not a built-in default."""

    strategy: Strategy
    effective: Fragment
    cluster_enabled: bool
    stated_by: Mapping[str, str]
    notes: tuple[str, ...] = ()
    options: Options = NO_OPTIONS

    @property
    def enabled(self) -> bool:
        """Colocation is on: a node can only switch off what the cluster switched on."""
        return self.cluster_enabled and self.strategy.enable

    def source_of(self, field: str) -> str:
        """The layer that decided a field, in words."""
        return self.stated_by.get(field, FROM_DEFAULTS)


def resolve(config: ColocationConfig, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Resolved:
    """Lay the layers over one another for a node. Unusable annotations and labels are ignored and noted.

    The annotation is not range-checked, for compatibility; the formula stays safe for any percent.
    """
    notes: list[str] = []
    layers: list[tuple[str, Fragment]] = [(FROM_CLUSTER, config.stated)]
    if entry := config.entry_for(labels):
        layers.append((entry.label(), entry.fields))
    if text := annotations.get(names.ANNOTATION_COLOCATION_STRATEGY):
        layers.append((f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}", _from_annotation(text, notes)))
    layers.extend(_from_labels(labels, notes))
    effective = config.cluster
    stated_by: dict[str, str] = {}
    for source, fragment in layers:
        effective = combine(STRATEGY_SCHEMA, effective, fragment)
        stated_by.update(dict.fromkeys(fragment, source))
    options = options_of(effective.get("extensions", {}))
    return Resolved(typed(effective), effective, config.cluster["enable"], stated_by, tuple(notes), options)


def _from_annotation(text: str, notes: list[str]) -> Fragment:
    reader = FragmentReader(f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}")
    try:
        fragment: Fragment = reader.read(STRATEGY_SCHEMA, msgspec.json.decode(text) or {}, "")
    except (msgspec.DecodeError, InvalidInput) as error:
        notes.append(f"annotation {names.ANNOTATION_COLOCATION_STRATEGY} ignored: {error}")
        return {}
    return fragment


def _from_labels(labels: Mapping[str, str], notes: list[str]) -> list[tuple[str, Fragment]]:
    layers: list[tuple[str, Fragment]] = []
    for label, field in RATIO_LABELS.items():
        if (text := labels.get(label)) is None:
            continue
        percent = ratio_percent(text)
        if percent is None:
            notes.append(f'label {label} ignored: invalid value "{text}": allowed: a decimal ratio of 0 or above')
        else:
            layers.append((f"label {label}", {field: percent}))
    return layers


def ratio_percent(text: str) -> int | None:
    """A ratio label as whole percent, cut toward zero after a binary-float product as Koordinator does (0.29 is
    28); None for what is negative, not a plain decimal number, or too large for a percent."""
    if not _DECIMAL.fullmatch(text):
        return None
    ratio = float(text)
    product = ratio * 100
    if ratio < 0 or product > INT64_MAX:
        return None
    return int(product)
