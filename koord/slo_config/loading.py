"""From the ConfigMap's data to the configuration in force, keeping the last good value of each key.

Keys are independent: one broken key says so and keeps its own last good value, the others advance. What was good is
remembered as text too, so that it can be stored and a restarted process can begin with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config import colocation, node_ratios, slo
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.node_ratios import RatioConfig
from koord.slo_config.slo import BLOCKS, BlockConfig, HostApplicationConfig

Parsed = TypeVar("Parsed")

KEYS: Final = (
    names.KEY_COLOCATION,
    *(block.key for block in BLOCKS),
    names.KEY_HOST_APPLICATION,
    names.KEY_CPU_NORMALIZATION,
    names.KEY_RESOURCE_AMPLIFICATION,
)
"""Every key that is read."""

REASON_COLOCATION: Final = "ColocationCfgUnmarshalFailed"
REASON_SLO: Final = "SLOCfgUnmarshalFailed"
REASON_NORMALIZATION: Final = "CPUNormalizationCfgUnmarshalFailed"
REASON_AMPLIFICATION: Final = "ResourceAmplificationCfgUnmarshalFailed"
_EVENT_REASONS: Final = {
    names.KEY_COLOCATION: REASON_COLOCATION,
    names.KEY_CPU_NORMALIZATION: REASON_NORMALIZATION,
    names.KEY_RESOURCE_AMPLIFICATION: REASON_AMPLIFICATION,
}


@dataclass(frozen=True, slots=True)
class KeyFault:
    """A key that could not be used; `kept` says what stays in force."""

    key: str
    message: str
    kept: str

    @property
    def event_reason(self) -> str:
        """The reason of the Warning Event, as Koordinator names it."""
        return _EVENT_REASONS.get(self.key, REASON_SLO)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is in force. `colocation`, `normalization` and `amplification` are None while a broken key was the first
    thing ever seen. `texts`: what each key in force was read from; a key that is absent has its default, a key that
    is not in `known` was never seen in a usable state."""

    colocation: ColocationConfig | None = colocation.BUILT_IN
    colocation_broken: bool = False
    blocks: Mapping[str, BlockConfig] = field(
        default_factory=lambda: {block.key: slo.built_in(block) for block in BLOCKS}
    )
    host_applications: HostApplicationConfig = field(default_factory=HostApplicationConfig)
    normalization: RatioConfig | None = node_ratios.NO_NORMALIZATION
    amplification: RatioConfig | None = node_ratios.NO_AMPLIFICATION
    texts: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    faults: tuple[KeyFault, ...] = ()
    warnings: tuple[str, ...] = ()


_NOTHING_SEEN: Final = Configuration(colocation=None, normalization=None, amplification=None)


class _Reader:
    """Reads one state of the data, key by key."""

    def __init__(
        self, before: Configuration, data: Mapping[str, str], stored: Mapping[str, str], object_ref: str
    ) -> None:
        self._before = before
        self._data = data
        self._stored = stored
        self._object_ref = object_ref
        self.texts: dict[str, str] = {}
        self.known = set(before.known)
        self.faults: list[KeyFault] = []

    def take(
        self, key: str, parse: Callable[[str, str], Parsed], default: Parsed, last_good: Parsed | None, safe: Parsed
    ) -> Parsed:
        """The key's value: as written, else the last good one of this process, else the stored one, else `safe`."""
        where = f"{self._object_ref} key {key}"
        text = self._data.get(key)
        if text is None:
            self.known.add(key)
            return default
        try:
            parsed = parse(text, where)
        except InvalidInput as error:
            return self._instead(key, str(error), parse, last_good, safe)
        self.known.add(key)
        self.texts[key] = text
        return parsed

    def _instead(
        self, key: str, fault: str, parse: Callable[[str, str], Parsed], last_good: Parsed | None, safe: Parsed
    ) -> Parsed:
        if key in self.known and last_good is not None:
            self.faults.append(KeyFault(key, fault, "the last good value"))
            if (text := self._before.texts.get(key)) is not None:
                self.texts[key] = text
            return last_good
        if (text := self._stored.get(key)) is not None:
            try:
                parsed = parse(text, f"stored {key}")
            except InvalidInput as error:
                fault = f"{fault}; {error}"
            else:
                self.faults.append(KeyFault(key, fault, "the last good value, stored before a restart,"))
                self.known.add(key)
                self.texts[key] = text
                return parsed
        self.faults.append(KeyFault(key, fault, "nothing yet seen, so the safe default"))
        return safe


def load(
    previous: Configuration | None,
    data: Mapping[str, str],
    object_ref: str,
    stored: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration after seeing this data. previous None: nothing was seen before. stored: the last good texts
    that an earlier process left; used for a broken key of which this process has seen no good value.

    A missing key means its built-in default, a broken one its last good value (at first: the default for a NodeSLO
    block; unknown, that is None, for the others, because switching a running cluster off by a typo and switching one
    on by default would both be wrong).
    """
    before = previous or _NOTHING_SEEN
    reader = _Reader(before, data, stored or {}, object_ref)
    colocated: ColocationConfig | None = reader.take(
        names.KEY_COLOCATION, colocation.parse, colocation.BUILT_IN, before.colocation, None
    )
    blocks: dict[str, BlockConfig] = {}
    for block in BLOCKS:
        default = slo.built_in(block)
        blocks[block.key] = reader.take(block.key, _block_parser(block), default, before.blocks[block.key], default)
    applications = reader.take(
        names.KEY_HOST_APPLICATION,
        slo.parse_host_applications,
        HostApplicationConfig(),
        before.host_applications,
        HostApplicationConfig(),
    )
    normalization: RatioConfig | None = reader.take(
        names.KEY_CPU_NORMALIZATION,
        node_ratios.parse_normalization,
        node_ratios.NO_NORMALIZATION,
        before.normalization,
        None,
    )
    amplification: RatioConfig | None = reader.take(
        names.KEY_RESOURCE_AMPLIFICATION,
        node_ratios.parse_amplification,
        node_ratios.NO_AMPLIFICATION,
        before.amplification,
        None,
    )
    loaded = Configuration(
        colocation=colocated,
        colocation_broken=any(fault.key == names.KEY_COLOCATION for fault in reader.faults),
        blocks=blocks,
        host_applications=applications,
        normalization=normalization,
        amplification=amplification,
        texts=reader.texts,
        known=frozenset(reader.known),
        faults=tuple(reader.faults),
    )
    return replace(loaded, warnings=_warnings(loaded))


def _block_parser(block: slo.Block) -> Callable[[str, str], BlockConfig]:
    return lambda text, object_ref: slo.parse_block(block, text, object_ref)


def _warnings(loaded: Configuration) -> tuple[str, ...]:
    parts: list[tuple[str, tuple[str, ...]]] = [(key, block.warnings) for key, block in loaded.blocks.items()]
    parts.append((names.KEY_HOST_APPLICATION, loaded.host_applications.warnings))
    for key, ratios in (
        (names.KEY_CPU_NORMALIZATION, loaded.normalization),
        (names.KEY_RESOURCE_AMPLIFICATION, loaded.amplification),
    ):
        parts.append((key, ratios.warnings if ratios is not None else ()))
    if loaded.colocation is not None:
        parts.append((names.KEY_COLOCATION, loaded.colocation.warnings))
    return tuple(f"{key}: {warning}" for key, warnings in parts for warning in warnings)
