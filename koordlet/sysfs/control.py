"""Reads and writes one control file of one cgroup, in either version.

Nothing here remembers anything: what to write when, and how to undo it, is the executor's business.
"""

from dataclasses import dataclass
from resource import getpagesize

from koordlet.sysfs import files
from koordlet.sysfs.errors import WriteRefused
from koordlet.sysfs.knobs import KNOBS, MIN_QUOTA_US, PERIOD_US, UNLIMITED, Form, Knob, KnobValue
from koordlet.sysfs.mounts import CgroupMounts

_PAGE = getpagesize()


@dataclass(frozen=True)
class Reading:
    """A control file's text as it stood, and what it means (see `knobs` for the units)."""

    raw: str
    value: KnobValue


class ControlFiles:
    """The control files below the mounted hierarchies; groups are paths relative to a hierarchy's top."""

    def __init__(self, mounts: CgroupMounts) -> None:
        self.mounts = mounts

    def form(self, knob: Knob) -> Form:
        """The knob's form in the version at hand. Raises Unsupported when its controller is not mounted."""
        kind = KNOBS[knob]
        return kind.form(self.mounts.of(kind.controller).version)

    def path(self, group: str, knob: Knob) -> str:
        """The absolute path of the control file. Raises Unsupported when its controller is not mounted."""
        kind = KNOBS[knob]
        hierarchy = self.mounts.of(kind.controller)
        return f"{hierarchy.root}/{group}/{kind.form(hierarchy.version).file}"

    def read(self, group: str, knob: Knob) -> Reading:
        """The file now. Raises CgroupGone, Unsupported or WriteRefused (an unexpected errno or text)."""
        raw = files.read_text(self.path(group, knob)).strip()
        return Reading(raw, self.meaning(group, knob, raw))

    def meaning(self, group: str, knob: Knob, raw: str) -> KnobValue:
        """What a text read from this file means. A quota is brought to 100 ms by the cgroup's own period."""
        try:
            value = self.form(knob).parse(raw)
        except (ValueError, IndexError):
            raise WriteRefused(0, f"{self.path(group, knob)}: unexpected content {raw!r}") from None
        if knob is Knob.QUOTA and isinstance(value, int) and value != UNLIMITED:
            return value * PERIOD_US // self._period(group, raw)
        return value

    def same(self, knob: Knob, raw: str, other: str) -> bool:
        """Whether two texts of the same file mean the same; the period of a quota is not compared."""
        if raw == other:
            return True
        parse = self.form(knob).parse
        try:
            return parse(raw) == parse(other)
        except (ValueError, IndexError):
            return False

    def normalised(self, knob: Knob, value: KnobValue) -> KnobValue:
        """The value the file will show after `value` is written: limits of the kernel, whole pages."""
        if isinstance(value, frozenset):
            return value
        form = self.form(knob)
        if knob is Knob.MEMORY and value != UNLIMITED:
            return value // _PAGE * _PAGE
        if knob is Knob.QUOTA and value != UNLIMITED:
            return max(value, MIN_QUOTA_US)
        if knob is Knob.WEIGHT:
            return min(max(value, form.lowest), form.highest)
        return value

    def render(self, group: str, knob: Knob, value: KnobValue) -> str:
        """The text that says `value` in this cgroup."""
        value = self.normalised(knob, value)
        if knob is Knob.QUOTA and isinstance(value, int) and value != UNLIMITED:
            period = self._period(group, "")
            value = max(value * period // PERIOD_US, MIN_QUOTA_US)
            if self.mounts.is_v2:
                return f"{value} {period}"
        return self.form(knob).render(value)

    def write(self, group: str, knob: Knob, raw: str) -> None:
        """Write a text. Raises CgroupGone, Unsupported or WriteRefused."""
        files.write_text(self.path(group, knob), raw)

    def is_idle(self, group: str) -> bool:
        """Whether cpu.idle is set, which makes the kernel refuse weights."""
        hierarchy = self.mounts.of("cpu")
        path = f"{hierarchy.root}/{group}/cpu.idle"
        return files.exists(path) and files.read_text(path).strip() == "1"

    def _period(self, group: str, raw: str) -> int:
        hierarchy = self.mounts.of("cpu")
        if hierarchy.version == 1:
            text = files.read_text(f"{hierarchy.root}/{group}/cpu.cfs_period_us")
        else:
            text = (raw or files.read_text(self.path(group, Knob.QUOTA))).split()[-1]
        return int(text) if text.strip().isdigit() else PERIOD_US
