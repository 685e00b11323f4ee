"""skills-agent skills rollback: put back an earlier version of a skill, also of one that was proposed."""

from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json, table
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.review import print_reviews
from skills_agent.packages.commands.shared import (
    diff,
    origin,
    target_of,
    to,
)
from skills_agent.packages.errors import InstalledError
from skills_agent.packages.lock import LockedSkill, read_lock
from skills_agent.packages.offer import OfferedSkill
from skills_agent.packages.review import Origin, Review, review
from skills_agent.packages.rollback import Rollback, plan_rollback, roll_back
from skills_agent.packages.staging import files_of, metadata_of
from skills_agent.packages.target import Target
from skills_agent.skills.library.contents import list_contents, read_digests

_SHORT = 12


@click.command(
    epilog=options.examples(
        "skills rollback csv-report",
        "skills rollback csv-report --list",
        "skills rollback csv-report --version 4f1d",
    )
)
@click.argument("name", metavar="NAME")
@click.option("--list", "list_versions", is_flag=True, help="List the versions that are kept.")
@click.option("--version", metavar="DIGEST", default="", help="This version: the beginning of its digest.")
@diff
@options.unasked
@to
@options.workspace
@options.as_json
def rollback(
    *,
    name: str,
    list_versions: bool,
    version: str,
    whole: bool,
    yes: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Put back the version of a skill before this one; again: the one before that.

    What the agent proposed goes back to what it replaced, and is removed if it was new. Shows what changes,
    and asks. What is there now is kept, so that --version puts it back, too.
    """
    target = target_of(Settings.load(workspace), place)
    target.settle()
    if list_versions:
        _list(target, name, as_json=as_json)
        return
    planned = plan_rollback(target, name, version)
    reviewed = _review(target, planned)
    if not as_json:
        echo(_what(planned))
    if reviewed is not None:
        print_reviews([reviewed], target.folder, whole=whole, yes=yes, as_json=as_json)
    confirm(f"Remove {name}?" if planned.to is None else f"Put {name} back?", yes=yes)
    roll_back(target, planned, origin().at)
    if as_json:
        now = planned.to.digest if planned.to else ""
        print_json(
            {
                "folder": str(target.folder),
                "name": name,
                "before": planned.found,
                "now": now,
            }
        )
    else:
        echo(f"Removed {name}." if planned.to is None else f"Put {name} back in {target.folder}.")
        if planned.found:
            again = f"skills-agent skills rollback {name} --version {planned.found[:_SHORT]}"
            echo(f"To undo this: {again}")


def _what(planned: Rollback) -> str:
    now = f"{planned.found[:_SHORT] or 'nothing'}{_origin_text(planned.before)}"
    if planned.to is None:
        return line_of(f"{planned.name}  {now} -> nothing: it was new")
    return line_of(
        f"{planned.name}  {now} -> {planned.to.digest[:_SHORT]}{_origin_text(planned.to.locked)}, "
        f"there until {planned.to.at}"
    )


def _origin_text(locked: LockedSkill | None) -> str:
    return f" ({locked.origin})" if locked is not None else ""


def _review(target: Target, planned: Rollback) -> Review | None:
    """Return what there is to know of the version that is put back; None where the skill is removed."""
    backup = planned.to
    if backup is None:
        return None
    try:
        files = files_of(list(read_digests(backup.folder, list_contents(backup.folder, target.limits))))
        said = metadata_of(backup.folder)
    except OSError as error:
        raise InstalledError(planned.name, f"its backup cannot be read: {error}") from error
    skill = OfferedSkill(planned.name, backup.folder, backup.digest, files, metadata=said)
    same = planned.found == backup.digest
    change = "same" if same else "update" if planned.found else "new"
    version = planned.before.version if planned.before else ""
    return review(
        skill,
        Origin(f"backup of {backup.at}", "", change=change, version_before=version),
        target.folder / planned.name,
    )


def _list(target: Target, name: str, *, as_json: bool) -> None:
    found, locked = target.found(name), read_lock(target.folder).skills.get(name)
    backups = target.backups.of(name)
    if as_json:
        now = {"digest": found, **_record(locked)} if found else None
        versions = [
            {"digest": each.digest, "until": each.at, "path": str(each.folder), **_record(each.locked)}
            for each in backups
        ]
        print_json({"folder": str(target.folder), "name": name, "now": now, "versions": versions})
        return
    rows = [(found[:_SHORT], "now", _from(locked))] if found else []
    rows += [(each.digest[:_SHORT], each.at, _from(each.locked)) for each in backups]
    header = ("VERSION", "THERE UNTIL", "FROM") * bool(rows)
    table(rows, header=header, empty=f"There is no {name} in {target.folder}, and no backup of one.")


def _from(locked: LockedSkill | None) -> str:
    if locked is None:
        return "not installed by skills-agent"
    model = f" by {locked.proposed.model}" if locked.proposed and locked.proposed.model else ""
    return f"{locked.origin}{model}"


def _record(locked: LockedSkill | None) -> dict[str, Any]:
    if locked is None:
        return {"source": None}
    return {"source": locked.source, "proposed": to_builtins(locked.proposed)}
