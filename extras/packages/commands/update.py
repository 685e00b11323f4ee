"""skills-agent skills update: what the sources of installed skills have now."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_error
from skills_agent.graph.cli.working import working
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.rollback import put_back
from skills_agent.packages.commands.shared import (
    Options,
    carry_out,
    draft_of,
    hosts_of,
    now,
    target_of,
    to,
)
from skills_agent.packages.errors import not_offered
from skills_agent.packages.installation import plan
from skills_agent.packages.lock import LockedSkill, chosen, read_lock
from skills_agent.packages.signatures import signatures_of
from skills_agent.packages.syncing import fetch_skills
from skills_agent.packages.target import Target
from skills_agent.skills.text import count


@click.command(
    epilog="Exit codes with --check: 0 nothing is new, 1 something is, or a source is gone.\n\n"
    + options.examples(
        "skills update --check",
        "skills update csv-report --yes",
        "skills update csv-report --rollback",
    )
)
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--check", "dry", is_flag=True, help="Show all of what is new, and write nothing.")
@click.option(
    "--rollback", is_flag=True, help="Put back the previous version of NAME; do it twice to be back here."
)
@click.option(
    "--version",
    metavar="DIGEST",
    default="",
    help="With --rollback: another version, by the beginning of its digest.",
)
@options.unasked
@to
@options.workspace
@options.as_json
def update(
    *,
    names: tuple[str, ...],
    rollback: bool,
    version: str,
    place: str,
    workspace: Path | None,
    **how: Any,
) -> None:
    """Update installed skills, by default all, to what their sources have now. Asks first, as `install`.

    Skills that were changed here are left alone: `skills install --locked` puts them back. --rollback lists
    the versions of one skill that are kept, shows what changes, and asks; one that was removed comes back.
    """
    what = Options(**how)
    if version and not rollback:
        raise click.UsageError("--version goes with --rollback")
    if rollback and (what.dry or len(names) != 1):
        raise click.UsageError("--rollback is for one NAME, without --check")
    settings = Settings.load(workspace)
    target = target_of(settings, place)
    if rollback:
        put_back(settings, target, names[0], version, what._replace(force=True))
    else:
        _update(settings, target, names, hosts_of(settings, place), what)


def _update(
    settings: Settings, target: Target, names: Sequence[str], hosts: Collection[str] | None, what: Options
) -> None:
    wanted = chosen(read_lock(target.folder), names)
    lost: list[LockedSkill] = []

    def lose(locked: LockedSkill, reason: str) -> None:
        lost.append(locked)
        print_error(f"{locked.name}: {reason}")

    with draft_of(target, dry=what.dry) as draft:
        with working(f"Fetching {count(len(wanted), 'skill')}"):
            skills = fetch_skills(wanted, target, draft, hosts, lose, pinned=False)
        if lost and (names or len(lost) == len(wanted)):
            raise not_offered(lost[0].source, "see above" if len(lost) > 1 else "it cannot be fetched")
        if not what.as_json:
            for locked in wanted:
                if locked.proposed is not None:
                    echo(f"{locked.name}  {line_of(locked.origin)}, nothing to fetch")
        changes = plan(target, skills, now(), signatures_of(settings))
        for change in changes:
            if change.obstacle and change.kind == "update":
                print_error(f"{change.name} is left as it is: it was changed since it was installed")
        changes = tuple(each for each in changes if not each.obstacle)
        todo = carry_out(settings, target, draft, changes, what, lost=[locked.name for locked in lost])
    if what.dry and (todo or lost):
        raise click.exceptions.Exit(1)
