"""What installing would change, to be shown, and doing just that."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from skills_agent.skills.library.contents import SnapshotError
from skills_agent.skills.packages.errors import InstalledError, OfferError
from skills_agent.skills.packages.lock import LockedSkill, read_lock
from skills_agent.skills.packages.offer import Offer, OfferedSkill
from skills_agent.skills.packages.target import Target

ChangeKind = Literal["new", "update", "same"]


class Change(NamedTuple):
    """What installing one skill would do."""

    offer: Offer
    skill: OfferedSkill
    kind: ChangeKind
    before: LockedSkill | None = None
    """What the lock has of it now."""
    found: str = ""
    """The digest of what is there now; empty for nothing."""

    @property
    def is_foreign(self) -> bool:
        """Return whether what is there was not installed by this program, or was changed since."""
        return bool(self.found) and (self.before is None or self.before.digest != self.found)


class Origin(NamedTuple):
    """By whom and when something is installed."""

    by: str
    """The program and its version."""
    at: datetime
    """In UTC."""


def plan(target: Target, offers: Sequence[Offer]) -> tuple[Change, ...]:
    """Return what installing the offers would change, by name. Raises PackageError."""
    lock = read_lock(target.folder)
    changes: dict[str, Change] = {}
    for offer in offers:
        for skill in offer.skills:
            if twin := changes.get(skill.name):
                places = f"{twin.offer.address.text} and {offer.address.text}"
                raise OfferError(places, f"both have a skill named {skill.name}")
            changes[skill.name] = _change(target, lock.skills.get(skill.name), offer, skill)
    return tuple(changes[name] for name in sorted(changes))


def install(
    target: Target, draft: Path, changes: Sequence[Change], origin: Origin, *, force: bool = False
) -> None:
    """Install what was shown: the copies of the offers, where what is there now is what was there then.

    Without `force`, what this program has not installed is left alone. Raises PackageError; then nothing
    has been changed.
    """
    with target.exclusive():
        lock = read_lock(target.folder)
        for change in changes:
            name = change.skill.name
            if change.is_foreign and not force and change.kind != "same":
                raise InstalledError(name, _why_foreign(change))
            if _digest(target, name) != change.found or lock.skills.get(name) != change.before:
                raise InstalledError(name, "it was changed while this was shown; look at it again")
        locked = [_locked(change, origin) for change in changes]
        put = {each.skill.name: each.skill.folder for each in changes if each.kind != "same"}
        target.commit(draft, put, [], lock.with_skills(locked))


def _change(target: Target, before: LockedSkill | None, offer: Offer, skill: OfferedSkill) -> Change:
    found = _digest(target, skill.name)
    kind: ChangeKind = "new" if not found else "same" if found == skill.digest else "update"
    return Change(offer, skill, kind, before, found)


def _digest(target: Target, name: str) -> str:
    try:
        return target.digest_of(name)
    except SnapshotError as error:
        raise InstalledError(name, error.reason) from error


def _why_foreign(change: Change) -> str:
    if change.before is None:
        return "it is there and was not installed by skills-agent; --force puts it aside"
    return "it was changed since it was installed; --force puts it aside"


def _locked(change: Change, origin: Origin) -> LockedSkill:
    offer, skill, before = change.offer, change.skill, change.before
    locked = LockedSkill(
        name=skill.name,
        source=offer.address.text,
        path=skill.path,
        resolved=offer.resolved,
        digest=skill.digest,
        archive=offer.archive,
        installed=f"{origin.at:%Y-%m-%dT%H:%M:%SZ}",
        by=origin.by,
        files=skill.files,
    )
    # The same skill from the same place is no other one because it was installed again.
    again = None if before is None else structs.replace(locked, installed=before.installed, by=before.by)
    return before if before is not None and again == before else locked
