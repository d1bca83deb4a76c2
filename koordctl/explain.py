"""`koordctl explain`: why something is as it is."""

import click

from koordctl.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_by_name={
        "node": ("koordctl.explain_node:node", "Every number behind what a node offers, and when it was written."),
        "pod": ("koordctl.explain_pod:pod", "Which profiles match a pod, which do not and why, and what each does."),
    },
)
def explain() -> None:
    """Say why something is as it is."""
