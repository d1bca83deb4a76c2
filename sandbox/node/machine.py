"""What this machine is: the facts that a node reports of it. Reads /proc and /etc; raises OSError."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_KIB = 1024


@dataclass(frozen=True)
class Machine:
    """The facts. cpus: that this process may run on at most; memory_bytes: of the whole machine."""

    cpus: int
    memory_bytes: int
    kernel_version: str
    boot_id: str
    machine_id: str
    os_image: str
    architecture: str


def read_machine(proc_root: Path) -> Machine:
    """Read the facts below a proc mount."""
    sys_kernel = proc_root / "sys" / "kernel"
    return Machine(
        cpus=_count_cpus(proc_root / "cpuinfo"),
        memory_bytes=_total_memory((proc_root / "meminfo").read_text()),
        kernel_version=(sys_kernel / "osrelease").read_text().strip(),
        boot_id=(sys_kernel / "random" / "boot_id").read_text().strip(),
        machine_id=_first_line(Path("/etc/machine-id")),
        os_image=_os_image(Path("/etc/os-release")),
        architecture=architecture(platform.machine()),
    )


def architecture(machine: str) -> str:
    """Go's name for what uname calls the machine; unknown ones as they are."""
    return {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}.get(machine, machine)


def _count_cpus(cpuinfo: Path) -> int:
    listed = sum(line.startswith("processor") for line in cpuinfo.read_text().splitlines())
    return listed or os.cpu_count() or 1


def _total_memory(meminfo: str) -> int:
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * _KIB
    raise OSError("meminfo has no MemTotal")


def _first_line(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _os_image(file: Path) -> str:
    for line in _first_line(file).splitlines():
        key, _, text = line.partition("=")
        if key == "PRETTY_NAME":
            return text.strip('"')
    return "Linux"
