"""What the commands about installed skills share: which folder, and to show, to ask and to do."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import structs

from skills_agent.graph.cli.printing import confirm, echo, print_json
from skills_agent.graph.settings import Settings, make_registry
from skills_agent.graph.user_folders import user_state_folder
from skills_agent.packages.commands.review import print_reviews
from skills_agent.packages.installation import Change, install
from skills_agent.packages.origins import typed_hosts
from skills_agent.packages.review import reviews
from skills_agent.packages.target import Target
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import count

SKILLS = Path(".agent", "skills")

to = click.option(
    "--to",
    "place",
    metavar="user|project|DIR",
    default="project",
    show_default=True,
    help="Where: .agent/skills of this project, or of your home folder, or a folder.",
)


def target_of(settings: Settings, place: str) -> Target:
    """Return the folder of skills that `--to` means. Raises ClickException and UsageError."""
    if place == "user":
        folder = settings.home / SKILLS
    elif place == "project":
        folder = settings.workspace / SKILLS
        if not is_beneath(settings.workspace, folder):  # a repository can bring links
            raise click.ClickException(
                f"{folder} leads out of the workspace. Name the folder you mean: --to DIR"
            )
    else:
        folder = Path(place).expanduser().absolute()
        if (folder / SKILL_FILE).exists():
            raise click.UsageError(f"{folder} is a skill; name the folder that it lies in.")
    return Target(folder.resolve(), user_state_folder(settings))


def hosts_of(settings: Settings, place: str) -> Collection[str] | None:
    """Return the hosts that a lock may name; None: all, for the user's own came with no repository."""
    return None if place == "user" else typed_hosts(user_state_folder(settings))


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


@contextmanager
def draft_of(target: Target, *, dry: bool) -> Iterator[Path]:
    """Give a folder to prepare skills in; for a dry run one elsewhere: the target stays as it is."""
    if dry:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        with target.draft() as folder:
            yield folder


class Options(NamedTuple):
    """What a person said to a command that changes installed skills."""

    yes: bool = False
    dry: bool = False
    force: bool = False
    as_json: bool = False
    asked: Collection[str] = ()
    """Skills that were named; whatever else is offered was added for a requirement."""


def carry_out(
    settings: Settings, target: Target, draft: Path, changes: Sequence[Change], what: Options, **more: object
) -> list[Change]:
    """Show what would change, ask, and do it; return what is not as it was. `more`: for --json."""
    reviewed = list(reviews(changes, target.folder, skills_here(settings, target), what.asked))
    if what.force:
        reviewed = [structs.replace(each, obstacle="") for each in reviewed]
    todo = [change for change in changes if change.kind != "same"]
    if not what.as_json:
        print_reviews(reviewed, target.folder, whole=what.dry)
    if not what.dry:
        if todo:
            confirm(f"Install {count(len(todo), 'skill')}?", yes=what.yes)
        install(target, draft, changes, now(), force=what.force)
    if what.as_json:
        print_json({"folder": str(target.folder), "dry_run": what.dry, "skills": reviewed, **more})
    elif todo:
        done = f"Installed {count(len(todo), 'skill')} in {target.folder}."
        echo("Nothing was written." if what.dry else done)
    return todo


def skills_here(settings: Settings, target: Target) -> tuple[SkillMetadata, ...]:
    """Return the skills of all sources and of the folder that is installed into. Writes no index."""
    more = (target.folder,) if target.folder.is_dir() else ()
    whole = replace(settings, skills_dirs=(*settings.skills_dirs, *more))
    registry = make_registry(whole, keep_index=False)
    return tuple(registry.refresh().skills)
