"""`python -m manager`: composes the manager and runs it."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prometheus_client import REGISTRY

from koord.api.names import CONFIG_NAME, CONFIG_NAMESPACE
from koord.kube.connection import connect
from koord.kube.events import EventRecorder
from koord.kube.lease import LeaderElection, default_identity
from koord.logs import LEVELS
from koord.process import Process
from manager.control import garbage
from manager.control.announcing import Announcer
from manager.control.controller import Controller, Settings
from manager.control.fleet_metrics import FleetMetrics
from manager.control.recording import Recording

COMPONENT = "koord-manager"
LEASE_NAME = "koordinator-manager"
_BYTES_PER_MB = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    flags = build_parser().parse_args(arguments)
    garbage.collect_rarely()
    process = Process(COMPONENT, flags.health_port, log_level=flags.log_level)

    async def compose() -> None:
        await _compose(process, flags)

    process.on_startup(compose)
    return process.run()


async def _compose(process: Process, flags: argparse.Namespace) -> None:
    client = await connect(flags.kubeconfig)
    process.on_shutdown(client.close)
    identity = default_identity()
    recorder = EventRecorder(client, COMPONENT, identity)
    process.on_shutdown(recorder.flush)
    settings = Settings(
        config_namespace=flags.config_namespace,
        config_name=flags.config_name,
        resync_s=flags.resync_s,
        writes_per_s=flags.writes_per_s,
        identity=identity,
    )
    election = LeaderElection(client, flags.namespace, LEASE_NAME, identity) if flags.leader_elect else None
    recording = _recording(flags)
    controller = Controller(
        client,
        Announcer(recorder),
        settings,
        may_write=lambda: election is None or election.is_leading,
        recording=recording,
    )
    FleetMetrics(controller.resources.decided).register(REGISTRY)
    if recording is not None:
        process.supervise("recording", recording.run)
    process.supervise("events", recorder.run)
    for store in controller.stores:
        process.supervise(f"store of {store.resource}", store.run)
    process.add_readiness("stores", controller.check_synced)
    if election is None:
        process.supervise("controller", controller.lead)
    else:
        process.supervise("leader election", partial(election.run, controller.lead))


def _recording(flags: argparse.Namespace) -> Recording | None:
    if flags.record_decisions is None:
        return None
    return Recording(flags.record_decisions, int(flags.record_max_mb * _BYTES_PER_MB))


def build_parser() -> argparse.ArgumentParser:
    """The flags, each with its unit and default."""
    parser = argparse.ArgumentParser(
        prog="python -m manager",
        description="Turns node reports into batch and mid resources and slo-controller-config into NodeSLO objects.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--kubeconfig", help="path; without it in-cluster credentials, then $KUBECONFIG")
    parser.add_argument("--config-namespace", default=CONFIG_NAMESPACE, help="namespace of the ConfigMap")
    parser.add_argument("--config-name", default=CONFIG_NAME, help="name of the ConfigMap")
    parser.add_argument("--namespace", default=CONFIG_NAMESPACE, help="namespace of the lease")
    parser.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write only while holding the lease, so that several replicas can run",
    )
    parser.add_argument("--health-port", type=int, default=8001, help="0: any free port, -1: none")
    parser.add_argument("--resync-s", type=_positive, default=300.0, help="seconds between full recomputations")
    parser.add_argument("--writes-per-s", type=_positive, default=100.0, help="ceiling on writes, over all nodes")
    parser.add_argument(
        "--record-decisions",
        type=Path,
        metavar="PATH",
        help="append every decision to this file, a JSON object a line: what was sold, used and violated",
    )
    parser.add_argument(
        "--record-max-mb", type=_positive, default=100.0, help="MB after which the recording becomes PATH.1"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f'invalid value "{text}": allowed: a number above 0')
    return number


if __name__ == "__main__":
    sys.exit(main())
