"""skills-agent skills verify: is what is installed what skills.lock says?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.places import state_folder, user_state_folder
from skills_agent.graph.settings import Settings, open_snapshots
from skills_agent.packages.commands.shared import target_of, to
from skills_agent.packages.errors import PackageError
from skills_agent.packages.lock import LOCK_FILE, read_expected_lock
from skills_agent.packages.signatures import SignatureCheck
from skills_agent.packages.signed import Signers, said, signers_of
from skills_agent.packages.verification import Check, Difference, Verification
from skills_agent.packages.verification import verify as compare
from skills_agent.skills.text import count

_SHORT = 12


@click.command(
    epilog="Exit codes: 0 all is as the lock says, 1 something is not.\n\n"
    + options.examples("skills verify", "skills verify csv-report --json")
)
@click.argument("names", metavar="NAME...", nargs=-1)
@to
@options.workspace
@options.as_json
def verify(names: tuple[str, ...], place: str, workspace: Path | None, as_json: bool) -> None:
    """Compare installed skills with skills.lock: each changed, added and removed file, and changed mode.

    Says, too, which threads go on with a version that is not installed any more. Of a skill that was
    signed when it was installed, the signature has to count today.
    """
    settings = Settings.load(workspace)
    target = target_of(settings, place)
    target.settle()
    verification = compare(target, read_expected_lock(target.folder), names)
    pinned = list(_pinned(settings, verification.checks, is_project=place == "project"))
    signers = signers_of(settings)
    signed = {each.name: _signature(signers, target.folder, each) for each in verification.checks}
    lost = [each.name for each in verification.checks if _is_lost(signers, each, signed[each.name])]
    if as_json:
        print_json(
            {
                "folder": str(target.folder),
                "skills": [{**_record(each), **_signed(signed[each.name])} for each in verification.checks],
                "not_locked": verification.not_locked,
                "threads": pinned,
            }
        )
    else:
        _print(verification, signed, lost, target.folder)
        for each in pinned:
            version = f"{each['digest'][:_SHORT]} of {each['skill']}"
            echo(f"Thread {line_of(each['thread'])} goes on with {version}, which is not what is installed.")
    if not verification.is_same or lost:
        raise click.exceptions.Exit(1)


def _signature(signers: Signers, folder: Path, check: Check) -> SignatureCheck | None:
    """Return what the signature of a skill says today; None for one that had none when it was installed."""
    if not check.locked.signer:
        return None
    try:
        now = signers.check(folder / check.name, check.name, check.digest)
    except PackageError as error:
        said_why = str(error).rstrip(".")
        return SignatureCheck("bad", reason=said_why[:1].lower() + said_why[1:])
    if now is None and check.locked.archive:
        reason = f"with its archive, by {check.locked.signer} as skills.lock says; it was not checked here"
        return SignatureCheck("unknown", reason=reason)
    return now or SignatureCheck("unknown", reason=f"the signature of {check.locked.signer} is gone")


def _is_lost(signers: Signers, check: Check, now: SignatureCheck | None) -> bool:
    """Return whether a signature counted here when it was installed, and does not today.

    Where nobody of the file of signers has ever vouched, as in most CI, only a bad one is a difference.
    """
    if now is None or now.state == "good":
        return False
    return now.state != "unknown" or signers.noted(check.name, check.locked.digest) is not None


def _signed(check: SignatureCheck | None) -> dict[str, Any]:
    if check is None:
        return {"signature": None}
    return {"signature": {name: value for name, value in check._asdict().items() if name != "key"}}


def _print(
    verification: Verification, signed: Mapping[str, SignatureCheck | None], lost: Sequence[str], folder: Path
) -> None:
    for each in verification.checks:
        echo(f"{each.name}  {each.state}  {each.digest or each.locked.digest}  {line_of(each.locked.source)}")
        if each.state == "changed" and each.digest != each.locked.digest:
            echo(f"  skills.lock says {each.locked.digest}")
        if each.reason:
            echo(f"  {line_of(each.reason)}")
        if check := signed[each.name]:
            echo(f"  {line_of(said(check))}")
        for difference in each.differences:
            echo(f"  {_line(difference)}")
    if verification.not_locked:
        echo(f"Not in skills.lock: {line_of(', '.join(verification.not_locked))}.")
    bad = sum(each.state != "same" for each in verification.checks)
    checked = count(len(verification.checks), "skill")
    if bad:
        echo(f"{bad} of {checked} not as {folder}/skills.lock says. To restore: skills-agent skills sync")
    elif (folder / LOCK_FILE).exists():
        echo(f"{checked} as {folder}/skills.lock says.")
    else:
        echo(f"Nothing is installed in {folder}.")
    if lost:
        echo(f"Signatures that do not count today: {', '.join(lost)}.")


def _line(difference: Difference) -> str:
    before, now = (_short(each) for each in (difference.locked, difference.found))
    values = f"{before} -> {now}" if before and now else before or now
    return f"{difference.kind:<8} {line_of(difference.path)}  {line_of(values)}"


def _short(value: str) -> str:
    digest, blank, kind = value.partition(" ")
    return f"{digest[:_SHORT]}{blank}{kind}" if len(digest) > len("link to") * 2 else value


def _record(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "state": check.state,
        "source": check.locked.source,
        "locked": check.locked.digest,
        "digest": check.digest,
        "reason": check.reason,
        "differences": [each._asdict() for each in check.differences],
    }


def _pinned(settings: Settings, checks: Iterable[Check], *, is_project: bool) -> Iterator[dict[str, str]]:
    """Yield the threads that loaded another version of a skill than is there, where that can be told.

    A skill of that name in another workspace is another one: its threads say nothing of this project's.
    """
    own, of_user = state_folder(settings), user_state_folder(settings)
    current = {each.name: each.digest for each in checks}
    for snapshot in open_snapshots(settings).cached():
        if current.get(snapshot.skill, snapshot.digest) == snapshot.digest:
            continue
        from skills_agent.graph.threads.references import threads_with

        for address in snapshot.addresses:
            folder = Path(address).parent
            if is_project and folder.parent == of_user and folder != own:
                continue
            for thread in threads_with(snapshot.digest, address):
                yield {"thread": thread, "skill": snapshot.skill, "digest": snapshot.digest}
