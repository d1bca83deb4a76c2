"""`koordctl explain pod`: every profile's part in what a pod is."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from koordctl.offline_admission import Outcome

_FILE = click.Path(exists=True, path_type=Path, allow_dash=True)


@click.command()
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the pod.")
@click.option("-f", "--filename", type=_FILE, help="Explain the pods and templates of a manifest instead.")
@click.option("--profiles", multiple=True, type=_FILE, help="With -f: profiles from files; without, the cluster's.")
@click.option("--namespaces", multiple=True, type=_FILE, help="With --profiles: Namespaces with their labels.")
@click.option("--priority-classes", multiple=True, type=_FILE, help="With --profiles: PriorityClasses.")
@click.option("--kubeconfig", type=click.Path(exists=True, path_type=Path), help="Default: $KUBECONFIG.")
@click.option("--feature-gates", default="", help="Name=true,Name=false, as of the webhook.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def pod(
    name: str | None,
    namespace: str,
    filename: Path | None,
    profiles: tuple[Path, ...],
    namespaces: tuple[Path, ...],
    priority_classes: tuple[Path, ...],
    kubeconfig: Path | None,
    feature_gates: str,
    output: str,
) -> None:
    """Say for each profile why it matches a pod or not, and what each field does.

    NAME is a pod of the cluster, asked as if it were created now as it stands; -f takes pods and templates from a
    manifest as they are before creation.
    """
    import asyncio

    from koordctl.manifests import pod_places, read_documents, read_folder
    from koordctl.mutate import add_namespace, context_of
    from koordctl.offline_admission import Unreadable, admit

    if (name is None) == (filename is None):
        raise click.UsageError("give either the NAME of a pod or -f FILE")
    if profiles and filename is None:
        raise click.UsageError("--profiles goes with -f")
    documents = read_documents(filename) if filename is not None else []
    if profiles:
        found = [one for path in profiles for one in read_folder(path)]
        spaces = [one for path in namespaces for one in read_folder(path)]
        classes = [one for path in priority_classes for one in read_folder(path)]
    else:
        cluster = asyncio.run(_read_cluster(kubeconfig, name, namespace))
        found, spaces, classes = cluster["profiles"], cluster["namespaces"], cluster["classes"]
        documents = documents or cluster["pods"]
    context = context_of(found, spaces + documents, classes, feature_gates)
    try:
        outcomes = [
            admit(place, add_namespace(context, place.namespace), explain=True)
            for document in documents
            for place in pod_places(document, namespace)
        ]
    except Unreadable as error:
        raise click.ClickException(str(error)) from error
    if not outcomes:
        raise click.ClickException(f"{filename}: holds no pod and no pod template")
    _print(outcomes, output)
    if any(outcome.refusal for outcome in outcomes):
        sys.exit(1)


async def _read_cluster(kubeconfig: Path | None, name: str | None, namespace: str) -> dict[str, list[dict[str, Any]]]:
    from koord.kube.access import AccessError
    from koord.kube.connection import connect
    from koord.kube.errors import ApiError
    from koord.kube.resources import raw

    kinds = {
        "profiles": raw(
            "config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile", False
        ),
        "namespaces": raw("", "v1", "namespaces", "Namespace", False),
        "classes": raw("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    }
    found: dict[str, list[dict[str, Any]]] = {"pods": []}
    try:
        async with await connect(str(kubeconfig) if kubeconfig else None, user_agent="koordctl") as client:
            for what, resource in kinds.items():
                page = await client.list(resource)
                found[what] = [{**item, "kind": resource.kind} for item in page.items]
            if name is not None:
                running: dict[str, Any] = await client.get(raw("", "v1", "pods", "Pod", True), name, namespace)
                found["pods"] = [running | {"kind": "Pod"}]
    except (AccessError, ApiError) as error:
        raise click.ClickException(str(error)) from error
    return found


def _print(outcomes: list["Outcome"], output: str) -> None:
    if output == "json":
        import json

        import msgspec

        documents = [
            {
                "object": outcome.place.owner,
                "namespace": outcome.place.namespace,
                "refused": outcome.refusal or None,
                "decision": msgspec.to_builtins(outcome.decision),
                "pod": outcome.after,
            }
            for outcome in outcomes
        ]
        click.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
        return
    click.echo("\n\n".join("\n".join(describe(outcome)) for outcome in outcomes))


def describe(outcome: "Outcome") -> list[str]:
    """The explanation in lines."""
    decision = outcome.decision
    lines = [f"{outcome.place.owner} in namespace {outcome.place.namespace}: {decision.reason}"]
    for profile in decision.profiles:
        chance = f" (draw {profile.draw} of {profile.percent} %)" if profile.draw is not None else ""
        detail = f": {profile.detail}" if profile.detail else ""
        lines.append(f"  profile {profile.name}: {profile.verdict}{chance}{detail}")
        for change in profile.changes:
            before = "absent" if change.before is None else repr(change.before)
            lines.append(f"    {change.field}: {change.key}: {before} -> {change.after!r}")
    if decision.translation is not None:
        band = f" to {decision.translation.band}" if decision.translation.band else ""
        detail = f" ({decision.translation.detail})" if decision.translation.detail else ""
        lines.append(f"  resources: {decision.translation.reason}{band}{detail}")
    for operation in decision.operations:
        value = "" if operation.op == "remove" else f" = {operation.value!r}"
        lines.append(f"  patch: {operation.op} {operation.path}{value}")
    lines += [f"  warning: {warning}" for warning in decision.warnings]
    if outcome.judgement is not None:
        lines += [f"  warning: {warning}" for warning in outcome.judgement.warnings]
    if outcome.refusal:
        lines.append(f"  REFUSED: {outcome.refusal}")
    return lines
