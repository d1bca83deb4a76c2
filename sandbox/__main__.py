"""`python -m sandbox`: a Kubernetes cluster in one process, until SIGTERM or SIGINT."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from koord.process import Process
from sandbox.cluster import SandboxCluster
from sandbox.options import SandboxOptions, default_node_name

STOP_BUDGET_S = 60.0
"""Of which the process gives a third to stopping the cluster."""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="PATH", help="file to write")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on, 0 for any free one")
    node = parser.add_mutually_exclusive_group()
    node.add_argument(
        "--host-node",
        default=default_node_name(),
        metavar="NAME",
        help="name of this machine as a node (default: %(default)s)",
    )
    node.add_argument("--no-host-node", action="store_const", const="", dest="host_node", help="have no such node")
    parser.add_argument("--simulated-nodes", type=int, default=0, metavar="N", help="nodes without a machine")
    parser.add_argument(
        "--simulated-cpu", default="32", metavar="QUANTITY", help="CPU of each (default: %(default)s)"
    )
    parser.add_argument(
        "--simulated-memory", default="64Gi", metavar="QUANTITY", help="memory of each (default: %(default)s)"
    )
    parser.add_argument("--cgroup-parent", metavar="NAME", help="parent of kubepods (default: koord-sandbox-PID)")
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="journals and logs (default: below the tmp dir)"
    )
    parser.add_argument("--proc-root", type=Path, default=Path("/proc"), metavar="DIR", help="proc mount to read")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser


def parse_options(arguments: argparse.Namespace) -> SandboxOptions:
    """The options that were given; the rest keeps its default. Raises ValueError."""
    names = [field.name for field in dataclasses.fields(SandboxOptions)]
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    return SandboxOptions(**given)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end; 0, or 1 with the reason in the log, or 2 for a wrong command line."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        cluster = SandboxCluster(parse_options(arguments))
    except ValueError as error:
        parser.error(str(error))
    process = Process("sandbox", -1, log_level=arguments.log_level, grace_s=STOP_BUDGET_S)

    async def start() -> None:
        await cluster.start()
        announcement = {
            "ready": True,
            "server": cluster.server,
            "kubeconfig": str(cluster.options.kubeconfig),
            "cgroup_parent": cluster.cgroup_parent,
        }
        sys.stdout.write(json.dumps(announcement) + "\n")
        sys.stdout.flush()

    async def watch() -> None:
        process.stop(await cluster.wait_failed())

    process.on_startup(start)
    process.supervise("cluster", watch)
    process.on_shutdown(cluster.stop)
    return process.run()


if __name__ == "__main__":
    sys.exit(main())
