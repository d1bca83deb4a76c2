"""Where the demo shows what goes on: plain lines here, a live screen in `live_screen`."""

import time
from typing import Protocol, TextIO

from sandbox.demo.result import Sample

LINE_PERIOD_S = 5.0


class Screen(Protocol):
    """What the demo tells; nothing here ever fails because nobody looks."""

    def note(self, text: str) -> None:
        """Something happened: one sentence."""

    def sample(self, sample: Sample) -> None:
        """The state of node and cgroups just now, twice a second."""

    def close(self) -> None:
        """Nothing more will come."""


class PlainScreen:
    """Lines with the seconds since the start; a line of state every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._origin_s = time.monotonic()
        self._last_line_s = float("-inf")

    def note(self, text: str) -> None:
        """Write a line."""
        self._write(text)

    def sample(self, sample: Sample) -> None:
        """Write the state, now and then."""
        now_s = time.monotonic()
        if now_s - self._last_line_s >= LINE_PERIOD_S:
            self._last_line_s = now_s
            self._write("  " + state_line(sample))

    def close(self) -> None:
        """Nothing to do."""

    def _write(self, text: str) -> None:
        self._stream.write(f"[{time.monotonic() - self._origin_s:6.1f} s] {text}\n")
        self._stream.flush()


def state_line(sample: Sample) -> str:
    """A sample in one line; what is not known is left out. Pure."""
    parts = [f"batch-cpu {_or_none(sample.batch_cpu_milli)}"]
    if sample.busy_cpus is not None:
        parts.append(
            f"CPUs busy {sample.busy_cpus:.2f} (service {sample.service_cpus or 0:.2f}, "
            f"batch {sample.batch_cpus or 0:.2f})"
        )
    if sample.besteffort_weight is not None:
        quota = "none" if sample.quota_cpus is None else f"{sample.quota_cpus:.2f} CPUs"
        parts.append(f"batch quota {quota}")
        parts.append(f"weight service:batch {_or_none(sample.service_weight)}:{sample.besteffort_weight}")
    return ", ".join(parts)


def _or_none(value: int | None) -> str:
    return "none" if value is None else f"{value}"
