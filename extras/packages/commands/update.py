"""skills-agent skills outdated and update: what the sources of installed skills have now."""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_error, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.install import draft_of, show_changes
from skills_agent.packages.commands.review import record_of
from skills_agent.packages.commands.shared import (
    check_required,
    diff,
    dry_run,
    force,
    note_signed,
    origin,
    place_of,
    require_signature,
    target_of,
    to,
)
from skills_agent.packages.errors import InstalledError, OfferError
from skills_agent.packages.installation import install, plan
from skills_agent.packages.lock import LockedSkill, SkillsLock, read_lock
from skills_agent.packages.signed import signers_of
from skills_agent.packages.syncing import Fetched, fetch_current, offers_of
from skills_agent.skills.text import count

_SHORT = 12
_COMMIT = re.compile(r"(?<![0-9a-f])[0-9a-f]{40,64}(?![0-9a-f])")


@click.command(epilog=options.examples("skills outdated", "skills outdated --to user --json"))
@to
@options.workspace
@options.as_json
def outdated(place: str, workspace: Path | None, as_json: bool) -> None:
    """Show which installed skills have another version at their source, and which cannot be looked up."""
    settings = Settings.load(workspace)
    target = target_of(settings, place)
    lock = read_lock(target.folder)
    with tempfile.TemporaryDirectory() as folder:
        fetched = fetch_current(lock.skills.values(), place_of(settings, target, place, Path(folder)))
    if as_json:
        records = [
            {
                "name": each.locked.name,
                "state": _state(each),
                "source": each.locked.source,
                "locked": {"resolved": each.locked.resolved, "digest": each.locked.digest},
                "now": {
                    "resolved": each.resolved,
                    "digest": each.skill.digest if each.skill else "",
                },
                "reason": each.reason,
            }
            for each in fetched
        ]
        print_json({"folder": str(target.folder), "skills": records})
        return
    for each in fetched:
        if each.is_proposed:
            echo(f"{each.locked.name}  {line_of(each.locked.origin)}, nothing to fetch")
        elif _state(each) == "unknown":
            print_error(f"{each.locked.name}: {each.reason}")
        elif not each.is_same:
            was, now = _version(each.locked.resolved, each.locked.digest), _version_now(each)
            echo(f"{each.locked.name}  {was} -> {now}  {line_of(each.locked.source)}")
    news = sum(_state(each) == "outdated" for each in fetched)
    echo(
        f"{news} of {count(len(fetched), 'skill')} outdated."
        + " To see what is new: skills-agent skills update" * bool(news)
    )


@click.command(epilog=options.examples("skills update", "skills update csv-report --yes"))
@click.argument("names", metavar="NAME...", nargs=-1)
@dry_run
@diff
@options.unasked
@force
@require_signature
@to
@options.workspace
@options.as_json
def update(
    names: tuple[str, ...],
    *,
    dry: bool,
    whole: bool,
    yes: bool,
    force: bool,
    require_signature: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Install what the sources of installed skills have now, by default of all; the same as `install` does.

    Skills that were changed here are left alone without --force, which keeps a backup of them.
    """
    settings = Settings.load(workspace)
    target, signatures = target_of(settings, place), signers_of(settings).signatures()
    wanted = _wanted(read_lock(target.folder), names)
    with draft_of(target, dry=dry) as draft:
        fetched = fetch_current(wanted, place_of(settings, target, place, draft, signatures))
        lost = [each for each in fetched if _state(each) == "unknown"]
        for each in lost:
            print_error(f"{each.locked.name}: {each.reason}")
        if lost and (names or len(lost) == len(fetched)):
            raise OfferError(lost[0].locked.source, "see above" if len(lost) > 1 else "it cannot be fetched")
        changes = plan(target, offers_of(fetched), signatures)
        check_required(settings, changes, required=require_signature)
        if not as_json:
            _print_moved(fetched)
        reviews = show_changes(settings, target, changes, yes=yes and not dry, as_json=as_json, whole=whole)
        todo = [each for each in changes if each.kind != "same"]
        if not dry:
            if todo:
                confirm(f"Update {count(len(todo), 'skill')}?", yes=yes)
            install(target, draft, changes, origin(), force=force)
            note_signed(settings, changes)
    if as_json:
        updated = [record_of(each) for each in reviews if each.change != "same"]
        print_json({"folder": str(target.folder), "dry_run": dry, "updated": updated})
    elif todo:
        done = f"Updated {count(len(todo), 'skill')} in {target.folder}."
        echo("Nothing was written: --dry-run." if dry else done)


def _print_moved(fetched: Iterable[Fetched]) -> None:
    """Print which sources mean another commit now, and which skills have none."""
    for each in fetched:
        if each.is_proposed:
            echo(f"{each.locked.name}  {line_of(each.locked.origin)}, nothing to fetch")
        elif each.skill and each.resolved != each.locked.resolved:
            was = _version(each.locked.resolved, each.locked.digest)
            echo(f"{each.locked.name}  {was} -> {_version_now(each)}")


def _wanted(lock: SkillsLock, names: Iterable[str]) -> list[LockedSkill]:
    if unknown := next((each for each in names if each not in lock.skills), ""):
        raise InstalledError(unknown, "skills.lock does not have it")
    return [lock.skills[name] for name in sorted(set(names) or lock.skills)]


def _state(fetched: Fetched) -> str:
    if fetched.is_proposed:
        return "proposed"
    if fetched.skill is None:
        return "unknown"
    return "current" if fetched.is_same else "outdated"


def _version(resolved: str, digest: str) -> str:
    """Return a commit, or the digest of an archive or a skill, as people compare them."""
    commit = _COMMIT.search(resolved)
    return (commit[0] if commit else digest)[:_SHORT]


def _version_now(fetched: Fetched) -> str:
    assert fetched.skill is not None  # noqa: S101
    return _version(fetched.resolved, fetched.skill.digest)
