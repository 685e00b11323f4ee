"""A group of commands that imports each when it is run: `skills list` needs none of the others."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import click

from skills_agent.graph.hooks import Command, extras
from skills_agent.skills.errors import DetailedError, SkillsAgentError

Commands = Mapping[str, Command | str]
"""Commands by name, in the order of the list; a text is the extra that brings the command."""


class ExtraMissingError(DetailedError, SkillsAgentError):
    """A command of an extra that is not installed."""

    sentence = (
        "The command '{command}' comes with the extra {extra}, which this installation lacks: install "
        "skills-agent again, with it."
    )
    command: str
    extra: str


class LazyGroup(click.Group):
    """Lists its own commands first, then late ones, in their order, then others of installed extras."""

    def __init__(self, *args: Any, late: Commands | None = None, path: str = "", **more: Any) -> None:
        """Take the late commands, beside what `click.Group` takes; `path` is what a person types before."""
        super().__init__(*args, **more)
        self._late = late or {}
        self._path = f"{path} " if path else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        brought = self._brought()
        late = [name for name, each in self._late.items() if isinstance(each, Command) or name in brought]
        return list(dict.fromkeys([*self.commands, *late, *brought]))

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
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        command = late if isinstance(late, Command) else self._brought().get(cmd_name)
        if command is None and late is not None:
            raise ExtraMissingError(f"{self._path}{cmd_name}", str(late))
        if command is None:
            return None
        module, _, name = command.target.partition(":")
        return cast("click.Command", getattr(import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: each for name, each in self._late.items() if isinstance(each, Command)}
        late = {**self._brought(), **own}
        rows = [
            (name, late[name].help if name in late else self.commands[name].get_short_help_str(80))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _brought(self) -> dict[str, Command]:
        """Return the commands of this group that installed extras bring, by name."""
        return {
            words.removeprefix(self._path): command
            for extra in extras()
            for words, command in extra.commands.items()
            if words.rpartition(" ")[0] == self._path.rstrip()
        }
