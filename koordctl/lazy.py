"""Groups whose commands are loaded only when they are used, so that help is quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used.

    commands_by_name: each command's place, `module:attribute`, and its line in the help.
    """

    def __init__(self, *arguments: Any, commands_by_name: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = dict(commands_by_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, sorted."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None when there is none of that name."""
        if cmd_name not in self._places:
            return None
        module, _, attribute = self._places[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places[name][1]) for name in self.list_commands(ctx)])
