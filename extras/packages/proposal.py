"""A skill that the agent proposes: judged strictly, drafted, and installed as it was shown.

Nothing that somebody vouches for, has signed, or installed from elsewhere is changed in place: an edit of it
is proposed under a name of its own.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from itertools import count as numbers
from pathlib import Path
from typing import Annotated, Final

from msgspec import structs
from pydantic import BaseModel, Field, StringConstraints

from skills_agent.packages.address import Address
from skills_agent.packages.entries import check_names, refused_entry
from skills_agent.packages.errors import PackageError, shown
from skills_agent.packages.installation import Change, change_to, entry_of, install
from skills_agent.packages.lock import LockedSkill, Proposed, is_digest, read_lock
from skills_agent.packages.manifest import MANIFEST_FILE
from skills_agent.packages.offer import Selection
from skills_agent.packages.staging import copy_skill, stage
from skills_agent.packages.target import Target
from skills_agent.skills.format.lint import lint
from skills_agent.skills.format.rules import MAX_NAME, NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import LEFT_OUT, ContentLimits
from skills_agent.skills.policy.protected import is_protected_name
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import count, is_text
from skills_agent.skills.visible import visible_line

MAX_FILES: Final = 20
"""Of one proposal: a person has to look at all of them."""
MAX_BYTES: Final = 200_000
_FINDINGS: Final = 10
_SHOWN: Final = 240
_NUMBERED: Final = re.compile(r"-\d+$")

Vouched = Callable[[Path, str, str], str]
"""Says who vouches for a skill, by its folder, name and digest; empty for nobody."""


class ProposeSkillArguments(BaseModel):
    """What a model sends to propose a skill."""

    name: Annotated[str, Field(max_length=200)]
    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000),
        Field(description="What was learned, and what the skill makes better"),
    ]
    files: Annotated[
        dict[str, str],
        Field(
            description="Whole texts by path: SKILL.md and others; of an edit only what changes. "
            "Eval cases in evals/ are run first"
        ),
    ] = {}
    remove: Annotated[list[str], Field(description="Files that the skill shall not have any more")] = []


def draft(
    wish: ProposeSkillArguments, target: Target, into: Path, known: Mapping[str, str], vouched: Vouched
) -> Change:
    """Write down a skill as it would be into an empty folder, and return what it changes.

    `known` says where the skills of other places are, by name: `bundled`. Raises PackageError.
    """
    name = wish.name
    if not is_spec_name(name):
        raise _refused(shown(name, MAX_NAME) or "a skill without a name", f"a name has {NAME_RULE}")
    found, before = target.found(name), read_lock(target.folder).get(name)
    if reason := _untouchable(target.folder / name, found, before, known, vouched):
        taken = {*known, *(path.name for path in target.folder.glob("*"))}
        raise _refused(
            name, f"{reason}, and is not changed in place. Propose {_free_name(name, taken)} instead"
        )
    _check_paths(wish)
    if not found and SKILL_FILE not in wish.files:
        raise _refused(name, f"a new skill needs {SKILL_FILE} among its files")
    tree = into / "tree"
    folder = tree / name
    try:
        if found:
            copy_skill(target.folder / name, folder, name, ContentLimits())
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, wish)
    except OSError as error:
        raise _refused(name, error.strerror or str(error)) from error
    _check(folder, name)
    wanted = Selection(Address("proposal:", "folder", str(tree)), into, frozenset({name}))
    (skill,) = stage(tree, wanted)
    change = change_to(target, skill, before)
    if change.kind == "same" and (before is None or before.proposed is None):
        raise _refused(name, "it is just like this already")
    return change


def digest_of_change(change: Change) -> str:
    """Return what an answer about a proposal holds for: this draft, in the place of just that."""
    locked = change.before.digest if change.before else ""
    return sha256("\0".join((change.name, change.put.digest, change.found, locked)).encode()).hexdigest()


def done(target: Target, name: str, call: str) -> LockedSkill | None:
    """Return what a call has installed, in an attempt before this one; None where it has not."""
    locked = read_lock(target.folder).get(name)
    if locked is None or locked.proposed is None or locked.proposed.call != call:
        return None
    return locked if target.found(name) == locked.digest else None


def install_proposed(target: Target, into: Path, change: Change, proposed: Proposed, at: datetime) -> None:
    """Put a proposal in place from a draft of the target, and keep what was there as a backup.

    Raises PackageError, also where there is something else than was shown.
    """
    entry, source = entry_of(target, change, at), f"proposal:{proposed.thread}"
    after = structs.replace(entry, source=source, path="", proposed=proposed)
    install(target, into, [change._replace(after=after)], at, force=True)


def _refused(name: str, reason: str) -> PackageError:
    """Return the error of a proposal that nobody is asked about: the model can mend it."""
    return PackageError(f"Nothing is proposed for {name}: {reason}.")


def _untouchable(
    place: Path, found: str, before: LockedSkill | None, known: Mapping[str, str], vouched: Vouched
) -> str:
    """Return why a skill is not changed where it is; empty for one that may be, or a new one."""
    name = place.name
    if not found:
        if name in known:
            return f"it is a skill of another place ({visible_line(known[name])})"
        return "skills.lock has it" if before is not None and before.proposed is None else ""
    if not is_digest(found):
        return f"what is there cannot be read as a skill ({visible_line(found)})"
    if before is not None and before.proposed is None:
        return f"it was installed from {visible_line(before.source)}"
    if os.path.lexists(place / MANIFEST_FILE):
        return "it carries a manifest, as signed skills do"
    return vouched(place, name, found)


def _free_name(name: str, taken: set[str]) -> str:
    stem = _NUMBERED.sub("", name)
    tried = (f"{stem[: MAX_NAME - len(str(number)) - 1].rstrip('-')}-{number}" for number in numbers(2))
    return next(each for each in tried if each not in taken)


def _check_paths(wish: ProposeSkillArguments) -> None:
    """Refuse what a proposal must not name. Raises PackageError."""
    size = sum(len(text.encode(errors="replace")) for text in wish.files.values())
    if len(wish.files) + len(wish.remove) > MAX_FILES or size > MAX_BYTES:
        most = f"at most {MAX_FILES} files with {MAX_BYTES:,} bytes in all"
        raise _refused(wish.name, f"a person has to look at all of it, so it may change {most}")
    check_names(wish.name, (*wish.files, *wish.remove))
    for path in (*wish.files, *wish.remove):
        parts = path.split("/")
        if not LEFT_OUT.isdisjoint(parts):
            raise refused_entry(wish.name, path, "it would be no part of the skill")
        if any(part.startswith(".") or is_protected_name(part) for part in parts):
            reason = "other programs obey files of that name, or nobody sees them"
            raise refused_entry(wish.name, path, reason)
    for path, text in wish.files.items():
        if "\0" in text or not is_text(text):
            raise refused_entry(wish.name, path, "it is no text")


def _write(folder: Path, wish: ProposeSkillArguments) -> None:
    """Change the copy of a skill. Raises PackageError and OSError."""
    for path in (*wish.files, *wish.remove):
        place = folder / path
        if any(each.is_symlink() for each in (place, *place.parents) if each.is_relative_to(folder)):
            raise refused_entry(wish.name, path, "a link stands in its place or above it")
    for path in wish.remove:  # one that is gone is no fault: an attempt before this one has removed it
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / path).unlink()
        with suppress(OSError):  # folders that are empty then
            for above in [parent for parent in (folder / path).parents if parent.is_relative_to(folder)][:-1]:
                above.rmdir()
    for path, text in wish.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())  # the mode of a file that is there stays


def _check(folder: Path, name: str) -> None:
    """Refuse a skill that breaks the letter of the specification. Raises PackageError with what is wrong."""
    errors = [finding for finding in lint(folder).findings if finding.severity == "error"]
    if not errors:
        return
    told = []
    for error in errors[:_FINDINGS]:
        path = os.path.relpath(error.path, folder)
        place = f"{path}:{error.line}" if error.line else path
        told.append(shown(f"{place}: {error.message} {error.advice}", _SHOWN))
    more = f" and {len(errors) - _FINDINGS} more" if len(errors) > _FINDINGS else ""
    listed = " ".join(told).rstrip(".")
    raise _refused(name, f"{count(len(errors), 'error')} to mend. {listed}{more}")
