"""The two ratios in a node's annotations: how its cores compare to others', and how its resources are amplified.

cpu normalization: chosen by the cpu's model and its hyper-threading and turbo switches, 1.00 to 5.00. Resource
amplification: what the strategy states, with cpu multiplied by the normalization.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from koord.api import names
from koord.slo_config.node_ratios import HIGHEST_NORMALIZATION, LOWEST_AMPLIFICATION, LOWEST_NORMALIZATION
from koord.slo_config.schema import Fragment

DISABLED: Final = "1.00"
_FLOAT_DUST: Final = 1e-9
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class CpuInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What a node's topology object says of its CPU."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False

    @property
    def ratio_name(self) -> str:
        """The entry of a model's ratios that fits the switches."""
        if self.hyper_thread_enabled:
            return "hyperThreadTurboEnabledRatio" if self.turbo_enabled else "hyperThreadEnabledRatio"
        return "turboEnabledRatio" if self.turbo_enabled else "baseRatio"


class RatioText(NamedTuple):
    """What an annotation should say: None to remove it. problem: why it cannot be said, and stays as it is."""

    text: str | None
    problem: str = ""


def read_cpu_info(text: str) -> CpuInfo:
    """The CPU from the topology object's annotation. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=CpuInfo)
    except msgspec.DecodeError as error:
        raise ValueError(f'{names.ANNOTATION_CPU_BASIC_INFO}: invalid value "{text[:100]}" ({error})') from None


def normalization(strategy: Fragment, enabled_label: str | None, cpu_info: str | None) -> RatioText:
    """The cpu normalization ratio of a node, two decimals.

    enabled_label: the node's own switch, which wins over the strategy's. cpu_info: the topology object's annotation.
    """
    try:
        if not _is_enabled(strategy, enabled_label):
            return RatioText(DISABLED)
        if cpu_info is None:
            raise ValueError(f"no NodeResourceTopology with {names.ANNOTATION_CPU_BASIC_INFO} says which CPU this is")
        ratio = _chosen(strategy, read_cpu_info(cpu_info))
    except ValueError as error:
        return RatioText(None, f"cpu normalization: {error}")
    return RatioText(f"{ratio:.2f}")


def _is_enabled(strategy: Fragment, label: str | None) -> bool:
    if label is None:
        return bool(strategy.get("enable", False))
    if label in _TRUE:
        return True
    if label in _FALSE:
        return False
    name = names.LABEL_CPU_NORMALIZATION_ENABLED
    raise ValueError(f'label {name}: invalid value "{label}": allowed: true or false')


def _chosen(strategy: Fragment, cpu: CpuInfo) -> float:
    ratio = strategy.get("ratioModel", {}).get(cpu.cpu_model, {}).get(cpu.ratio_name)
    if ratio is None:
        ratio = strategy.get("defaultRatio")
    if ratio is None:
        raise ValueError(f'no {cpu.ratio_name} for cpu model "{cpu.cpu_model}" and no defaultRatio')
    if not LOWEST_NORMALIZATION <= ratio <= HIGHEST_NORMALIZATION:
        allowed = f"{LOWEST_NORMALIZATION:g} to {HIGHEST_NORMALIZATION:g}"
        raise ValueError(f'{cpu.ratio_name} of "{cpu.cpu_model}": invalid value {ratio:g}: allowed: {allowed}')
    return float(ratio)


def amplification(strategy: Fragment, normalization_text: str | None) -> RatioText:
    """The amplification annotation of a node: JSON with sorted names and two decimals, None for no amplification.

    normalization_text: the node's cpu normalization ratio, None when it has none.
    """
    stated: Mapping[str, float] = strategy.get("resourceAmplificationRatio", {}) if strategy.get("enable") else {}
    ratios = dict(stated)
    try:
        normalized = 1.0 if normalization_text is None else _read_ratio(normalization_text)
        product = (ratios[names.CPU] if ratios.get(names.CPU, 0) > 0 else 1.0) * (
            normalized if normalized > 0 else 1.0
        )
        if product > 1:
            ratios[names.CPU] = product
        for name, ratio in ratios.items():
            if ratio < LOWEST_AMPLIFICATION:
                raise ValueError(f"{name}: invalid ratio {ratio:g}: allowed: 1 or above")
    except ValueError as error:
        return RatioText(None, f"resource amplification: {error}")
    if not ratios:
        return RatioText(None)
    inner = ",".join(f"{msgspec.json.encode(name).decode()}:{ratios[name]:.2f}" for name in sorted(ratios))
    return RatioText("{" + inner + "}")


def _read_ratio(text: str) -> float:
    ratio = _finite(text)
    if ratio is None:
        name = names.ANNOTATION_CPU_NORMALIZATION_RATIO
        raise ValueError(f'annotation {name}: invalid value "{text[:50]}": allowed: a decimal number')
    return ratio


def _finite(text: str) -> float | None:
    try:
        ratio = float(text)
    except ValueError:
        return None
    return ratio if math.isfinite(ratio) else None


def ratio_above_one(text: str | None) -> float | None:
    """The ratio as a factor for batch-cpu; None when it changes nothing or cannot be read."""
    ratio = None if text is None else _finite(text)
    if ratio is None:
        return None
    return ratio if LOWEST_NORMALIZATION < ratio <= HIGHEST_NORMALIZATION else None


def differs(current: str | None, wanted: str | None, tolerance: float = 0.01) -> bool:
    """Whether a normalization annotation is worth a write: it appears, disappears, cannot be read, or moves by more
    than the tolerance. An absent one says 1.00."""
    if wanted is None:
        return False
    shown = _finite(DISABLED if current is None else current)
    return shown is None or abs(float(wanted) - shown) > tolerance + _FLOAT_DUST
