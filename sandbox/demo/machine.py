"""What machine this is, for the report."""

import os
import platform
from pathlib import Path

from sandbox.demo.cgroup_values import CgroupValues
from sandbox.demo.result import Machine


def describe(values: CgroupValues | None, proc_root: Path = Path("/proc")) -> Machine:
    """Facts of this machine; what cannot be read is "unknown" or 0."""
    return Machine(
        cpus=os.cpu_count() or 1,
        cpu_model=_field(proc_root / "cpuinfo", "model name") or platform.machine() or "unknown",
        memory_bytes=int((_field(proc_root / "meminfo", "MemTotal") or "0 kB").split()[0]) * 1024,
        kernel=f"{platform.system()} {platform.release()}",
        cgroups=f"version {values.version}" if values else "none with a cpu controller",
        python=platform.python_version(),
    )


def _field(file: Path, name: str) -> str:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
