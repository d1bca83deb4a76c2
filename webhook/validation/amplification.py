"""Resource amplification: a node's cpu and memory times the ratios of its annotation, at every status update.

The kubelet reports what the machine has (raw); what the scheduler sees is raw times ratio. The raw amounts are kept
in an annotation, since a writer that does not touch cpu or memory sends the amplified ones back.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from koord.api import names, quantity
from koord.api.objects import JsonObject, ResourceList
from koord.api.quantity import InvalidQuantity
from webhook.json_patch import Operation, diff
from webhook.judgement import Judgement, Reason

_AMPLIFIED: Final[tuple[str, ...]] = (names.CPU, names.MEMORY)
_NANO_PER_MILLI: Final = 1_000_000
_UNCHANGED: Final = Judgement(True, Reason.UNCHANGED)


def amplify(new: JsonObject, old: JsonObject | None) -> Judgement:
    """What a status update of a node becomes. A bad annotation is passed over with a warning: refusing would keep the
    kubelet from reporting, and the node would be lost."""
    try:
        wanted = _amplified(new, old)
    except (ValueError, InvalidQuantity, TypeError) as error:
        warning = f"koord did not amplify the node's resources: {error}"
        return Judgement(True, Reason.BAD_ANNOTATION, warnings=(warning,))
    if wanted is None:
        return _UNCHANGED
    operations = tuple(_operations(new, wanted))
    return Judgement(True, Reason.AMPLIFIED, operations) if operations else _UNCHANGED


def _amplified(new: JsonObject, old: JsonObject | None) -> JsonObject | None:
    """The node as it should be, None when it is left alone. Raises ValueError for unreadable annotations."""
    metadata, status = new.get("metadata") or {}, new.get("status") or {}
    annotations: dict[str, str] = dict(metadata.get("annotations") or {})
    if not annotations.get(names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO):
        if annotations.pop(names.ANNOTATION_RAW_ALLOCATABLE, None) is None:
            return None
        return {**new, "metadata": {**metadata, "annotations": annotations}}
    allocatable: ResourceList = status.get("allocatable") or {}
    if not allocatable:
        return None
    before = ((old or {}).get("status") or {}).get("allocatable") or {}
    if names.ANNOTATION_RAW_ALLOCATABLE not in annotations or _moved(allocatable, before):
        raw = {name: allocatable[name] for name in _AMPLIFIED if name in allocatable}
        if raw:
            shown = {name: quantity.canonical(amount) for name, amount in raw.items()}
            annotations[names.ANNOTATION_RAW_ALLOCATABLE] = msgspec.json.encode(shown).decode()
    else:
        found = _json_object(
            annotations, names.ANNOTATION_RAW_ALLOCATABLE, "failed to unmarshal node raw allocatable"
        )
        if found is None:
            return None
        raw = found
    what = "failed to unmarshal node resource amplification ratio"
    ratios = _json_object(annotations, names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO, what) or {}
    amounts = dict(allocatable)
    for name in _AMPLIFIED:
        ratio = ratios.get(name)
        if ratio is not None and name in raw and _fraction(ratio) > 1:
            amounts[name] = _product(raw[name], _fraction(ratio))
    return {
        **new,
        "metadata": {**metadata, "annotations": annotations},
        "status": {**status, "allocatable": amounts},
    }


def _moved(new: ResourceList, old: ResourceList) -> bool:
    for name in _AMPLIFIED:
        if (name in new) != (name in old):
            return True
        if name in new and quantity.nano(new[name]) != quantity.nano(old[name]):
            return True
    return False


def _json_object(annotations: Mapping[str, str], name: str, what: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(annotations[name])
    except msgspec.DecodeError as error:
        raise ValueError(f"{what}: {name}: {error}") from None
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{what}: {name}: must be a JSON object")
    return found


def _fraction(ratio: Any) -> Fraction:
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        raise ValueError(f"{names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO}: {ratio!r} is no number")
    # As written: 1.1 means eleven tenths, not the nearest binary fraction.
    return Fraction(str(ratio))


def _product(amount: quantity.QuantityText, ratio: Fraction) -> str:
    """Raw times ratio, rounded down to milli-units."""
    nano = int(quantity.nano(amount) * ratio) // _NANO_PER_MILLI * _NANO_PER_MILLI
    return quantity.format_nano(nano, quantity.family(amount))


def _operations(new: JsonObject, wanted: JsonObject) -> list[Operation]:
    operations = []
    for part in ("metadata", "status"):
        before, after = new.get(part) or {}, wanted.get(part) or {}
        operations += [
            Operation(operation.op, f"/{part}{operation.path}", operation.value) for operation in diff(before, after)
        ]
    return operations
