"""skills-agent skills install: fetch skills, show what that would change, and do just that."""

from collections.abc import Sequence
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.packages import (
    check_required,
    confirm,
    force,
    market_of,
    note_signed,
    origin,
    require_signature,
    signers_of,
    target_of,
    to,
    yes,
)
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.installation import Change, plan
from skills_agent.skills.packages.installation import install as install_changes
from skills_agent.skills.packages.offer import Wanted
from skills_agent.skills.packages.signed import said
from skills_agent.skills.text import count


@click.command(
    epilog=options.examples(
        "skills install ./shared-skills --skill csv-report",
        "skills install acme/skills@v1.2 --to user",
        "skills install https://example.org/csv-report.zip --yes",
        'skills install "csv-report>=1.2"',
    )
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--skill", "names", metavar="NAME", multiple=True, help="Only this skill of SOURCE. Repeatable."
)
@yes
@force
@require_signature
@to
@options.workspace
@options.as_json
def install(
    *,
    sources: tuple[str, ...],
    names: tuple[str, ...],
    yes: bool,
    force: bool,
    require_signature: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Install skills from SOURCE: a folder, an archive, a repository (owner/repo@ref), a URL or a name.

    First shows what is new, what changes and what it may do. What is shown is what is installed, and
    skills.lock in the folder says from where.
    """
    settings = Settings.load(workspace)
    addresses = [parse_address(each, Path.cwd()) for each in sources]
    target = target_of(settings, place)
    signatures = signers_of(settings).signatures()
    with target.draft() as draft:
        offers = []
        for number, address in enumerate(addresses):
            into = draft / str(number)
            into.mkdir()
            wanted = Wanted(address, into, frozenset(names), target.limits)
            offers.append(fetch(wanted._replace(market=market_of(settings), signatures=signatures)))
        changes = plan(target, offers, signatures)
        check_required(settings, changes, required=require_signature)
        if not as_json:
            show_changes(changes, target.folder)
        todo = [each for each in changes if each.kind != "same"]
        if todo:
            confirm(f"Install {count(len(todo), 'skill')}?", yes=yes)
        install_changes(target, draft, changes, origin(), force=force)
        note_signed(settings, changes)
    if as_json:
        print_json(
            {
                "folder": str(target.folder),
                "skills": [
                    {"name": each.skill.name, "change": each.kind, "digest": each.skill.digest}
                    for each in changes
                ],
            }
        )
    elif todo:
        echo(f"Installed {count(len(todo), 'skill')} in {target.folder}.")


def show_changes(changes: Sequence[Change], folder: Path) -> None:
    """Show what installing would change."""
    for each in changes:
        echo(f"{each.skill.name}  {each.kind}  {line_of(each.offer.address.text)}  {each.skill.digest[:12]}")
        echo(f"  {line_of(said(each.signature))}")
    if all(each.kind == "same" for each in changes):
        echo(f"Nothing to do: {folder} has these already.")
