"""`koordctl mutate`: what the webhook makes of the pods in manifests, without a cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from koordctl.offline_admission import Outcome

_FILE = click.Path(exists=True, path_type=Path, allow_dash=True)


@click.command()
@click.option("-f", "--filename", "files", multiple=True, required=True, type=_FILE, help="Manifests; - is stdin.")
@click.option(
    "--profiles", multiple=True, required=True, type=_FILE, help="ClusterColocationProfiles: file or folder."
)
@click.option("--namespaces", multiple=True, type=_FILE, help="Namespaces with their labels.")
@click.option("--priority-classes", multiple=True, type=_FILE, help="PriorityClasses; default: those of Koord.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of objects that name none.")
@click.option("--feature-gates", default="", help="Name=true,Name=false, as of the webhook.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json", "patch", "diff"]), default="yaml", show_default=True
)
def mutate(
    files: tuple[Path, ...],
    profiles: tuple[Path, ...],
    namespaces: tuple[Path, ...],
    priority_classes: tuple[Path, ...],
    namespace: str,
    feature_gates: str,
    output: str,
) -> None:
    """Show what the webhook makes of the pods and pod templates in manifests.

    Runs the webhook's own code on files: Pods, workloads of any kind with a pod template, and lists of these; other
    objects pass as they are. Warnings and refusals go to stderr; the exit code is 1 when a pod is refused.
    """
    import copy

    from koordctl.manifests import pod_places, read_documents, read_folder
    from koordctl.offline_admission import Unreadable, admit

    documents = [document for path in files for document in read_documents(path)]
    context = context_of(
        [one for path in profiles for one in read_folder(path)],
        [one for path in namespaces for one in read_folder(path)] + documents,
        [one for path in priority_classes for one in read_folder(path)],
        feature_gates,
    )
    before = copy.deepcopy(documents)
    outcomes = []
    for document in documents:
        for place in pod_places(document, namespace):
            try:
                outcome = admit(place, add_namespace(context, place.namespace))
            except Unreadable as error:
                raise click.ClickException(str(error)) from error
            _tell(outcome)
            outcomes.append(outcome)
            if outcome.after is not None and not outcome.refusal:
                place.holder.update(outcome.after)
    _print(before, documents, outcomes, output)
    if any(outcome.refusal for outcome in outcomes):
        sys.exit(1)


def context_of(
    profiles: list[dict[str, Any]],
    namespaces: list[dict[str, Any]],
    classes: list[dict[str, Any]],
    feature_gates: str,
) -> Any:
    """The cluster as files describe it. Raises click.ClickException naming what does not read."""
    import msgspec

    from koord.api.errors import InvalidInput
    from koordctl.offline_admission import build_context
    from webhook.context import FeatureGates

    try:
        context = build_context(profiles, namespaces, classes, FeatureGates.parse(feature_gates))
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error
    except msgspec.ValidationError as error:
        raise click.ClickException(f"an object does not read: {error}") from error
    for profile in context.profiles.profiles:
        for problem in profile.problems:
            click.echo(f"warning: {problem}", err=True)
    if not context.profiles.profiles:
        click.echo("warning: no ClusterColocationProfile found in --profiles", err=True)
    return context


def add_namespace(context: Any, namespace: str) -> Any:
    """A namespace that no file describes exists too, with only the label that every namespace has."""
    from koord.api import names

    if namespace not in context.namespaces:
        context.namespaces[namespace] = {names.LABEL_NAMESPACE_NAME: namespace}
        if any(profile.namespace_selector.equalities for profile in context.profiles.profiles):
            click.echo(f"warning: namespace {namespace}: no --namespaces file gives its labels", err=True)
    return context


def _tell(outcome: "Outcome") -> None:
    for warning in (*outcome.decision.warnings, *(outcome.judgement.warnings if outcome.judgement else ())):
        click.echo(f"warning: {outcome.place.owner}: {warning}", err=True)
    if outcome.refusal:
        click.echo(f"refused: {outcome.place.owner}: {outcome.refusal}", err=True)


def _print(before: list[dict[str, Any]], after: list[dict[str, Any]], outcomes: list["Outcome"], output: str) -> None:
    import json

    import yaml

    def dumped(documents: list[dict[str, Any]]) -> str:
        return str(yaml.safe_dump_all(documents, sort_keys=False, width=120))

    if output == "yaml":
        click.echo(dumped(after), nl=False)
    elif output == "json":
        click.echo(json.dumps(after[0] if len(after) == 1 else after, indent=2))
    elif output == "patch":
        import msgspec

        patches = [
            {"object": outcome.place.owner, "patch": msgspec.to_builtins(outcome.decision.operations)}
            for outcome in outcomes
        ]
        click.echo(json.dumps(patches, indent=2))
    else:
        from difflib import unified_diff

        submitted, admitted = (dumped(documents).splitlines(keepends=True) for documents in (before, after))
        click.echo("".join(unified_diff(submitted, admitted, "submitted", "admitted")), nl=False)
