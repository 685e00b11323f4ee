"""skills-agent skills install --locked --check: is what is installed what skills.lock says?"""

from collections.abc import Collection, Iterator
from pathlib import Path

import click

from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.errors import PackageError
from skills_agent.packages.lock import LOCK_FILE, read_expected_lock
from skills_agent.packages.signatures import SignatureCheck, Signatures, said, signatures_of
from skills_agent.packages.target import Target
from skills_agent.packages.verification import Check, not_locked, verify
from skills_agent.skills.text import count


def check(settings: Settings, target: Target, names: Collection[str], *, as_json: bool) -> None:
    """Compare installed skills with skills.lock: each changed, added and removed file, and changed mode.

    A signature has to be of the skill, and its key must not be revoked or expired. With the setting
    packages_require_signature each skill has to have one that counts today.
    """
    target.settle()
    lock = read_expected_lock(target.folder)
    checks = verify(target.folder, lock, names)
    others = [] if names else not_locked(target.folder, lock)
    signatures = signatures_of(settings)
    signed = {check.locked.name: _signature(signatures, target.folder, check) for check in checks}
    counts = {"good"} if signatures.is_required else {"good", "unknown", "none"}
    lost = [name for name, check in signed.items() if check.state not in counts]
    if as_json:
        skills = [{**_record(check), "signature": _plain(signed[check.locked.name])} for check in checks]
        print_json({"folder": str(target.folder), "skills": skills, "not_locked": others})
    else:
        for each in checks:
            for line in _lines(each, signed[each.locked.name]):
                echo(line)
        if others:
            echo(f"Not in skills.lock: {line_of(', '.join(others))}.")
        echo(_summary(checks, target.folder))
        if lost:
            echo(f"Signatures that do not count today: {', '.join(lost)}.")
    if lost or any(check.state != "same" for check in checks):
        raise click.exceptions.Exit(1)


def _signature(signatures: Signatures, folder: Path, check: Check) -> SignatureCheck:
    """Return what the signature of a skill says today."""
    name = check.locked.name
    try:
        return signatures.check_skill(folder / name, name, check.digest)
    except PackageError as error:
        return SignatureCheck("bad", reason=line_of(str(error)).rstrip("."))


def _lines(check: Check, signed: SignatureCheck) -> Iterator[str]:
    locked = check.locked
    yield f"{locked.name}  {check.state}  {check.digest or locked.digest}  {line_of(locked.source)}"
    if check.state == "changed" and check.digest != locked.digest:
        yield f"  skills.lock says {locked.digest}"
    if check.reason:
        yield f"  {line_of(check.reason)}"
    if signed.state != "none":
        yield f"  {line_of(said(signed))}"
    for file in check.differences:
        yield f"  {file.kind:<8} {line_of(file.path)}  {line_of(file.said)}"


def _summary(checks: tuple[Check, ...], folder: Path) -> str:
    checked, bad = count(len(checks), "skill"), sum(check.state != "same" for check in checks)
    if bad:
        restore = "To restore: skills-agent skills install --locked"
        return f"{bad} of {checked} not as {folder}/{LOCK_FILE} says. {restore}"
    is_there = (folder / LOCK_FILE).exists()
    return f"{checked} as {folder}/{LOCK_FILE} says." if is_there else f"Nothing is installed in {folder}."


def _record(check: Check) -> dict[str, object]:
    locked = check.locked
    differences = [{"path": it.path, "kind": it.kind, "said": it.said} for it in check.differences]
    head = {"name": locked.name, "source": locked.source}
    return head | check._asdict() | {"locked": locked.digest, "differences": differences}


def _plain(check: SignatureCheck) -> dict[str, str] | None:
    return None if check.state == "none" else check._asdict()
