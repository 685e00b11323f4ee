"""What the commands about installed skills share: which folder, and by whom. Imports no LangGraph."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skills_agent.graph.places import user_state_folder
from skills_agent.graph.settings import Settings, content_limits
from skills_agent.skills.confined import is_beneath

if TYPE_CHECKING:  # `skills sync` with nothing to do imports none of it
    from collections.abc import Sequence

    from skills_agent.packages.installation import Change, Origin
    from skills_agent.packages.signatures import Signatures
    from skills_agent.packages.syncing import Place
    from skills_agent.packages.target import Target

SKILLS = Path(".agent", "skills")

to = click.option(
    "--to",
    "place",
    metavar="user|project|DIR",
    default="project",
    show_default=True,
    help="Where: .agent/skills of this project, or of your home folder, or a folder.",
)

dry_run = click.option(
    "--dry-run", "dry", is_flag=True, help="Show what would be installed, and write nothing."
)
diff = click.option("--diff", "whole", is_flag=True, help="Show all of what changes, not its beginning.")
force = click.option(
    "--force", is_flag=True, help="Also replace what was changed, or not installed by skills-agent."
)


require_signature = click.option(
    "--require-signature", is_flag=True, help="Refuse skills without the signature of an allowed signer."
)


def folder_of(settings: Settings, place: str) -> Path:
    """Return the path, links resolved, that `--to` means. Raises ClickException and UsageError."""
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
        if (folder / "SKILL.md").exists():
            raise click.UsageError(f"{folder} is a skill; name the folder that it lies in.")
    return folder.resolve()


def target_of(settings: Settings, place: str) -> "Target":
    """Return the folder of skills that `--to` means."""
    from skills_agent.packages.target import Target

    return Target(folder_of(settings, place), user_state_folder(settings), content_limits(settings))


def place_of(
    settings: Settings, target: "Target", place: str, into: Path, signatures: "Signatures | None" = None
) -> "Place":
    """Return where the skills of a lock are fetched, of which `place` is what `--to` says.

    The lock of the user's own folder came with no repository: what is in it was typed.
    """
    from skills_agent.packages.origins import typed_hosts
    from skills_agent.packages.syncing import Place

    hosts = None if place == "user" else typed_hosts(user_state_folder(settings))
    return Place(target.folder, into, target.limits, signatures, hosts)


def check_required(settings: Settings, changes: "Sequence[Change]", *, required: bool) -> None:
    """Refuse skills without a good signature where one is required. Raises SignatureError."""
    from skills_agent.packages.signed import require

    if required or settings.require_signature:
        for each in changes:
            require(each.skill.name, each.signature)


def note_signed(settings: Settings, changes: "Sequence[Change]") -> None:
    """Note whose signatures were found good, for trust that goes by the signer."""
    from skills_agent.packages.signed import signers_of

    signers_of(settings).note((each.offer, each.skill, each.signature) for each in changes)


def origin() -> "Origin":
    """Return that this program installs, now."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    from skills_agent.packages.installation import Origin

    return Origin(f"skills-agent {version('skills-agent')}", datetime.now(UTC))
