"""What one cgroup uses: CPU time, throttling, memory, from kept descriptors, in either version."""

from dataclasses import dataclass
from typing import NamedTuple

from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.files import KeptFile
from koordlet.sysfs.mounts import CgroupMounts

_USEC_TO_NS = 1_000


class Throttling(NamedTuple):
    """Totals since the cgroup was made; periods count only while a quota is set."""

    periods: int
    throttled: int


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Bytes charged to the cgroup and all below it."""

    without_cache: int
    with_cache: int
    working_set: int


class GroupStats:
    """Opens the files of one cgroup when first asked, so that a group whose controllers come late still works."""

    __slots__ = ("_cpu_stat", "_group", "_is_v2", "_memory_stat", "_mounts", "_usage")

    def __init__(self, mounts: CgroupMounts, group: str) -> None:
        """Raises Unsupported when CPU time is not accounted."""
        self._mounts = mounts
        self._group = group
        self._is_v2 = mounts.of("cpuacct").version == 2
        self._usage: KeptFile | None = None
        self._cpu_stat: KeptFile | None = None
        self._memory_stat: KeptFile | None = None

    def usage_ns(self) -> int:
        """CPU time alone, the cheapest reading. Raises CgroupGone or Unsupported."""
        if self._is_v2:
            return number_after(self._read_cpu_stat(), b"usage_usec ") * _USEC_TO_NS
        if self._usage is None:
            self._usage = KeptFile(f"{self._mounts.of('cpuacct').root}/{self._group}/cpuacct.usage", 32)
        return int(self._usage.read())

    def throttling(self) -> Throttling:
        """How often the quota stopped the group. Raises CgroupGone or Unsupported.

        All zero where there is no quota; v2 has no such lines while the cpu controller is off for the group.
        """
        stat = self._read_cpu_stat()
        return Throttling(number_after(stat, b"nr_periods "), number_after(stat, b"nr_throttled "))

    def _read_cpu_stat(self) -> bytes:
        if self._cpu_stat is None:
            controller = "cpuacct" if self._is_v2 else "cpu"
            self._cpu_stat = KeptFile(f"{self._mounts.of(controller).root}/{self._group}/cpu.stat", 1024)
        return self._cpu_stat.read()

    def memory(self) -> GroupMemory | None:
        """Memory; None when the memory controller is off. Raises CgroupGone."""
        try:
            hierarchy = self._mounts.of("memory")
            if self._memory_stat is None:
                self._memory_stat = KeptFile(f"{hierarchy.root}/{self._group}/memory.stat")
        except Unsupported:
            return None
        return parse_memory_stat(self._memory_stat.read(), hierarchy.version)

    def close(self) -> None:
        """Let go of the descriptors."""
        for kept in (self._usage, self._cpu_stat, self._memory_stat):
            if kept is not None:
                kept.close()
        self._usage = self._cpu_stat = self._memory_stat = None


def number_after(text: bytes, name: bytes) -> int:
    """The number on the line that begins with `name` (with its trailing space); 0 when there is no such line."""
    start = text.find(name)
    while start > 0 and text[start - 1 : start] != b"\n":
        start = text.find(name, start + 1)
    if start < 0:
        return 0
    start += len(name)
    end = text.find(b"\n", start)
    return int(text[start : end if end >= 0 else len(text)])


def parse_memory_stat(stat: bytes, version: int) -> GroupMemory:
    """Anonymous and unevictable pages, the same with file pages, and the working set.

    v1's plain counters are of the cgroup alone; the `total_` ones include its children, as v2's all do.
    """
    if version == 1:
        prefix = b"total_"
        # The totals stand together after the plain counters, where looking is short.
        stat = stat[max(stat.find(b"total_"), 0) :]
        charged = number_after(stat, b"total_rss ") + number_after(stat, b"total_cache ")
    else:
        prefix = b""
        charged = sum(number_after(stat, name) for name in (b"anon ", b"file ", b"kernel ", b"sock "))
    anonymous = number_after(stat, prefix + b"inactive_anon ") + number_after(stat, prefix + b"active_anon ")
    unevictable = number_after(stat, prefix + b"unevictable ")
    inactive_file = number_after(stat, prefix + b"inactive_file ")
    active_file = number_after(stat, prefix + b"active_file ")
    without_cache = anonymous + unevictable
    return GroupMemory(without_cache, without_cache + inactive_file + active_file, max(charged - inactive_file, 0))
