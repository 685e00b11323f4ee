"""A group of commands that imports each when it is run: `skills list` needs none of the others."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, cast

import click

from skills_agent.graph.cli.working import loading
from skills_agent.graph.hooks import Command, extras, missing_part
from skills_agent.skills.errors import SkillsAgentError, nearest

_OF_PARTS: Final[Mapping[str, str]] = {
    "eval": "evals",
    "dev": "server",
    "undo": "sandbox",
    **dict.fromkeys(("publish", "publish pack", "publish serve"), "packages or mcp"),
    **dict.fromkeys(("skills install", "skills update", "skills remove"), "packages"),
}
"""Which part brings a command: said where the part is not installed."""
_ELSEWHERE: Final = {"uninstall": "skills remove", "runs": "threads record", "needs": "doctor SKILL"}
"""What others call a command, or we did."""
_WHOLE: Final = 200
"""Characters of a line in the list of commands: its first sentence is not cut."""


def _words(group: click.Command | None, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the name of each command below a group, with all the words that a person types."""
    if isinstance(group, LazyGroup):
        for name in group.list_commands(ctx):
            yield from _words(group.get_command(ctx, name), ctx)
            yield name, f"{group.path} {name}".strip()


class LazyGroup(click.Group):
    """Lists its own commands first, then late ones, in their order, then those of installed extras."""

    def __init__(
        self, *args: Any, late: Mapping[str, Command] | None = None, path: str = "", **more: Any
    ) -> None:
        """Take the late commands, beside what `click.Group` takes; `path` is what a person types before."""
        super().__init__(*args, **more)
        self._late = late or {}
        self.path = path

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take options of the group from anywhere before `--`: click reads them before a command.

        Others before a command are meant for it.
        """
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        flags = {name for option in options if option.is_flag for name in option.opts}
        names = {name for option in options for name in option.opts} - flags
        end = args.index("--") if "--" in args else len(args)
        front, rest, words = [], [], iter(args[:end])
        for word in words:
            name, has_value, _ = word.partition("=")
            if name not in names:
                rest.append(word)
            elif has_value:
                front.append(word)
            elif (value := next(words, None)) is not None:
                front += [word, value]
            else:
                raise click.BadOptionUsage(name, f"Option {name!r} requires an argument.", ctx)
        if rest[:1] and rest[0].startswith("-"):
            commands = self.list_commands(ctx)
            at = next((place for place, word in enumerate(rest) if word in commands), 0)
            if flags.isdisjoint(rest[:at]):
                rest = [*rest[at : at + 1], *rest[:at], *rest[at + 1 :]]
        return super().parse_args(ctx, [*front, *rest, *args[end:]])

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(dict.fromkeys([*self.commands, *self._all_late()]))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the command, of any group, that is near to an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            known = _ELSEWHERE | dict(_words(ctx.find_root().command, ctx)) | dict(_words(self, ctx))
            near = known.get(nearest(args[0], known))
            text = f"No such command {args[0]!r}.{f' Did you mean {near!r}?' if near else ''}"
            raise click.NoSuchCommand(args[0], text, ctx=ctx) from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        if late := self._all_late().get(cmd_name):
            module, _, name = late.target.partition(":")
            with loading():
                return cast("click.Command", getattr(import_module(module), name))
        if part := _OF_PARTS.get(f"{self.path} {cmd_name}".strip()):
            raise SkillsAgentError(missing_part(f"The command '{cmd_name}'", part), code="extra-missing")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        late = self._all_late()
        rows = [
            (name, late[name].help if name in late else self.commands[name].get_short_help_str(_WHOLE))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _all_late(self) -> dict[str, Command]:
        """Return the late commands, and those of this group that installed extras bring, by name."""
        brought = {
            words.removeprefix(f"{self.path} "): command
            for extra in extras()
            for words, command in extra.commands.items()
            if words.rpartition(" ")[0] == self.path
        }
        return {**self._late, **brought, **self._late}
