"""The agent's flags. Cluster policy does not come from here but from NodeSLO and NodeMetric."""

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """One run's configuration; see `parse` for units and defaults."""

    kubeconfig: str | None
    node_name: str
    cgroup_parent: str
    cgroup_driver: str
    proc_root: str
    sys_root: str
    devices_root: str
    state_dir: str
    health_port: int
    min_report_interval_s: float
    cycle_s: float
    fast_cycle_s: float
    stale_after_s: float
    log_level: str
    restore: bool


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """The settings from the command line (sys.argv by default). Ends the process with a message on bad ones."""
    parser = argparse.ArgumentParser(prog="koordlet", description="Koord's node agent.")
    add = parser.add_argument
    add("--kubeconfig", help="credentials; in the cluster the service account's are used")
    add("--node-name", default=os.environ.get("NODE_NAME") or socket.gethostname(), help="own Node ($NODE_NAME)")
    add("--cgroup-parent", default="/", help="kubelet's cgroupRoot: the cgroup that holds kubepods")
    add("--cgroup-driver", default="auto", choices=["auto", "cgroupfs", "systemd"], help="kubelet's cgroupDriver")
    add("--proc-root", default="/proc", help="where the host's /proc is")
    add("--sys-root", default="/sys/fs/cgroup", help="where the host's /sys/fs/cgroup is")
    add("--devices-root", default="/sys/devices", help="where the host's /sys/devices is")
    add("--state-dir", default="/var/lib/koordlet", help="holds the journal of original cgroup values")
    add("--health-port", type=int, default=9316, help="/healthz, /readyz, /metrics; 0 any free port, -1 none")
    add("--min-report-interval-s", type=float, default=30.0, help="NodeMetric is not reported more often")
    add("--cycle-s", type=float, default=1.0, help="seconds between two decisions")
    add("--fast-cycle-s", type=float, default=0.1, help="seconds between two looks for a step of load; 0 is off")
    add(
        "--stale-after-s",
        type=float,
        default=5.0,
        help="without a fresh sample for so long, the limit of best-effort work falls to its minimum",
    )
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    add("--restore", action="store_true", help="give every file in the journal its original value, and exit")
    values = vars(parser.parse_args(arguments))
    settings = Settings(**values)
    _check(parser, settings)
    return settings


def _check(parser: argparse.ArgumentParser, settings: Settings) -> None:
    if not 0.1 <= settings.cycle_s <= 10:
        parser.error(f"--cycle-s {settings.cycle_s}: allowed: 0.1 to 10")
    if settings.fast_cycle_s and not 0.02 <= settings.fast_cycle_s <= settings.cycle_s:
        parser.error(f"--fast-cycle-s {settings.fast_cycle_s}: allowed: 0, or 0.02 to --cycle-s")
    if settings.stale_after_s < 2 * settings.cycle_s:
        parser.error(f"--stale-after-s {settings.stale_after_s}: allowed: two cycles or more")
    if settings.min_report_interval_s <= 0:
        parser.error(f"--min-report-interval-s {settings.min_report_interval_s}: allowed: above 0")
