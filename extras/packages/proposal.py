"""A skill that the agent proposes: judged strictly, drafted by its digest, and installed as it was shown.

Nothing that somebody vouches for, has signed, or installed from elsewhere is changed in place: an edit of it
is proposed under a name of its own.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count as numbers
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.address import proposal_address
from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import PackageError
from skills_agent.packages.installation import Change, ChangeKind, Origin, install
from skills_agent.packages.journal import make_own
from skills_agent.packages.lock import LockedSkill, Proposed, read_lock
from skills_agent.packages.manifest import MANIFEST_FILE
from skills_agent.packages.offer import Offer, OfferedSkill, Wanted
from skills_agent.packages.staging import copy_skill, stage
from skills_agent.packages.target import Target
from skills_agent.skills import posix
from skills_agent.skills.confined import opened_folder, read_beneath
from skills_agent.skills.errors import DetailedError
from skills_agent.skills.format.lint import lint
from skills_agent.skills.format.rules import MAX_NAME, NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import LEFT_OUT, SnapshotError, list_contents, read_digest
from skills_agent.skills.policy.protected import is_protected_name
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import count, cut
from skills_agent.skills.trees import remove_tree
from skills_agent.skills.visible import visible_line

MAX_FILES: Final = 20
"""Of one proposal: a person has to look at all of them."""
MAX_BYTES: Final = 200_000
DRAFTS_KEPT: Final = 50
_FINDINGS: Final = 10
_SHOWN: Final = 120
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NUMBERED: Final = re.compile(r"-\d+$")


class ProposalError(DetailedError, PackageError):
    """A proposal that nobody is asked about: the model can mend it."""

    sentence = "Nothing is proposed for {name}: {reason}."
    name: str
    reason: str


class Wish(NamedTuple):
    """What the agent wants a skill to be."""

    name: str
    files: Mapping[str, str]
    """Whole texts by path: of an edit those that change, or are new."""
    remove: Sequence[str] = ()
    """Paths of files that the skill shall not have."""


class Proposal(NamedTuple):
    """A skill as it would be, and what is there now."""

    skill: OfferedSkill
    """Its copy is the draft, in the state folder of the user."""
    found: str
    """What is in its place, as `Target.found` says it."""
    before: LockedSkill | None
    """What the lock has of it."""
    base: Path | None
    """The folder that it would replace; None for a new skill."""

    @property
    def digest(self) -> str:
        """Return what an answer about it holds for: this draft, in the place of just that."""
        locked = self.before.digest if self.before else ""
        parts = self.skill.name, self.skill.digest, self.found, locked
        return sha256("\0".join(parts).encode()).hexdigest()

    @property
    def change(self) -> ChangeKind:
        """Return what it is to the skill that is there."""
        return "new" if not self.found else "same" if self.found == self.skill.digest else "update"


class Surroundings(NamedTuple):
    """What a proposal is held against."""

    known: Mapping[str, str]
    """Where the skills of other places are, by name: `bundled`."""
    vouched: Callable[[Path, str, str], str]
    """Says who vouches for a skill, by its folder, name and digest; empty for nobody."""


class Proposals:
    """The proposals for one folder of skills."""

    def __init__(self, target: Target, state: Path) -> None:
        """Name the folder, and the state folder of this user, where the drafts are."""
        self.target = target
        self._drafts = state / "proposals"

    def draft(self, wish: Wish, around: Surroundings) -> Proposal:
        """Write down a skill as it would be, and return it with what is there now. Raises PackageError.

        The draft's folder is named by its digest. The same wish for the same skill is the same proposal.
        """
        name = wish.name
        if not is_spec_name(name):
            shown = cut(visible_line(name), MAX_NAME) or "a skill without a name"
            raise ProposalError(shown, f"a name has {NAME_RULE}")
        found, before = self.target.found(name), read_lock(self.target.folder).skills.get(name)
        place = self.target.folder / name
        if reason := _untouchable(place, found, before, around):
            other = _free_name(name, {*around.known, *_names_in(self.target.folder)})
            raise ProposalError(name, f"{reason}, and is not changed in place. Propose {other} instead")
        _check_paths(wish)
        base = place if found else None
        if base is None and SKILL_FILE not in wish.files:
            raise ProposalError(name, f"a new skill needs {SKILL_FILE} among its files")
        try:
            skill = self._written(wish, base)
        except OSError as error:
            raise ProposalError(name, error.strerror or str(error)) from error
        proposal = Proposal(skill, found, before, base)
        if proposal.change == "same" and (before is None or before.proposed is None):
            raise ProposalError(name, "it is just like this already")
        return proposal

    def done(self, name: str, call: str) -> LockedSkill | None:
        """Return what a call has installed, in an attempt before this one; None where it has not."""
        locked = read_lock(self.target.folder).skills.get(name)
        is_of_call = locked is not None and locked.proposed is not None and locked.proposed.call == call
        return locked if is_of_call and locked and self.target.found(name) == locked.digest else None

    def install(self, proposal: Proposal, proposed: Proposed, origin: Origin) -> None:
        """Put a proposal in place, and keep what was there as a backup. Raises PackageError.

        Raises InstalledError where there is something else than was shown.
        """
        skill = proposal.skill
        with self.target.draft() as draft:
            copy = draft / "proposed" / skill.name
            copy_skill(skill.folder, copy, skill.name, self.target.limits)
            proposed = Proposed(**{**_fields(proposed), "replaced": proposal.found})
            offer = Offer(proposal_address(proposed.thread), (skill,), proposed=proposed)
            skill = skill._replace(folder=copy, path="")
            change = Change(offer, skill, proposal.change, proposal.before, proposal.found)
            install(self.target, draft, [change], origin, force=True)

    def _written(self, wish: Wish, base: Path | None) -> OfferedSkill:
        make_own(self._drafts)
        work = Path(tempfile.mkdtemp(prefix=".draft-", dir=self._drafts))
        try:
            folder = work / "tree" / wish.name
            if base is None:
                folder.mkdir(parents=True)
            else:
                copy_skill(base, folder, wish.name, self.target.limits)
            _write(folder, wish)
            _check(folder, wish.name)
            wanted = Wanted(proposal_address(""), work, frozenset({wish.name}), self.target.limits)
            (skill,) = stage(work / "tree", wanted, is_ours=True)
            return skill._replace(folder=self._kept(skill))
        finally:
            remove_tree(work)

    def _kept(self, skill: OfferedSkill) -> Path:
        """Move a draft to where its digest says; one that is there, and still is that, is left."""
        above = self._drafts / skill.digest
        place = above / skill.name
        with _locked(self._drafts):
            if self._is(place, skill.digest):
                os.utime(above)
                return place
            remove_tree(above)
            skill.folder.parent.rename(above)
            drafts = [each for each in self._drafts.iterdir() if _DIGEST.fullmatch(each.name)]
            for old in sorted(drafts, key=_age, reverse=True)[DRAFTS_KEPT:]:
                remove_tree(old)
        return place

    def _is(self, folder: Path, digest: str) -> bool:
        with suppress(SnapshotError):
            return read_digest(folder, list_contents(folder, self.target.limits)) == digest
        return False


def _fields(proposed: Proposed) -> dict[str, str]:
    return {name: getattr(proposed, name) for name in proposed.__struct_fields__}


def _age(folder: Path) -> float:
    return folder.stat().st_mtime


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other threads and programs out of what they would change here, too. Raises OSError."""
    with opened_folder(folder) as descriptor:
        posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX)
        yield


