"""skills-agent skills environments: the packages that are kept for scripts. Imports no LangGraph."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import ask_for_yes, echo, is_terminal, line_of, print_json, table
from skills_agent.graph.settings import Settings
from skills_agent.skills.text import count

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
    from skills_agent.skills.needs.kept_environments import KeptEnvironment

_SHOWN = 12
"""Digits of a digest."""


@click.command(
    epilog=options.examples(
        "skills environments", "skills environments --remove 3fa9c1", "skills environments --unused"
    )
)
@click.option("--remove", metavar="DIGEST", help="Remove the one whose digest begins like this.")
@click.option(
    "--unused",
    is_flag=True,
    help="Remove those that no skill needs any more that they were approved for, and what is not whole.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.workspace
@options.as_json
def environments(
    workspace: Path | None, *, remove: str | None, unused: bool, yes: bool, as_json: bool
) -> None:
    """Show the environments of packages that were approved for scripts of skills, or remove some.

    Whoever needs a removed one is asked anew (skills needs NAME --install).
    """
    from skills_agent.graph.machine import machine_of
    from skills_agent.skills.needs.kept_environments import kept_environments, remove_environment

    if remove and unused:
        raise click.UsageError("say --remove or --unused.")
    place = machine_of(Settings.load(workspace)).environments
    kept = kept_environments(place) if place else []
    chosen = [each for each in kept if not each.is_used] if unused else _named(kept, remove)
    if chosen and place:
        _confirm(chosen, yes=yes)
        for each in chosen:
            try:
                remove_environment(place, each)
            except OSError as error:
                raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
    if as_json:
        print_json(
            {"environments": [each._asdict() for each in kept], "removed": [each.digest for each in chosen]}
        )
    elif remove or unused:
        echo(f"Removed {count(len(chosen), 'environment')}, {sum(each.bytes for each in chosen):,} bytes.")
    else:
        _show(kept)


def _named(kept: "Sequence[KeptEnvironment]", digest: str | None) -> "list[KeptEnvironment]":
    if digest is None:
        return []
    chosen = [each for each in kept if digest and each.digest.startswith(digest)]
    if len(chosen) != 1:
        raise click.UsageError(f"{count(len(chosen), 'environment')} begin with {digest!r}.")
    return chosen


def _confirm(chosen: "Sequence[KeptEnvironment]", *, yes: bool) -> None:
    if yes:
        return
    if not is_terminal():
        raise click.UsageError("nobody can be asked here: say --yes")
    size = sum(each.bytes for each in chosen)
    named = ", ".join(each.digest[:_SHOWN] for each in chosen)
    ask_for_yes(f"Remove {count(len(chosen), 'environment')}, {size:,} bytes ({named})?")


def _show(kept: "Sequence[KeptEnvironment]") -> None:
    table(
        [
            (
                each.digest[:_SHOWN],
                each.kind,
                f"{each.bytes:,}",
                "" if each.is_used else "unused",
                line_of(", ".join(each.skills)),
                line_of(", ".join(each.needs), 60),
            )
            for each in kept
        ],
        header=("DIGEST", "KIND", "BYTES", "", "SKILLS", "NEEDS"),
        empty="No packages are kept: skills needs NAME --install brings those of a skill.",
    )
    if kept:
        echo(f"{count(len(kept), 'environment')}, {sum(each.bytes for each in kept):,} bytes.")
