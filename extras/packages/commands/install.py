"""skills-agent skills install: fetch skills, show what that would change, and do just that."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_error
from skills_agent.graph.cli.working import working
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import user_state_folder
from skills_agent.packages.address import parse_address
from skills_agent.packages.commands.shared import (
    Options,
    carry_out,
    draft_of,
    hosts_of,
    now,
    skills_here,
    target_of,
    to,
)
from skills_agent.packages.commands.verify import check as compare
from skills_agent.packages.errors import PackageError, not_offered, shown
from skills_agent.packages.fetch import fetch
from skills_agent.packages.installation import ChangeKind, change_to, checked, plan
from skills_agent.packages.lock import LockedSkill, read_expected_lock
from skills_agent.packages.offer import Listed, Selection, version_of
from skills_agent.packages.origins import note_typed
from skills_agent.packages.required import with_required
from skills_agent.packages.signatures import signatures_of
from skills_agent.packages.syncing import fetch_skills
from skills_agent.packages.target import Target
from skills_agent.packages.verification import verify
from skills_agent.skills.errors import list_names
from skills_agent.skills.text import count


@click.command(
    epilog=options.examples(
        "skills install ./skills --skill csv-report",
        "skills install acme/skills@v1.2 --to user",
        "skills install https://example.org/a.zip",
        "skills install --locked --yes",
        "skills install --locked --check",
    )
)
@click.argument("source", metavar="SOURCE", required=False)
@click.option(
    "--skill", "names", metavar="NAME", multiple=True, help="Only this skill of SOURCE. Repeatable."
)
@click.option("--all", "everything", is_flag=True, help="All skills of SOURCE.")
@click.option("--locked", is_flag=True, help="What skills.lock says, in place of SOURCE.")
@click.option(
    "--check",
    is_flag=True,
    help="With --locked: only compare what is installed; exits with 1 where it differs.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Show all of what would change, and write nothing.")
@options.unasked
@click.option(
    "--force", is_flag=True, help="Also replace what was changed, or not installed by skills-agent."
)
@to
@options.workspace
@options.as_json
def install(
    *,
    source: str | None,
    names: tuple[str, ...],
    everything: bool,
    locked: bool,
    check: bool,
    place: str,
    workspace: Path | None,
    **how: Any,
) -> None:
    """Install skills from SOURCE: a folder, an archive, a repository (owner/repo@ref) or a URL.

    First shows what is new, what changes and what it may do. What is shown is what is installed, and
    skills.lock in the folder says from where. --locked fetches each skill that differs from skills.lock, at
    the commit of the lock, and refuses other bytes; --locked --check fetches nothing, and names what differs.
    """
    if everything and names:
        raise click.UsageError("--all and --skill exclude each other.")
    if locked == bool(source) or (check and not locked):
        raise click.UsageError("Name a SOURCE, or say --locked, with which --check goes.")
    what, settings = Options(**how), Settings.load(workspace)
    target = target_of(settings, place)
    if check:
        compare(settings, target, names, as_json=what.as_json)
        return
    if source is None:
        _install_locked(settings, target, place, names, what)
        return
    address = parse_address(source, Path.cwd())
    asked, passed_over = set[str](), list[str]()

    def choose(names: frozenset[str], listed: Listed) -> frozenset[str]:
        if not names and len(listed) > 1 and not everything:
            raise click.UsageError(
                f"{line_of(address.text)} has {count(len(listed), 'skill')}: "
                f"{line_of(list_names([*listed]))}. "
                "Say which: --skill NAME (repeatable), or --all."
            )
        asked.update(names or listed)
        if not names:
            return names
        here = {skill.name: version_of(skill) for skill in skills_here(settings, target)}
        return with_required(names, listed, here)

    def skip(reason: PackageError) -> None:
        passed_over.append(
            str(reason).removeprefix(f"Nothing is installed from {shown(address.text, 200)}: ").rstrip(".")
        )
        click.echo(f"warning: passed over: {line_of(passed_over[-1])}", err=True)

    with draft_of(target, dry=what.dry) as draft:
        into = draft / "0"
        into.mkdir()
        wanted = Selection(address, into, frozenset(names), choose=choose, skip=skip)
        with working(f"Fetching {line_of(address.text)}"):
            skills = fetch(wanted)
        note_typed(user_state_folder(settings), address)
        changes = plan(target, skills, now(), signatures_of(settings))
        carry_out(settings, target, draft, changes, what._replace(asked=asked), passed_over=passed_over)


def _install_locked(
    settings: Settings, target: Target, place: str, names: Collection[str], what: Options
) -> None:
    """Make a folder what its lock says, which stays as it is; what was there is kept as a backup."""
    target.settle()
    lock = read_expected_lock(target.folder)
    drifted = [each.locked for each in verify(target.folder, lock, names) if each.state != "same"]
    signatures = signatures_of(settings)

    def lose(locked: LockedSkill, reason: str) -> None:
        raise not_offered(locked.source, f"{locked.name}: {reason}")

    with draft_of(target, dry=what.dry) as draft:
        hosts, changes = hosts_of(settings, place), []
        with working(f"Fetching {count(len(drifted), 'skill')}"):
            skills = fetch_skills(drifted, target, draft, hosts, lose, pinned=True)
        for skill in skills:
            change = checked(change_to(target, skill, lock[skill.name]), signatures)
            kind: ChangeKind = "update" if change.found else "new"  # also where only its manifest is another
            changes.append(change._replace(kind=kind))
        if changes or what.as_json:
            carry_out(settings, target, draft, changes, what._replace(force=True))
    proposed = [locked for locked in drifted if locked.proposed is not None]
    for locked in proposed:
        print_error(
            f"{locked.name} is not as skills.lock says, and was {locked.origin}: there is nothing to fetch. "
            f"See skills-agent skills update {locked.name} --rollback, or skills remove {locked.name}"
        )
    if proposed:
        raise click.exceptions.Exit(1)
    if not changes and not what.as_json:
        echo(f"Nothing to do: {count(len(lock), 'skill')} in {target.folder} as skills.lock says.")