def _untouchable(place: Path, found: str, before: LockedSkill | None, around: Surroundings) -> str:
    """Return why a skill is not changed where it is; empty for one that may be, or a new one."""
    name = place.name
    if not found:
        if name in around.known:
            return f"it is a skill of another place ({visible_line(around.known[name])})"
        return "skills.lock has it" if before is not None and before.proposed is None else ""
    if not _DIGEST.fullmatch(found):
        return f"what is there cannot be read as a skill ({visible_line(found)})"
    if before is not None and before.proposed is None:
        return f"it was installed from {visible_line(before.source)}"
    if os.path.lexists(place / MANIFEST_FILE):
        return "it carries a manifest, as signed skills do"
    return around.vouched(place, name, found)


def _free_name(name: str, taken: set[str]) -> str:
    stem = _NUMBERED.sub("", name)
    tried = (f"{stem[: MAX_NAME - len(str(number)) - 1].rstrip('-')}-{number}" for number in numbers(2))
    return next(each for each in tried if each not in taken)


def _names_in(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from os.listdir(folder)  # noqa: PTH208 - names alone


def _check_paths(wish: Wish) -> None:
    """Refuse what a proposal must not name. Raises EntryError and ProposalError."""
    size = sum(len(text.encode(errors="replace")) for text in wish.files.values())
    if len(wish.files) + len(wish.remove) > MAX_FILES or size > MAX_BYTES:
        most = f"at most {MAX_FILES} files with {MAX_BYTES:,} bytes in all"
        raise ProposalError(wish.name, f"a person has to look at all of it, so it may change {most}")
    names = EntryNames(wish.name)
    for path in (*wish.files, *wish.remove):
        names.add(path)
        parts = path.split("/")
        if not LEFT_OUT.isdisjoint(parts):
            raise names.refused(path, "it would be no part of the skill")
        if any(part.startswith(".") or is_protected_name(part) for part in parts):
            raise names.refused(path, "other programs obey files of that name, or nobody sees them")
    for path, text in wish.files.items():
        if "\0" in text or not _is_text(text):
            raise names.refused(path, "it is no text")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a half of a character
        return False
    return True


def _write(folder: Path, wish: Wish) -> None:
    """Change the copy of a skill. Raises EntryError and OSError."""
    for path in (*wish.files, *wish.remove):
        if _leads_on(folder, folder / path):
            raise EntryNames(wish.name).refused(path, "a link stands in its place or above it")
    for path in wish.remove:  # one that is gone is no fault: an attempt before this one has removed it
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / path).unlink()
            _remove_empty((folder / path).parent, folder)
    for path, text in wish.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())  # the mode of a file that is there stays


def _leads_on(folder: Path, place: Path) -> bool:
    return any(each.is_symlink() for each in (place, *place.parents) if each.is_relative_to(folder))


def _remove_empty(place: Path, folder: Path) -> None:
    with suppress(OSError):
        while place != folder:
            place.rmdir()
            place = place.parent


def _check(folder: Path, name: str) -> None:
    """Refuse a skill that breaks the letter of the specification. Raises ProposalError with what is wrong."""
    errors = [each for each in lint(folder).findings if each.severity == "error"]
    if not errors:
        return
    told = []
    for each in errors[:_FINDINGS]:
        path = os.path.relpath(each.path, folder)
        place = f"{path}:{each.line}" if each.line else path
        told.append(cut(visible_line(f"{place}: {each.message} {each.advice}"), 2 * _SHOWN))
    more = f" and {len(errors) - _FINDINGS} more" if len(errors) > _FINDINGS else ""
    listed = " ".join(told).rstrip(".")
    raise ProposalError(name, f"{count(len(errors), 'error')} to mend. {listed}{more}")


def read_text(folder: Path, path: str) -> str:
    """Return a text file of a draft."""
    return read_beneath(folder, path, MAX_BYTES, follow=False).decode("utf-8", "replace")
