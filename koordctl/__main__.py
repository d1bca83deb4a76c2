"""`koordctl`: the person's command."""

import sys

import click

from koordctl.lazy import LazyGroup

COMMANDS = {
    "demo": ("koordctl.demo:demo", "Run a web service and batch pods on this machine and measure both."),
    "explain": ("koordctl.explain:explain", "Say why something is as it is."),
    "mutate": ("koordctl.mutate:mutate", "Show what the webhook makes of the pods in manifests."),
    "sandbox": ("koordctl.sandbox:sandbox", "Run a cluster with Koord on this machine, to try things with kubectl."),
    "top": ("koordctl.top:top", "Show nodes and classes: requested, used, offered, taken."),
}
"""Each command: where it is, and its line in the help."""


@click.group(cls=LazyGroup, commands_by_name=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="koord", prog_name="koordctl")
def main() -> None:
    """Koord: pack batch work beside latency-sensitive services, safely."""


if __name__ == "__main__":
    sys.exit(main())
