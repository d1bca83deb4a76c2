"""`python -m webhook`: composes the admission webhook and runs it."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from certs.files import DirectoryStore, FileStore
from certs.material import Lifetimes
from certs.secret import SECRETS, SecretStore
from koord.api.errors import InvalidInput
from koord.api.names import CONFIG_NAME, CONFIG_NAMESPACE
from koord.kube.client import Client
from koord.kube.connection import connect
from koord.kube.events import EventRecorder
from koord.kube.lease import default_identity
from koord.kube.store import Store
from koord.logs import LEVELS
from koord.process import Process
from webhook.context import FeatureGates
from webhook.judging import Judges
from webhook.live import Live
from webhook.mounted import MountedCertificate
from webhook.registrar import Registrar
from webhook.registration import Target, configurations
from webhook.server import Server
from webhook.validation.routes import ConfigPlace

COMPONENT = "koord-webhook"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    flags = build_parser().parse_args(arguments)
    process = Process(COMPONENT, flags.health_port, log_level=flags.log_level, drain_s=flags.drain_s)

    async def compose() -> None:
        await _compose(process, flags)

    process.on_startup(compose)
    return process.run()


async def _compose(process: Process, flags: argparse.Namespace) -> None:
    client = await connect(flags.kubeconfig)
    process.on_shutdown(client.close)
    recorder = EventRecorder(client, COMPONENT, default_identity())
    process.on_shutdown(recorder.flush)
    live = Live(client, recorder, flags.namespace, flags.feature_gates)
    hosts = flags.host or [f"{flags.service}.{flags.namespace}.svc"]
    target = Target(flags.namespace, flags.service, flags.service_port, flags.url)
    registrar = _certificates(flags, client, hosts, target)
    await registrar.prepare()
    place = ConfigPlace(flags.config_namespace, flags.slo_config_name, flags.node_strategy_name_need_check == "true")
    judges = Judges(client, live, place)
    server = Server(live, judges, registrar.context, process.stopping, draw_per_request=flags.draw_per == "request")
    await server.start(flags.bind_address, flags.port)
    process.on_shutdown(server.stop)

    async def register_when_synced() -> None:
        # Registering first would send pods here that no profile can match yet.
        await asyncio.gather(*(store.wait_synced() for store in live.stores))
        await registrar.run()

    process.supervise("events", recorder.run)
    for store in (*live.stores, *live.optional_stores, *registrar.stores):
        process.supervise(f"store of {store.resource}", store.run)
    process.supervise("registration", register_when_synced)
    process.add_readiness("stores", live.check_synced)
    process.add_readiness("registration", registrar.check)
    _collect_rarely()


def _certificates(
    flags: argparse.Namespace, client: Client, hosts: Sequence[str], target: Target
) -> Registrar | MountedCertificate:
    """Who keeps the certificate fresh and the API server's trust in it."""
    if flags.cert_mode == "mounted":
        return MountedCertificate(flags.cert_dir)
    lifetimes = Lifetimes(timedelta(days=flags.ca_lifetime_days), timedelta(days=flags.cert_lifetime_days))
    wanted = configurations(flags.feature_gates)
    timing = {"settle_s": flags.cert_settle_s, "check_interval_s": flags.cert_check_s}
    if flags.cert_mode == "directory":
        files = FileStore(flags.cert_dir, lifetimes)
        return Registrar(client, DirectoryStore(files), hosts, target, wanted, **timing)
    source = SecretStore(client, flags.namespace, flags.cert_secret, flags.cert_dir, lifetimes)
    selector = f"metadata.name={flags.cert_secret}"
    watched = Store(client, SECRETS, namespace=flags.namespace, field_selector=selector)
    return Registrar(client, source, hosts, target, wanted, [watched], **timing)


def _collect_rarely() -> None:
    """Keep the cycle collector from walking everything that is loaded while a pod waits for its answer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def build_parser() -> argparse.ArgumentParser:
    """The flags, each with its unit and default."""
    parser = argparse.ArgumentParser(
        prog="python -m webhook",
        description="Marks pods for colocation as ClusterColocationProfiles say, when they are created.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--kubeconfig", help="path; without it in-cluster credentials, then $KUBECONFIG")
    add("--bind-address", default="0.0.0.0", help="address to serve on")
    add("--port", type=int, default=9876, help="port to serve on; 0: any free one")
    add(
        "--cert-dir", type=Path, default=Path("/var/lib/koord/webhook-certs"), help="certificates and keys, mode 0700"
    )
    add(
        "--cert-mode",
        choices=("directory", "secret", "mounted"),
        default="directory",
        help="own CA in --cert-dir; own CA in a Secret that all replicas share; "
        "tls.crt and tls.key in --cert-dir that somebody else keeps fresh",
    )
    add("--cert-secret", default="koord-webhook-certs", help="the Secret of --cert-mode secret, in --namespace")
    add("--ca-lifetime-days", type=float, default=3650.0, help="of a new CA")
    add("--cert-lifetime-days", type=float, default=365.0, help="of a new certificate; renewed at two thirds of it")
    add("--cert-check-s", type=float, default=60.0, help="seconds between two looks at the certificate")
    add("--cert-settle-s", type=float, default=5.0, help="from trust in a new CA to serving what it signed")
    add(
        "--host",
        action="append",
        help="name or address in the certificate, repeatable; default SERVICE.NAMESPACE.svc",
    )
    add("--url", default="", help="base URL that the API server calls, for a webhook outside the cluster")
    add("--service", default="koordinator-webhook-service", help="name of the Service in front, without --url")
    add("--service-port", type=int, default=443, help="port of the Service")
    add("--namespace", default=CONFIG_NAMESPACE, help="own namespace; its pods are never changed")
    add("--feature-gates", type=_gates, default=FeatureGates(), help="Name=true,Name=false")
    add("--config-namespace", default=CONFIG_NAMESPACE, help="namespace of the ConfigMap that configures nodes")
    add("--slo-config-name", default=CONFIG_NAME, help="name of that ConfigMap")
    add(
        "--node-strategy-name-need-check",
        choices=("true", "false"),
        default="false",
        help="refuse entries of that ConfigMap without a name of their own",
    )
    add("--draw-per", choices=("workload", "request"), default="workload", help="what a probability is drawn for")
    add("--drain-s", type=float, default=5.0, help="seconds to go on serving, not ready, after a signal")
    add("--health-port", type=int, default=8000, help="0: any free port, -1: none")
    add("--log-level", choices=LEVELS, default="info")
    return parser


def _gates(text: str) -> FeatureGates:
    try:
        return FeatureGates.parse(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
