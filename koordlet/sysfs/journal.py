"""What the agent changed and what was there before, on disk before the first write of a file.

One JSON line per fact in `<state-dir>/journal.jsonl`: a head with the boot id, then `own` (first change: the
original), `wrote` (the text about to be written; the last two are kept, since a crash may fall between this line
and the write), `drop` (restored or gone). Originals are fsynced before the file they belong to is touched. The
lines that only say what was written last are not: they outlive the process in the page cache, and a machine that
lost power has new cgroups anyway, which the boot id tells. The file is rewritten, atomically, when most of it is
history. A lock keeps a second agent off the same directory.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from koordlet.sysfs.knobs import Knob

Key = tuple[str, Knob]
_COMPACT_SLACK_LINES = 2_000


class JournalLocked(RuntimeError):  # noqa: N818
    """Another agent uses this state directory."""


class Line(msgspec.Struct, omit_defaults=True, frozen=True):
    """One line; `op` is head, own, wrote or drop. Unknown fields and ops of later versions are ignored."""

    op: str
    boot: str = ""
    group: str = ""
    knob: str = ""
    owner: str = ""
    original: str = ""
    wrote: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A file that is ours: who wanted it, its text before us, the last texts we wrote (newest last)."""

    owner: str
    original: str
    wrote: tuple[str, ...]


_DECODER = msgspec.json.Decoder(Line)
_KNOBS = {str(knob): knob for knob in Knob}


class Journal:
    """The open journal of one state directory; `entries` is its current content."""

    def __init__(self, state_dir: str, boot: str) -> None:
        """Open or create. Raises JournalLocked, or OSError when the directory cannot be used.

        Entries of another boot are dropped: the cgroups they name ended with it.
        """
        self.path = Path(state_dir, "journal.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._boot = boot
        self._lock = os.open(f"{state_dir}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise JournalLocked(f"{state_dir}: another koordlet is using this state directory") from None
        self.entries: dict[Key, Entry] = self._load()
        self._fd = -1
        self._lines = 0
        self._compact()

    def record(self, entries: dict[Key, Entry]) -> None:
        """Note what is about to be written. Synced to disk when a file or an original is new.

        Raises OSError when the disk does not take it; the files must then not be written.
        """
        lines = []
        is_new = False
        for key, entry in entries.items():
            known = self.entries.get(key)
            if known is not None and (known.original, known.owner) == (entry.original, entry.owner):
                lines.append(Line("wrote", group=key[0], knob=key[1], wrote=entry.wrote))
            else:
                is_new = True
                lines.append(_own(key, entry))
        self._append(lines, sync=is_new)
        self.entries.update(entries)

    def drop(self, keys: list[Key]) -> None:
        """Forget files that are restored, gone or not ours any more."""
        self._append([Line("drop", group=group, knob=knob) for group, knob in keys], sync=False)
        for key in keys:
            self.entries.pop(key, None)

    def close(self) -> None:
        """Close the file and let go of the lock; what it says stays."""
        for fd in (self._fd, self._lock):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock = -1

    def _append(self, lines: list[Line], *, sync: bool) -> None:
        if not lines:
            return
        if self._lines > len(self.entries) + _COMPACT_SLACK_LINES:
            self._compact()
        _write_all(self._fd, _encode(lines))
        if sync:
            os.fsync(self._fd)
        self._lines += len(lines)

    def _compact(self) -> None:
        lines = [Line("head", boot=self._boot), *(_own(key, entry) for key, entry in self.entries.items())]
        fresh = self.path.with_suffix(".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _write_all(fd, _encode(lines))
        os.fsync(fd)
        fresh.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(directory)
        os.close(directory)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._lines = len(lines)

    def _load(self) -> dict[Key, Entry]:
        entries: dict[Key, Entry] = {}
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return entries
        for text in content.splitlines():
            try:
                line = _DECODER.decode(text)
            except msgspec.DecodeError:
                continue  # the torn last line of a crash
            if line.op == "head":
                if line.boot != self._boot:
                    return {}
            elif line.knob in _KNOBS:
                _replay(entries, (line.group, _KNOBS[line.knob]), line)
        return entries


def _own(key: Key, entry: Entry) -> Line:
    return Line("own", "", key[0], key[1], entry.owner, entry.original, entry.wrote)


def _replay(entries: dict[Key, Entry], key: Key, line: Line) -> None:
    if line.op == "own":
        entries[key] = Entry(line.owner, line.original, line.wrote)
    elif line.op == "wrote" and key in entries:
        known = entries[key]
        entries[key] = Entry(known.owner, known.original, line.wrote)
    elif line.op == "drop":
        entries.pop(key, None)


def _encode(lines: list[Line]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]
