"""skills-agent skills home: what scripts of a skill keep in their HOME. Imports no LangGraph."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import ask_for_yes, echo, is_terminal, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.skills.text import count, readable

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
    from skills_agent.graph.kept_folders import KeptHome

NEWEST: Final = 10
"""Files of a home that are named."""


@click.command(epilog=options.examples("skills home notes", "skills home notes@user --clear"))
@click.argument("name")
@click.option("--clear", is_flag=True, help="Remove what is in it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.workspace
@options.as_json
def home(name: str, workspace: Path | None, *, clear: bool, yes: bool, as_json: bool) -> None:
    """Show what scripts of skill NAME (or NAME@SOURCE) keep in their HOME, or remove it.

    A skill has one for each place that it is loaded from, and another one while it is untrusted.
    """
    from skills_agent.graph.kept_folders import homes_of

    skill, _, source = name.partition("@")
    homes = [each for each in homes_of(Settings.load(workspace), skill) if source in {"", each.owner.source}]
    shown = [_Home.of(each) for each in homes]
    if clear and homes:
        _clear(homes, sum(each.bytes for each in shown), yes=yes)
    if as_json:
        print_json({"homes": [each._asdict() for each in shown], "cleared": clear})
        return
    if not homes:
        echo(f"Nothing is kept for {line_of(name)}: no script of it has run yet.")
    for each in shown:
        echo(each.as_text(cleared=clear))


class _Home(NamedTuple):
    """A home as a person sees it."""

    folder: str
    source: str
    path: str
    user: str
    trusted: bool
    files: int
    bytes: int
    newest: list[str]

    @classmethod
    def of(cls, home: "KeptHome") -> Self:
        """Look into a home."""
        from skills_agent.skills.scripts.report import files_since
        from skills_agent.skills.scripts.run_folders import weigh

        owner, weight = home.owner, weigh(home.folder)
        times = []
        for path, _ in files_since(home.folder, 0):
            with suppress(OSError):  # gone
                times.append((os.lstat(home.folder / path).st_mtime_ns, readable(path)))
        newest = [path for _, path in sorted(times, reverse=True)[:NEWEST]]
        facts = (owner.source, owner.path, owner.user, owner.trusted)
        return cls(str(home.folder), *facts, len(times), weight.bytes, newest)

    def as_text(self, *, cleared: bool) -> str:
        """Return it in lines."""
        trust = "" if self.trusted else ", untrusted"
        user = f", for {line_of(self.user)}" if self.user else ""
        size = f"{count(self.files, 'file')}, {self.bytes:,} bytes"
        lines = [f"  removed {size}"] if cleared else [f"  {size}", *(f"    {each}" for each in self.newest)]
        first = f"{self.folder} ({self.source}{trust}{user}; skill: {self.path})"
        return "\n".join(map(_one_line, [first, *lines]))


def _one_line(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + line_of(text)


def _clear(homes: Sequence["KeptHome"], size: int, *, yes: bool) -> None:
    from skills_agent.skills.trees import empty

    folders = ", ".join(line_of(str(each.folder)) for each in homes)
    if not yes:
        if not is_terminal():
            raise click.UsageError("nobody can be asked here: say --yes")
        ask_for_yes(f"Remove all {size:,} bytes in {folders}?")
    for each in homes:
        try:
            empty(each.folder)
        except OSError as error:
            raise click.ClickException(f"Cannot empty {each.folder}: {error.strerror}.") from error
