"""From the ConfigMap's data to the configuration in force, keeping the last good value of each key.

Keys are independent: one broken key says so and keeps its own last good value, the others advance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from koord.api import names
from koord.api.errors import InvalidInput
from koord.slo_config import colocation, slo
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.slo import BLOCKS, BlockConfig, HostApplicationConfig

Parsed = TypeVar("Parsed")

REASON_COLOCATION: Final = "ColocationCfgUnmarshalFailed"
REASON_SLO: Final = "SLOCfgUnmarshalFailed"


@dataclass(frozen=True, slots=True)
class KeyFault:
    """A key that could not be used; `kept` says what stays in force."""

    key: str
    message: str
    kept: str

    @property
    def event_reason(self) -> str:
        """The reason of the Warning Event, as Koordinator names it."""
        return REASON_COLOCATION if self.key == names.KEY_COLOCATION else REASON_SLO


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is in force. `colocation` is None while a broken key was the first thing ever seen."""

    colocation: ColocationConfig | None = colocation.BUILT_IN
    colocation_broken: bool = False
    blocks: Mapping[str, BlockConfig] = field(
        default_factory=lambda: {block.key: slo.built_in(block) for block in BLOCKS}
    )
    host_applications: HostApplicationConfig = field(default_factory=HostApplicationConfig)
    faults: tuple[KeyFault, ...] = ()
    warnings: tuple[str, ...] = ()


def load(previous: Configuration | None, data: Mapping[str, str], object_ref: str) -> Configuration:
    """The configuration after seeing this data. previous None: nothing was seen before.

    A missing key means its built-in default, a broken one its previous value (at first: the default for a
    NodeSLO block; unknown, that is None, for colocation, because switching a running cluster off by a typo and
    switching one on by default would both be wrong).
    """
    before = previous or Configuration(colocation=None)
    faults: list[KeyFault] = []

    def take(key: str, parse: Callable[[str, str], Parsed], default: Parsed, last_good: Parsed) -> Parsed:
        if key not in data:
            return default
        try:
            return parse(data[key], f"{object_ref} key {key}")
        except InvalidInput as error:
            kept = "the last good value" if previous else "nothing yet seen, so the safe default"
            faults.append(KeyFault(key, str(error), kept))
            return last_good

    colocated = take(names.KEY_COLOCATION, _parse_colocation, colocation.BUILT_IN, before.colocation)
    blocks = {
        block.key: take(block.key, _block_parser(block), slo.built_in(block), before.blocks[block.key])
        for block in BLOCKS
    }
    applications = take(
        names.KEY_HOST_APPLICATION,
        slo.parse_host_applications,
        HostApplicationConfig(),
        before.host_applications,
    )
    loaded = Configuration(
        colocation=colocated,
        colocation_broken=any(fault.key == names.KEY_COLOCATION for fault in faults),
        blocks=blocks,
        host_applications=applications,
        faults=tuple(faults),
    )
    return replace(loaded, warnings=_warnings(loaded))


def _parse_colocation(text: str, object_ref: str) -> ColocationConfig | None:
    return colocation.parse(text, object_ref)


def _block_parser(block: slo.Block) -> Callable[[str, str], BlockConfig]:
    return lambda text, object_ref: slo.parse_block(block, text, object_ref)


def _warnings(loaded: Configuration) -> tuple[str, ...]:
    parts: list[tuple[str, tuple[str, ...]]] = [(key, block.warnings) for key, block in loaded.blocks.items()]
    parts.append((names.KEY_HOST_APPLICATION, loaded.host_applications.warnings))
    if loaded.colocation is not None:
        parts.append((names.KEY_COLOCATION, loaded.colocation.warnings))
    return tuple(f"{key}: {warning}" for key, warnings in parts for warning in warnings)
