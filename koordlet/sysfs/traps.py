"""Kernel rules that make a write fail although the value is right, and what must move out of the way first.

- A finite quota below the cgroup's burst is refused: burst comes down first.
- v1: a quota below that of any descendant is refused: the descendants' are lifted first.
- A weight is refused while cpu.idle is set: whoever set that wanted even less than our lowest weight.
- v1: a CPU set cannot be emptied again once it was filled.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from koordlet.sysfs.control import ControlFiles
from koordlet.sysfs.errors import CgroupGone, Unsupported, WriteRefused
from koordlet.sysfs.journal import Entry, Key
from koordlet.sysfs.knobs import UNLIMITED, Knob


@dataclass(frozen=True)
class Obstacle:
    """A file that holds `found` and must hold `clear` for the refused write to succeed."""

    key: Key
    found: str
    clear: str


def cannot_return(control: ControlFiles, key: Key, entry: Entry) -> bool:
    """Whether the kernel would never take the original back."""
    return key[1] is Knob.CPUS and entry.original == "" and control.mounts.of("cpuset").version == 1


def obstacles(control: ControlFiles, key: Key, raw: str) -> list[Obstacle]:
    """What stands in the way of a write that was refused with EINVAL, in the order to clear it.

    Raises Unsupported for a weight of a cgroup with cpu.idle.
    """
    group, knob = key
    if knob is Knob.WEIGHT and control.is_idle(group):
        raise Unsupported(f"{control.path(*key)}: cpu.idle is set, which rules out a weight")
    if knob is not Knob.QUOTA:
        return []
    quota = control.form(Knob.QUOTA).parse(raw)
    if not isinstance(quota, int) or quota == UNLIMITED:
        return []
    return [*_burst(control, group, quota), *_larger_descendants(control, group, raw)]


def _burst(control: ControlFiles, group: str, quota: int) -> Iterator[Obstacle]:
    try:
        reading = control.read(group, Knob.BURST)
    except (CgroupGone, Unsupported, WriteRefused):
        return
    if isinstance(reading.value, int) and reading.value > quota:
        yield Obstacle((group, Knob.BURST), reading.raw, str(quota))


def _larger_descendants(control: ControlFiles, group: str, raw: str) -> Iterator[Obstacle]:
    hierarchy = control.mounts.of("cpu")
    if hierarchy.version != 1:
        return
    limit = control.meaning(group, Knob.QUOTA, raw)
    for path, _, _ in os.walk(f"{hierarchy.root}/{group}"):
        child = path[len(hierarchy.root) + 1 :]
        if child == group:
            continue
        try:
            reading = control.read(child, Knob.QUOTA)
        except (CgroupGone, Unsupported, WriteRefused):
            continue
        if reading.value != UNLIMITED and isinstance(limit, int) and int(str(reading.value)) > limit:
            yield Obstacle((child, Knob.QUOTA), reading.raw, str(UNLIMITED))
