"""`koordctl`: commands are loaded only when they are asked for, so that help is quick."""

import sys
from importlib import import_module

import click

COMMANDS = {
    "demo": ("koordctl.demo:demo", "Run a web service and batch pods on this machine and measure both."),
    "sandbox": ("koordctl.sandbox:sandbox", "Run a cluster with Koord on this machine, to try things with kubectl."),
}
"""Each command: where it is, and its line in the help."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="koord", prog_name="koordctl")
def main() -> None:
    """Koord: pack batch work beside latency-sensitive services, safely."""


if __name__ == "__main__":
    sys.exit(main())
