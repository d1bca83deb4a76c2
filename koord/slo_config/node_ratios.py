"""The documents of cpu-normalization-config and resource-amplification-config: their fields and usable values."""

from typing import Final

from koord.api.errors import InvalidInput
from koord.slo_config.schema import Fragment, MapOf, Record, Scalar

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
