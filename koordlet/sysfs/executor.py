"""Brings control files to what the strategies wish, in an order the kernel accepts, and can take all of it back.

Declarative: each round gets, per owner, the whole set of files it wants and their values. A file that an owner
stops wishing for gets its original back. Rules:

- a file is read before it is written, and written only when its value differs;
- the original is in the journal before the first write; every write is read back;
- a foreign value (neither ours nor the original) found while we still want the file becomes the new original and
  is replaced at once: it is what the kubelet or a person wants there without us;
- a foreign value found when the file is given back stays: somebody decided on it after us;
- a cgroup that ended is forgotten silently; a file that cannot be written is retried with growing pauses.
"""

import errno
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from koordlet.sysfs import traps
from koordlet.sysfs.changes import Applied, Changed, Failed, Foreign, Owner, Wish
from koordlet.sysfs.control import ControlFiles, Reading
from koordlet.sysfs.errors import CgroupGone, Unsupported, WriteRefused
from koordlet.sysfs.journal import Entry, Journal, Key
from koordlet.sysfs.knobs import UNLIMITED, Knob, KnobValue
from koordlet.sysfs.ordering import Change, Write, order_writes

VERIFY_CYCLES = 20
"""Files that are not vital are read again every so many cycles, spread evenly over them."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0

Plan = Mapping[Owner, Iterable[Wish]]


@dataclass
class _Pause:
    until: float
    length_s: float


@dataclass(frozen=True, slots=True)
class _Settled:
    """A file was found to hold `value` when it read `reading`; it is read again in the cycles of its turn."""

    value: KnobValue
    reading: Reading
    turn: int


@dataclass(frozen=True)
class _Target:
    """A file that differs from what it should hold."""

    owner: str
    reading: Reading
    raw: str
    value: KnobValue
    entry: Entry
    is_restore: bool


class Executor:
    """The one writer of control files. Not thread-safe: one event loop owns it."""

    def __init__(self, control: ControlFiles, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self.control = control
        self.journal = journal
        self._clock = clock
        self._cycle = 0
        self._known: dict[Key, Reading] = {}
        self._read_in: dict[Key, int] = {}
        self._settled: dict[Key, _Settled] = {}
        self._bases: dict[Key, tuple[Reading, Entry, KnobValue]] = {}
        self._pauses: dict[Key, _Pause] = {}
        self._noticed = Applied()

    @property
    def is_pausing(self) -> bool:
        """Whether some file waits for its next try after a failure."""
        return bool(self._pauses)

    def begin_cycle(self) -> None:
        """What was read in the cycle before may have changed since."""
        self._cycle += 1

    def current(self, group: str, knob: Knob, *, vital: bool = False) -> Reading | None:
        """The file's value, at most VERIFY_CYCLES old (of this cycle when vital); None when it cannot be read."""
        key = group, knob
        known = self._known.get(key)
        if known is not None and (self._read_in[key] == self._cycle or not (vital or self._is_due(key))):
            return known
        return self._read(key)

    def base(self, group: str, knob: Knob, *, vital: bool = False) -> KnobValue | None:
        """The value the file would have without us: the original while it holds ours, else what it holds."""
        reading = self.current(group, knob, vital=vital)
        key = group, knob
        entry = self.journal.entries.get(key)
        if reading is None or entry is None:
            return None if reading is None else reading.value
        known = self._bases.get(key)
        if known is None or known[0] is not reading or known[1] is not entry:
            is_ours = self._is_ours(knob, reading.raw, entry)
            known = reading, entry, self.control.meaning(group, knob, entry.original) if is_ours else reading.value
            self._bases[key] = known
        return known[2]

    def is_settled(self, wish: Wish) -> bool:
        """Whether this very wish was found fulfilled, and it is not yet time to look again.

        The usual case of most files in most cycles, made cheap; a vital file is looked at every time.
        """
        settled = self._settled.get(wish.key)
        return (
            settled is not None
            and not wish.vital
            and settled.value == wish.value
            and settled.turn != self._cycle % VERIFY_CYCLES
            and self._known.get(wish.key) is settled.reading
        )

    def last_written(self, group: str, knob: Knob) -> KnobValue | None:
        """What we wrote last, None when the file is not ours."""
        entry = self.journal.entries.get((group, knob))
        if entry is None or not entry.wrote:
            return None
        try:
            return self.control.meaning(group, knob, entry.wrote[-1])
        except (CgroupGone, Unsupported, WriteRefused):
            return None

    def apply(self, plan: Plan) -> Applied:
        """Bring every wished file to its value and give back what the owners in `plan` no longer wish for.

        Owners that are not in `plan` keep their files as they are. Raises OSError when the journal cannot be
        written; no control file was touched then.
        """
        result, self._noticed = self._noticed, Applied()
        wanted = _merge(plan, result)
        targets: dict[Key, _Target] = {}
        for key, (wish, owner) in wanted.items():
            if self.is_settled(wish):
                continue
            target = self._differing(key, wish, owner, result)
            if target is not None:
                targets[key] = target
        owners = {str(owner) for owner in plan}
        for key, entry in list(self.journal.entries.items()):
            if entry.owner in owners and key not in wanted and not self._must_wait(key, entry, wanted):
                self._release(key, entry, targets, result)
        self._carry_out(targets, result)
        self._prune(wanted)
        return result

    def apply_one(self, owner: Owner, wish: Wish) -> Applied:
        """Bring one file to its value without looking at the owner's others (the fast path)."""
        result = Applied()
        target = self._differing(wish.key, wish, owner, result)
        if target is not None:
            self._carry_out({wish.key: target}, result)
        return result

    def restore_all(self) -> Applied:
        """Give every file in the journal its original back, whatever pauses are running."""
        self.begin_cycle()
        self._pauses.clear()
        result, targets = Applied(), dict[Key, _Target]()
        for key, entry in list(self.journal.entries.items()):
            self._release(key, entry, targets, result)
        self._carry_out(targets, result)
        result.pending = len(self.journal.entries)
        return result

    # Deciding what differs

    def _is_due(self, key: Key) -> bool:
        settled = self._settled.get(key)
        turn = _turn(key) if settled is None else settled.turn
        return self._cycle % VERIFY_CYCLES == turn

    def _read(self, key: Key) -> Reading | None:
        try:
            reading = self.control.read(*key)
        except CgroupGone:
            self._forget(key)
            return None
        except Unsupported as error:
            self._pause(key, _LONGEST_PAUSE_S)
            self._noticed.note_unsupported(error)
            return None
        except WriteRefused as error:
            self._pause(key)
            self._noticed.failed.append(Failed("", *key, str(error)))
            return None
        self._known[key] = reading
        self._read_in[key] = self._cycle
        return reading

    def _differing(self, key: Key, wish: Wish, owner: str, result: Applied) -> _Target | None:
        pause = self._pauses.get(key)
        if pause is not None and self._clock() < pause.until:
            return None
        known = self._known.get(key)
        same = known is not None and known.value == wish.value
        reading = self.current(*key, vital=wish.vital or not same)
        if reading is None:
            return None
        try:
            raw = self.control.render(*key, wish.value)
        except (CgroupGone, Unsupported, WriteRefused):
            return None
        if self.control.same(key[1], reading.raw, raw):
            self._settled[key] = _Settled(wish.value, reading, _turn(key))
            return None
        entry = self._entry_for(key, owner, reading, result)
        return _Target(owner, reading, raw, self.control.normalised(key[1], wish.value), entry, is_restore=False)

    def _entry_for(self, key: Key, owner: str, reading: Reading, result: Applied) -> Entry:
        entry = self.journal.entries.get(key)
        if entry is None:
            return Entry(owner, reading.raw, ())
        if self._is_ours(key[1], reading.raw, entry):
            return Entry(owner, entry.original, entry.wrote[-1:])
        result.foreign.append(Foreign(owner, *key, reading.raw))
        if self.control.same(key[1], reading.raw, entry.original):
            return Entry(owner, entry.original, ())
        return Entry(owner, reading.raw, ())

    def _is_ours(self, knob: Knob, raw: str, entry: Entry) -> bool:
        return any(self.control.same(knob, raw, text) for text in entry.wrote)

    def _release(self, key: Key, entry: Entry, targets: dict[Key, _Target], result: Applied) -> None:
        pause = self._pauses.get(key)
        if pause is not None and self._clock() < pause.until:
            return
        reading = self._read(key)
        if reading is None:
            return
        if self.control.same(key[1], reading.raw, entry.original):
            self.journal.drop([key])
        elif not self._is_ours(key[1], reading.raw, entry) or traps.cannot_return(self.control, key, entry):
            result.foreign.append(Foreign(entry.owner, *key, reading.raw, left=True))
            self.journal.drop([key])
        else:
            value = self.control.meaning(*key, entry.original)
            targets[key] = _Target(entry.owner, reading, entry.original, value, entry, is_restore=True)

    def _must_wait(self, key: Key, entry: Entry, wanted: Mapping[Key, object]) -> bool:
        """Whether the original cannot come back yet: it exceeds what a wished quota leaves room for."""
        group, knob = key
        if knob is Knob.BURST:
            return (group, Knob.QUOTA) in wanted
        if knob is not Knob.QUOTA or self.control.mounts.of("cpu").version == 2:
            return False
        if self.control.same(knob, entry.original, str(UNLIMITED)):
            return False
        while "/" in group:
            group = group.rpartition("/")[0]
            if (group, Knob.QUOTA) in wanted:
                return True
        return False

    # Writing

    def _carry_out(self, targets: dict[Key, _Target], result: Applied) -> None:
        if not targets:
            return
        changes = [Change(*key, target.reading.value, target.value) for key, target in targets.items()]
        steps = [(write, self._text(write, targets)) for write in order_writes(changes)]
        self._note(targets, steps)
        failed: set[Key] = set()
        for write, raw in steps:
            key = write.group, write.knob
            if key not in failed and not self._write(targets[key], write, raw, result):
                failed.add(key)

    def _text(self, write: Write, targets: dict[Key, _Target]) -> str:
        if write.is_final:
            return targets[write.group, write.knob].raw
        return self.control.render(write.group, write.knob, write.value)

    def _note(self, targets: dict[Key, _Target], steps: list[tuple[Write, str]]) -> None:
        """Put what is about to be written into the journal, the union a moving CPU set passes through too."""
        texts: dict[Key, list[str]] = {}
        for write, raw in steps:
            texts.setdefault((write.group, write.knob), []).append(raw)
        entries = {}
        for key, target in targets.items():
            raws = [raw for raw in texts.get(key, []) if not (target.is_restore and raw == target.raw)]
            if raws:
                entry = target.entry
                entries[key] = Entry(entry.owner, entry.original, (*entry.wrote, *raws))
        if entries:
            self.journal.record(entries)

    def _write(self, target: _Target, write: Write, raw: str, result: Applied) -> bool:
        key = write.group, write.knob
        try:
            self._write_through_traps(target.owner, key, raw)
            if write.is_final:
                self._finish(target, key, raw, result)
        except CgroupGone:
            self._forget(key)
            return False
        except Unsupported as error:
            self._pause(key, _LONGEST_PAUSE_S)
            result.note_unsupported(error)
            self._keep_only_if_ours(key, target)
            return False
        except WriteRefused as error:
            self._pause(key)
            result.failed.append(Failed(target.owner, *key, f"{error} (wanted {raw}, is {target.reading.raw})"))
            self._known.pop(key, None)
            self._keep_only_if_ours(key, target)
            return False
        return True

    def _write_through_traps(self, owner: str, key: Key, raw: str) -> None:
        try:
            self.control.write(*key, raw)
        except WriteRefused as error:
            if error.errno != errno.EINVAL:
                raise
            obstacles = traps.obstacles(self.control, key, raw)
            if not obstacles:
                raise
            self.journal.record({obstacle.key: self._cleared(owner, obstacle) for obstacle in obstacles})
            for obstacle in obstacles:
                self.control.write(*obstacle.key, obstacle.clear)
                self._known.pop(obstacle.key, None)
            self.control.write(*key, raw)

    def _cleared(self, owner: str, obstacle: traps.Obstacle) -> Entry:
        known = self.journal.entries.get(obstacle.key)
        if known is None:
            return Entry(owner, obstacle.found, (obstacle.clear,))
        return Entry(known.owner, known.original, (*known.wrote[-1:], obstacle.clear))

    def _finish(self, target: _Target, key: Key, raw: str, result: Applied) -> None:
        reading = self.control.read(*key)
        self._known[key] = reading
        self._read_in[key] = self._cycle
        if not self.control.same(key[1], reading.raw, raw):
            raise WriteRefused(0, f"{self.control.path(*key)}: reads back {reading.raw}")
        self._pauses.pop(key, None)
        if self.control.same(key[1], reading.raw, target.entry.original):
            self.journal.drop([key])
        result.changed.append(
            Changed(target.owner, *key, target.reading.raw, reading.raw, is_restore=target.is_restore)
        )

    def _keep_only_if_ours(self, key: Key, target: _Target) -> None:
        """A first write that failed changed nothing, so there is nothing to undo."""
        if not target.is_restore and not target.entry.wrote:
            reading = self._read(key)
            if reading is not None and self.control.same(key[1], reading.raw, target.entry.original):
                self.journal.drop([key])

    # Remembering

    def _pause(self, key: Key, length_s: float = 0.0) -> None:
        before = self._pauses.get(key)
        if not length_s:
            length_s = _FIRST_PAUSE_S if before is None else min(before.length_s * 2, _LONGEST_PAUSE_S)
        self._pauses[key] = _Pause(self._clock() + length_s, length_s)

    def _forget(self, key: Key) -> None:
        for memory in (self._known, self._read_in, self._settled, self._bases, self._pauses):
            memory.pop(key, None)
        if key in self.journal.entries:
            self.journal.drop([key])

    def _prune(self, wanted: Mapping[Key, object]) -> None:
        if len(self._known) > 2 * (len(wanted) + len(self.journal.entries)) + 64:
            keep = wanted.keys() | self.journal.entries.keys()
            for key in [key for key in self._known if key not in keep]:
                del self._known[key]
                self._read_in.pop(key, None)
                self._settled.pop(key, None)
                self._bases.pop(key, None)
        for key in [key for key in self._pauses if key not in wanted and key not in self.journal.entries]:
            del self._pauses[key]


def _turn(key: Key) -> int:
    return zlib.crc32(key[0].encode()) % VERIFY_CYCLES


def _merge(plan: Plan, result: Applied) -> dict[Key, tuple[Wish, str]]:
    wanted: dict[Key, tuple[Wish, str]] = {}
    for owner in Owner:
        for wish in plan.get(owner, ()):
            if wish.key in wanted:
                result.conflicts.append(wish.key)
            else:
                wanted[wish.key] = wish, str(owner)
    return wanted
