"""kubelet's cgroups on this machine: reading their control files, and removing what is left of them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

MOUNTS = Path("/sys/fs/cgroup")
KUBEPODS = "kubepods"
REMOVE_DEADLINE_S = 30.0
WATCHED = (
    ("cpu", "cpu.shares"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.cfs_period_us"),
    ("cpuset", "cpuset.cpus"),
    ("memory", "memory.limit_in_bytes"),
)
"""Controller and file of everything that the agent may write here."""


def why_not() -> str:
    """Why the tests cannot run in this machine's cgroups; empty when they can."""
    for controller, _ in WATCHED:
        if not (MOUNTS / controller / "cgroup.procs").exists():
            return f"cgroup v1 controller {controller} is not mounted (the tests read version 1 files)"
        if not os.access(MOUNTS / controller, os.W_OK):
            return f"{MOUNTS / controller} is not writable"
    return ""


def roots() -> list[Path]:
    """Every kubepods directory, whatever the hierarchy."""
    return sorted(path for path in MOUNTS.glob(f"*/{KUBEPODS}") if not path.parent.is_symlink())


def read(group: str, controller: str, file: str) -> str:
    """A control file of a group below kubepods ("" is kubepods itself). Raises OSError."""
    return (MOUNTS / controller / KUBEPODS / group / file).read_text().strip()


def number(group: str, controller: str, file: str) -> int:
    """A control file that holds one number. Raises OSError."""
    return int(read(group, controller, file))


def pod_group(uid: str, kube_qos: str) -> str:
    """A pod's group below kubepods; `kube_qos` as in the pod's status."""
    return f"pod{uid}" if kube_qos == "Guaranteed" else f"{kube_qos.lower()}/pod{uid}"


def snapshot() -> dict[str, str]:
    """All watched files of all groups; a group that ends meanwhile is left out."""
    found = {}
    for controller, file in WATCHED:
        top = MOUNTS / controller / KUBEPODS
        for folder, _, _ in os.walk(top):
            with contextlib.suppress(OSError):
                path = Path(folder, file)
                found[str(path.relative_to(MOUNTS))] = path.read_text().strip()
    return found


def remove() -> None:
    """Remove every kubepods tree; the processes in there must have ended. Raises TimeoutError naming what stays."""
    end = time.monotonic() + REMOVE_DEADLINE_S
    while left := roots():
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # busy for a moment after the last process
                    Path(folder).rmdir()
        if roots():
            if time.monotonic() > end:
                raise TimeoutError(f"cgroups cannot be removed: {', '.join(map(str, roots()))}")
            time.sleep(0.05)
