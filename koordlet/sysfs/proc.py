"""What /proc and /sys/devices say of the node: CPU ticks, memory, boot id, CPU topology."""

import os
from dataclasses import dataclass
from pathlib import Path

from koordlet.sysfs import cpulist
from koordlet.sysfs.files import KeptFile

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True)
class NodeMemory:
    """Bytes. `used` leaves reclaimable cache out (MemTotal − MemAvailable), `with_cache` does not."""

    total: int
    used: int
    with_cache: int


@dataclass(frozen=True)
class Processor:
    """One online logical CPU and where it sits."""

    cpu: int
    core: int
    socket: int
    numa: int


class NodeFiles:
    """Kept /proc files of the node. `proc_root` is /proc, or where the host's is mounted."""

    def __init__(self, proc_root: str) -> None:
        """Raises Unsupported when /proc is not there."""
        self._stat = KeptFile(f"{proc_root}/stat", 512)
        self._meminfo = KeptFile(f"{proc_root}/meminfo", 2048)

    def cpu_seconds(self) -> float:
        """CPU time the node has used since boot: user, nice, system, irq and softirq of all CPUs.

        Resolution is one tick (10 ms) per CPU and kind.
        """
        return parse_cpu_ticks(self._stat.read()) / _TICKS_PER_SECOND

    def memory(self) -> NodeMemory:
        """Memory now."""
        return parse_meminfo(self._meminfo.read())

    def close(self) -> None:
        """Let go of the descriptors."""
        self._stat.close()
        self._meminfo.close()


def parse_cpu_ticks(stat: bytes) -> int:
    """Busy ticks of the first line of /proc/stat. Raises ValueError when it is not that file."""
    fields = stat[: stat.find(b"\n")].split()
    if len(fields) < 8 or fields[0] != b"cpu":
        raise ValueError("/proc/stat: no cpu line")
    return int(fields[1]) + int(fields[2]) + int(fields[3]) + int(fields[6]) + int(fields[7])


def _field_kib(meminfo: bytes, name: bytes) -> int:
    start = meminfo.find(name)
    if start < 0:
        raise ValueError(f"/proc/meminfo: no {name.decode()}")
    return int(meminfo[start + len(name) : meminfo.find(b"kB", start)])


def parse_meminfo(meminfo: bytes) -> NodeMemory:
    """The three amounts the agent needs. Raises ValueError when a line is missing."""
    total = _field_kib(meminfo, b"MemTotal:")
    available = _field_kib(meminfo, b"MemAvailable:")
    free = _field_kib(meminfo, b"MemFree:")
    return NodeMemory(total * _KIB, max(total - available, 0) * _KIB, max(total - free, 0) * _KIB)


def boot_id(proc_root: str) -> str:
    """Changes at every boot; empty when the kernel does not tell."""
    try:
        return Path(proc_root, "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_processors(devices_root: str) -> list[Processor]:
    """The online CPUs with core, socket and NUMA node, ascending; empty when /sys/devices is not there.

    CPUs that are offline (even CPU 0 can be) do not appear.
    """
    base = Path(devices_root, "system/cpu")
    try:
        online = cpulist.parse((base / "online").read_text())
    except (OSError, ValueError):
        return []
    numa_of = _numa_nodes(Path(devices_root, "system/node"))
    processors = []
    for cpu in sorted(online):
        topology = base / f"cpu{cpu}/topology"
        socket = _read_id(topology / "physical_package_id", 0)
        core = _read_id(topology / "core_id", cpu)
        # core_id is only unique inside its socket.
        processors.append(Processor(cpu, (socket << 16) + core, socket, numa_of.get(cpu, 0)))
    return processors


def _read_id(path: Path, default: int) -> int:
    try:
        return max(int(path.read_text()), 0)
    except (OSError, ValueError):
        return default


def _numa_nodes(base: Path) -> dict[int, int]:
    found = {}
    for directory in base.glob("node[0-9]*"):
        try:
            cpus = cpulist.parse((directory / "cpulist").read_text())
        except (OSError, ValueError):
            continue
        for cpu in cpus:
            found[cpu] = int(directory.name.removeprefix("node"))
    return found


def memory_of_process(proc_root: str = "/proc") -> int:
    """Resident bytes of this process. Raises OSError when /proc is not there."""
    return int(Path(proc_root, "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
