"""skills-agent skills install: fetch skills, show what that would change, and do just that."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json
from skills_agent.graph.places import user_state_folder
from skills_agent.graph.settings import Settings
from skills_agent.packages.address import parse_address
from skills_agent.packages.commands.choosing import choosing
from skills_agent.packages.commands.review import Here, print_reviews, record_of, reviews_of, skills_here
from skills_agent.packages.commands.shared import (
    check_required,
    diff,
    dry_run,
    force,
    note_signed,
    origin,
    require_signature,
    target_of,
    to,
)
from skills_agent.packages.errors import EntryError, OfferError, PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.installation import Change, plan
from skills_agent.packages.installation import install as install_changes
from skills_agent.packages.offer import Wanted
from skills_agent.packages.origins import note_typed
from skills_agent.packages.review import Review
from skills_agent.packages.signed import signers_of
from skills_agent.packages.target import Target
from skills_agent.skills.text import count

_SKIPPED: Final = 20
"""Skills that are passed over, each said on a line."""


@click.command(
    epilog=options.examples(
        "skills install ./shared-skills --skill csv-report",
        "skills install acme/skills@v1.2 --to user",
        "skills install https://example.org/csv-report.zip --dry-run",
        'skills install "csv-report>=1.2"',
    )
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--skill", "names", metavar="NAME", multiple=True, help="Only this skill of SOURCE. Repeatable."
)
@click.option("--all", "everything", is_flag=True, help="All skills of SOURCE.")
@click.option("--strict", is_flag=True, help="Refuse SOURCE where one of its skills cannot be installed.")
@dry_run
@diff
@options.unasked
@force
@require_signature
@to
@options.workspace
@options.as_json
def install(
    *,
    sources: tuple[str, ...],
    names: tuple[str, ...],
    everything: bool,
    strict: bool,
    dry: bool,
    whole: bool,
    yes: bool,
    force: bool,
    require_signature: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Install skills from SOURCE: a folder, an archive, a repository (owner/repo@ref), a URL or a name.

    First shows what is new, what changes and what it may do. What is shown is what is installed, and
    skills.lock in the folder says from where. A skill that cannot be installed is named, and passed over.
    """
    if everything and names:
        raise click.UsageError("--all and --skill exclude each other.")
    settings = Settings.load(workspace)
    addresses = [parse_address(each, Path.cwd()) for each in sources]
    target = target_of(settings, place)
    signatures = signers_of(settings).signatures()
    here, asked, passed_over = skills_here(settings, target), set[str](), PassedOver()
    with draft_of(target, dry=dry) as draft:
        offers = []
        for number, address in enumerate(addresses):
            into = draft / str(number)
            into.mkdir()
            chosen = choosing(address.text, here.versions, everything=everything)
            wanted = Wanted(address, into, frozenset(names), target.limits, choose=chosen.choose)
            wanted = wanted._replace(signatures=signatures, skip=None if strict else passed_over)
            offers.append(fetch(wanted))
            asked |= chosen.asked
        note_typed(user_state_folder(settings), addresses)
        changes = plan(target, offers, signatures)
        check_required(settings, changes, required=require_signature)
        reviews = reviews_of(target, changes, here, asked)
        print_reviews(reviews, target.folder, whole=whole, yes=yes and not dry, as_json=as_json)
        todo = [each for each in changes if each.kind != "same"]
        if not dry:
            if todo:
                confirm(f"Install {count(len(todo), 'skill')}?", yes=yes)
            install_changes(target, draft, changes, origin(), force=force)
            note_signed(settings, changes)
    if as_json:
        skills, others = list(map(record_of, reviews)), passed_over.said
        print_json({"folder": str(target.folder), "dry_run": dry, "skills": skills, "passed_over": others})
    elif todo:
        echo(
            "Nothing was written: --dry-run."
            if dry
            else f"Installed {count(len(todo), 'skill')} in {target.folder}."
        )


class PassedOver:
    """Says why skills cannot be installed, the first of them at once, and keeps it."""

    def __init__(self) -> None:
        """Begin with none."""
        self.said: list[str] = []

    def __call__(self, reason: PackageError) -> None:
        """Say which skill it is, and what is wrong with it: the place is not refused."""
        match reason:
            case EntryError():
                said = f"{reason.entry}: {reason.reason}"
            case OfferError():
                said = reason.reason
            case _:
                said = str(reason)
        self.said.append(said)
        if len(self.said) <= _SKIPPED:
            click.echo(f"warning: passed over: {line_of(said)}", err=True)
        elif len(self.said) == _SKIPPED + 1:
            click.echo("warning: passed over: more, which --json lists", err=True)


@contextmanager
def draft_of(target: Target, *, dry: bool) -> Iterator[Path]:
    """Give a folder to prepare skills in; for --dry-run one elsewhere: the target stays as it is."""
    if dry:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        with target.draft() as folder:
            yield folder


def show_changes(
    settings: Settings,
    target: Target,
    changes: Sequence[Change],
    *,
    yes: bool,
    as_json: bool,
    whole: bool = False,
) -> tuple[Review, ...]:
    """Show what installing would change, for commands that name the skills themselves."""
    here = skills_here(settings, target) if changes else Here({}, {})
    reviews = reviews_of(target, changes, here)
    print_reviews(reviews, target.folder, whole=whole, yes=yes, as_json=as_json)
    return reviews
