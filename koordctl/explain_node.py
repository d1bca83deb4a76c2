"""`koordctl explain node`: every number behind what a node offers."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from koordctl.colocation_objects import ColocationObjects

_FILE = click.Path(exists=True, path_type=Path, allow_dash=True)


@click.command()
@click.argument("name")
@click.option(
    "--from",
    "dumps",
    multiple=True,
    type=_FILE,
    metavar="DUMP",
    help="Read what `kubectl get nodes,pods,nodemetrics,configmaps -A -o json` wrote instead of a cluster (a file, a"
    " folder or -; may be repeated).",
)
@click.option("--at", metavar="TIME", help="As of this moment (RFC 3339); with --from the newest one in the files.")
@click.option("--kubeconfig", type=click.Path(exists=True, path_type=Path), help="Default: $KUBECONFIG.")
@click.option("--context", help="Of the kubeconfig.")
@click.option("--config-namespace", default="koordinator-system", show_default=True, help="Of the configuration.")
@click.option("--config-name", default="slo-controller-config", show_default=True, help="Of the configuration.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def node(
    name: str,
    dumps: tuple[Path, ...],
    at: str | None,
    kubeconfig: Path | None,
    context: str | None,
    config_namespace: str,
    config_name: str,
    output: str,
) -> None:
    """Say why node NAME offers the batch and mid resources that it offers.

    Every term of the formulas with the object and field it is from, the strategy in force and which layer stated
    each value, the pods that count and how, and whether the node shows it: when it was written last and why not
    since.
    """
    from koord.api import names
    from koord.api.quantity import InvalidQuantity
    from koordctl.node_report import as_json, as_text
    from manager.overcommit.explain import Objects, bound_to, explain

    found = _read(name, dumps, kubeconfig, context, config_namespace, config_name)
    if name not in found.nodes:
        known = ", ".join(sorted(found.nodes)[:20])
        raise click.ClickException(f"there is no node {name}" + (f"; there are: {known}" if known else ""))
    now_s = _moment(at, found, from_files=bool(dumps))
    config = found.config_maps.get((config_namespace, config_name))
    stored = found.config_maps.get((config_namespace, f"{config_name}{names.LAST_GOOD_SUFFIX}"))
    if config is None:
        kept = "what is stored as last good explains" if stored is not None else "the built-in defaults explain"
        found.problems.append(f"ConfigMap/{config_namespace}/{config_name} was not found: {kept}")
    objects = Objects(
        found.nodes[name],
        found.metrics.get(name),
        bound_to(found.pods, name),
        None if config is None else config.data,
        None if stored is None else stored.data,
        found.topologies.get(name),
        found.devices.get(name),
    )
    try:
        explanation = explain(objects, now_s)
    except InvalidQuantity as error:
        raise click.ClickException(f"Node/{name}: status: {error}; the manager leaves such a node alone") from error
    source = f"ConfigMap/{config_namespace}/{config_name}"
    if output == "json":
        click.echo(as_json(explanation, found, now_s, source))
    else:
        click.echo("\n".join(as_text(explanation, found, now_s, source)))


def _read(
    name: str,
    dumps: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    config_namespace: str,
    config_name: str,
) -> "ColocationObjects":
    import asyncio

    from koord.kube.access import AccessError
    from koord.kube.errors import ApiError
    from koordctl.colocation_objects import read_dump, read_node

    if dumps:
        return read_dump(dumps)
    path = str(kubeconfig) if kubeconfig else None
    try:
        return asyncio.run(read_node(path, context, name, config_namespace, config_name))
    except (AccessError, ApiError) as error:
        raise click.ClickException(str(error)) from error


def _moment(at: str | None, found: "ColocationObjects", *, from_files: bool) -> float:
    from koord.api.timestamps import parse_rfc3339

    if at is not None:
        try:
            return parse_rfc3339(at)
        except ValueError:
            raise click.BadParameter(
                f"{at!r} is no RFC 3339 time such as 2026-01-01T12:00:00Z", param_hint="--at"
            ) from None
    if from_files and found.newest_s is not None:
        return found.newest_s
    return time.time()
