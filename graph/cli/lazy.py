"""A group of commands that imports each when it is run: `skills list` needs none of the others."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import click


class Late(NamedTuple):
    """A command that is imported when it is run."""

    module: str
    """In graph/cli; the command is the function that is named like it there."""
    help: str
    """What the list of commands says: to make it imports none."""


class LazyGroup(click.Group):
    """Lists its own commands first, then late ones, in their order."""

    def __init__(self, *args: Any, late: Mapping[str, Late] | None = None, **more: Any) -> None:
        """Take the late commands by name, beside what `click.Group` takes."""
        super().__init__(*args, **more)
        self._late = dict(late or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*self.commands, *self._late]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name what is near to an unknown command, or the group that has it.

        Click looks only among those that are imported.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = self.list_commands(ctx)
            groups = ((name, self.get_command(ctx, name)) for name in names)
            of_groups = [
                f"'{name} {args[0]}'"
                for name, group in groups
                if isinstance(group, click.Group) and args[0] in group.list_commands(ctx)
            ]
            text = (
                f"No such command {args[0]!r}. Did you mean {' or '.join(of_groups)}?" if of_groups else None
            )
            raise click.NoSuchCommand(args[0], text, None if text else names, ctx) from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        late = self._late.get(cmd_name)
        if late is None:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"skills_agent.graph.cli.{late.module}")
        return cast("click.Command", getattr(module, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        late = [(name, each.help) for name, each in self._late.items()]
        here = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*here, *late])
