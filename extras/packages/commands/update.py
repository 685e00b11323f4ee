"""skills-agent skills update: what the sources of installed skills have now."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_error
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.shared import (
    Options,
    carry_out,
    draft_of,
    hosts_of,
    now,
    target_of,
    to,
)
from skills_agent.packages.errors import OfferError, PackageError
from skills_agent.packages.installation import plan
from skills_agent.packages.lock import read_lock
from skills_agent.packages.settings import PackageSettings
from skills_agent.packages.signatures import signatures_of
from skills_agent.packages.syncing import fetch_skills


@click.command(
    epilog="Exit codes with --check: 0 nothing is new, 1 something is, or a source is gone.\n\n"
    + options.examples("skills update --check", "skills update csv-report --yes")
)
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--check", "dry", is_flag=True, help="Show all of what is new, and write nothing.")
@options.unasked
@to
@options.workspace
@options.as_json
def update(
    names: tuple[str, ...], dry: bool, yes: bool, place: str, workspace: Path | None, as_json: bool
) -> None:
    """Install what the sources of installed skills have now, by default of all; the same as `install` does.

    Skills that were changed here are left alone: `skills install --locked` puts them back.
    """
    settings = Settings.load(workspace)
    target = target_of(settings, place)
    lock = read_lock(target.folder)
    if unknown := next((each for each in names if each not in lock), ""):
        raise PackageError(f"skills.lock does not have {line_of(unknown)}.")
    wanted = [lock[name] for name in sorted(set(names) or lock)]
    with draft_of(target, dry=dry) as draft:
        fetched = fetch_skills(wanted, target, draft, hosts_of(settings, place), pinned=False)
        lost = [each for each in fetched if each.offer is None]
        for each in lost:
            print_error(f"{each.locked.name}: {each.reason}")
        if lost and (names or len(lost) == len(wanted)):
            raise OfferError(lost[0].locked.source, "see above" if len(lost) > 1 else "it cannot be fetched")
        if not as_json:
            for locked in wanted:
                if locked.proposed is not None:
                    echo(f"{locked.name}  {line_of(locked.origin)}, nothing to fetch")
        changes = plan(
            target,
            (each.offer for each in fetched if each.offer is not None),
            now(),
            signatures_of(settings),
            required=PackageSettings.of(settings).require_signature,
        )
        for change in changes:
            if change.obstacle and change.kind == "update":
                print_error(f"{change.name} is left as it is: it was changed since it was installed")
        changes = tuple(each for each in changes if not each.obstacle)
        what = Options(yes, dry, as_json=as_json)
        todo = carry_out(settings, target, draft, changes, what, lost=[each.locked.name for each in lost])
    if dry and (todo or lost):
        raise click.exceptions.Exit(1)
