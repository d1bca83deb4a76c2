"""Lines out of a stream of chunks, however long they are. Pure."""

from __future__ import annotations

from typing import Final

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Far above what the API server stores for one object (about 1.5 MiB)."""


class LineTooLong(Exception):  # noqa: N818 - named by what it says
    """A line exceeds every size an object can have: this is no watch stream."""


class LineSplitter:
    """Feed chunks, get the lines that they complete (without their line ends)."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The non-empty lines that end in this chunk. Raises LineTooLong."""
        *ended, rest = chunk.split(b"\n")
        if ended and self._parts:
            self._parts.append(ended[0])
            ended[0] = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            if self._held > self._limit:
                raise LineTooLong(f"{self._held} bytes without a line end")
        return [line for line in ended if line and not line.isspace()]

    def finish(self) -> bytes:
        """What is left at the end of the stream: b"" unless it was cut inside a line."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return rest
