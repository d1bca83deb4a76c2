"""Priority bands: which of Koordinator's classes a pod belongs to, by label, number or QoS."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from koord.api import names
from koord.api.objects import Pod
from koord.api.qos import QoSClass, defaulted_qos


class PriorityBand(StrEnum):
    """koordinator.sh/priority-class; NONE is what lies in no band."""

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"
    NONE = ""


class BandRange(NamedTuple):
    """Inclusive bounds of spec.priority and the value that stands for the band."""

    lowest: int
    highest: int
    default: int


BANDS = {
    PriorityBand.PROD: BandRange(9000, 9999, 9500),
    PriorityBand.MID: BandRange(7000, 7999, 7500),
    PriorityBand.BATCH: BandRange(5000, 5999, 5500),
    PriorityBand.FREE: BandRange(3000, 3999, 3500),
}
_BY_LABEL = {str(band): band for band in BANDS}

# The resource names that replace cpu and memory for a band; the others keep the native names.
TRANSLATED_RESOURCES = {
    PriorityBand.BATCH: {names.CPU: names.BATCH_CPU, names.MEMORY: names.BATCH_MEMORY},
    PriorityBand.MID: {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY},
}


def band_of_value(priority: int | None) -> PriorityBand:
    """The band a spec.priority lies in; NONE for absent, gaps, negatives and 10000 and above."""
    if priority is not None:
        for band, bounds in BANDS.items():
            if bounds.lowest <= priority <= bounds.highest:
                return band
    return PriorityBand.NONE


def raw_class(labels: Mapping[str, str], priority: int | None) -> PriorityBand:
    """The labelled class, else the band of the number.

    A label that is present but not recognised gives NONE and hides the number, as in Koordinator.
    """
    if names.LABEL_PRIORITY_CLASS in labels:
        return _BY_LABEL.get(labels[names.LABEL_PRIORITY_CLASS], PriorityBand.NONE)
    return band_of_value(priority)


def class_by_qos(qos: QoSClass) -> PriorityBand:
    """The class of a pod whose own is NONE: BE work is batch, everything else production."""
    return PriorityBand.BATCH if qos is QoSClass.BE else PriorityBand.PROD


def defaulted_class(pod: Pod) -> PriorityBand:
    """The raw class, else the one its defaulted QoS implies; never NONE. Raises InvalidQuantity."""
    raw = raw_class(pod.metadata.labels, pod.spec.priority)
    return raw if raw is not PriorityBand.NONE else class_by_qos(defaulted_qos(pod))


def defaulted_value(pod: Pod) -> int:
    """spec.priority when set and not zero, else the value that stands for the class. Raises InvalidQuantity."""
    return pod.spec.priority or BANDS[defaulted_class(pod)].default
