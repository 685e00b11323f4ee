"""skills-agent skills sync: make a folder of skills what its lock says, or fail where it is not."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_error, print_json
from skills_agent.graph.places import user_state_folder
from skills_agent.graph.settings import Settings, content_limits
from skills_agent.packages.commands.shared import (
    folder_of,
    origin,
    place_of,
    require_signature,
    target_of,
    to,
)
from skills_agent.packages.stamp import read_stamp, write_stamp
from skills_agent.skills.text import count

if TYPE_CHECKING:  # with nothing to do, none of it is imported
    from skills_agent.packages.lock import SkillsLock
    from skills_agent.packages.syncing import Drift
    from skills_agent.packages.target import Target


@click.command(
    epilog="Exit codes: 0 all is as the lock says, 1 it is not, or a source does not have it.\n\n"
    + options.examples("skills sync --yes", "skills sync --frozen")
)
@click.option("--frozen", "--locked", is_flag=True, help="Write nothing, and fail on any difference: for CI.")
@options.unasked
@require_signature
@to
@options.workspace
@options.as_json
def sync(
    frozen: bool,
    yes: bool,
    require_signature: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Make installed skills what skills.lock says: each from its source, at the commit of the lock.

    Nothing is resolved anew, and bytes of another digest are refused. What was there is kept as a backup.
    Skills that the lock does not have are left alone. With --frozen, folder, lock and sources are compared.
    """
    settings = Settings.load(workspace)
    require_signature = require_signature or settings.require_signature
    if frozen:
        from skills_agent.packages.lock import read_expected_lock

        target = target_of(settings, place)
        lock = read_expected_lock(target.folder, always=True)
        if require_signature:
            _check_signed(settings, target, lock)
        _check(target, lock, settings, place, as_json=as_json)
        return
    folder, state, limits = folder_of(settings, place), user_state_folder(settings), content_limits(settings)
    if not require_signature and (stamp := read_stamp(state, folder, limits)):
        _say(folder, (), len(stamp.names), as_json=as_json)
        return
    from skills_agent.packages.lock import read_expected_lock
    from skills_agent.packages.syncing import drifts

    target = target_of(settings, place)
    target.settle()
    lock, looked_at = read_expected_lock(folder), time.time_ns()
    drifted = drifts(target, lock)
    todo = [each for each in drifted if each.locked.proposed is None]
    if todo:
        _restore(settings, target, place, todo, yes=yes, required=require_signature, as_json=as_json)
    elif not drifted:
        write_stamp(state, folder, lock.skills, limits, looked_at)
    if require_signature:
        _check_signed(settings, target, lock)
    if todo or not drifted or as_json:
        _say(folder, [each.locked.name for each in todo], len(lock.skills), as_json=as_json)
    _refuse_proposed([each for each in drifted if each.locked.proposed is not None])


def _refuse_proposed(drifted: "Sequence[Drift]") -> None:
    """Say which skills have no source that they could be restored from, and exit with 1 if there are any."""
    for locked, found in drifted:
        what = "was changed since" if found else "is gone"
        see = f"rollback {locked.name} --list" if found else f"uninstall {locked.name}"
        command = f"{'to see what is kept' if found else 'to forget it'}: skills-agent skills {see}"
        print_error(f"{locked.name} {what}, and was {locked.origin}: there is nothing to fetch; {command}")
    if drifted:
        raise click.exceptions.Exit(1)


def _say(folder: Path, installed: Sequence[str], known: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(folder), "installed": installed})
    elif installed:
        echo(f"Installed {count(len(installed), 'skill')} in {folder}, as skills.lock says.")
    else:
        here = f"{count(known, 'skill')} in {folder} as skills.lock says" if known else "nothing is installed"
        echo(f"Nothing to do: {here}.")


def _check_signed(settings: Settings, target: "Target", lock: "SkillsLock") -> None:
    """Refuse installed skills without the signature of somebody who may sign today. Raises SignatureError."""
    from skills_agent.packages.signed import require, signers_of

    signers = signers_of(settings)
    for name, locked in sorted(lock.skills.items()):
        require(name, signers.check(target.folder / name, name, locked.digest))


def _change_of(name: str, todo: Sequence["Drift"]) -> str:
    return "update" if any(each.found for each in todo if each.locked.name == name) else "new"


def _restore(
    settings: Settings,
    target: "Target",
    place: str,
    todo: Sequence["Drift"],
    *,
    yes: bool,
    required: bool,
    as_json: bool,
) -> None:
    from skills_agent.packages.commands.review import print_reviews
    from skills_agent.packages.review import Origin, review
    from skills_agent.packages.signed import check_offered, require, said, signers_of
    from skills_agent.packages.syncing import fetch_locked, restore

    signers = signers_of(settings)
    signatures = signers.signatures()
    with target.draft() as draft:
        where = place_of(settings, target, place, draft, signatures)
        fetched = fetch_locked((each.locked for each in todo), where)
        signed = []
        for one in fetched:
            assert one.offer is not None and one.skill is not None  # noqa: S101, PT018 - else it has raised
            check = check_offered(one.offer, one.skill, signatures)
            if required:
                require(one.locked.name, check)
            signed.append((one.offer, one.skill, check))
        if not as_json:
            checks = {skill.name: check for _, skill, check in signed}
            for each in todo:
                change = f"replaces {each.found[:12]}, which is kept" if each.found else "new"
                echo(f"{each.locked.name}  {line_of(change)}  {line_of(each.locked.source)}")
                echo(f"  {line_of(said(checks[each.locked.name]))}")
        reviews = [
            review(
                one.skill,
                Origin(
                    one.locked.source,
                    one.locked.resolved,
                    one.locked.archive,
                    _change_of(one.locked.name, todo),
                ),
                target.folder / one.locked.name,
            )
            for one in fetched
            if one.skill is not None
        ]
        print_reviews(reviews, target.folder, yes=yes, as_json=as_json)
        confirm(f"Install {count(len(todo), 'skill')}?", yes=yes)
        restore(target, draft, todo, fetched, origin().at)
    signers.note(signed)


def _check(target: "Target", lock: "SkillsLock", settings: Settings, place: str, *, as_json: bool) -> None:
    differences = list(_differences(target, lock, settings, place))
    if as_json:
        print_json({"folder": str(target.folder), "differences": differences})
    else:
        for each in differences:
            echo(line_of(each))
        if not differences:
            echo(f"{count(len(lock.skills), 'skill')} as skills.lock and the sources say.")
    if differences:
        raise click.exceptions.Exit(1)


def _differences(target: "Target", lock: "SkillsLock", settings: Settings, place: str) -> Iterator[str]:
    from skills_agent.packages.syncing import fetch_current
    from skills_agent.packages.verification import verify

    for check in verify(target, lock).checks:
        if check.state != "same":
            files = ", ".join(f"{each.kind} {each.path}" for each in check.differences)
            yield f"{check.name}: {check.reason or files or check.state} in {target.folder}"
    with tempfile.TemporaryDirectory() as folder:
        where = place_of(settings, target, place, Path(folder))
        yield from filter(None, (each.difference() for each in fetch_current(lock.skills.values(), where)))
