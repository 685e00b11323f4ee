"""From a lock to what it names: fetch each source as it was when it was locked, and as it is now."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.address import Address
from skills_agent.packages.errors import InstalledError, OfferError, PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.lock import LockedSkill, SkillsLock, read_lock
from skills_agent.packages.offer import Offer, OfferedSkill, Wanted
from skills_agent.packages.origins import parse_locked
from skills_agent.packages.signatures import Signatures
from skills_agent.packages.target import Copy, Target
from skills_agent.packages.verification import manifest_differences
from skills_agent.skills.library.contents import ContentLimits

_SHOWN: Final = 12
"""Digits of a digest or a commit that people compare."""


NOTHING_TO_FETCH: Final = "the agent proposed it, and there is nothing to fetch"


class Place(NamedTuple):
    """Where locked skills are fetched."""

    base: Path
    """The lock's folder: sources on this machine are relative to it."""
    into: Path
    """An empty folder for the copies, of this process alone."""
    limits: ContentLimits
    signatures: Signatures | None = None
    """As in `Wanted`."""
    hosts: Collection[str] | None = ()
    """As in `parse_locked`."""

    def wanted(self, address: Address, into: Path, names: Iterable[str], resolved: str = "") -> Wanted:
        """Return what is asked of one source."""
        wanted = Wanted(address, into, frozenset(names), self.limits, resolved)
        return wanted._replace(signatures=self.signatures)


class Fetched(NamedTuple):
    """A locked skill, and what its source has of it."""

    locked: LockedSkill
    offer: Offer | None = None
    skill: OfferedSkill | None = None
    """None where it could not be fetched."""
    reason: str = ""
    """Why not."""

    @property
    def is_proposed(self) -> bool:
        """Return whether it has no source: a proposal of the agent is what the lock says, or it is gone."""
        return self.locked.proposed is not None

    @property
    def is_same(self) -> bool:
        """Return whether the source has it with the digest of the lock."""
        return self.skill is not None and self.skill.digest == self.locked.digest

    @property
    def has_moved(self) -> bool:
        """Return whether the ref that was asked for means another commit now."""
        if self.offer is None or self.offer.address.kind != "git" or not self.offer.address.ref:
            return False  # nobody asked for a fixed ref
        return self.resolved != self.locked.resolved

    @property
    def resolved(self) -> str:
        """Return what the source means now."""
        return "" if self.offer is None or self.skill is None else self.offer.resolved_of(self.skill)

    def difference(self) -> str:
        """Say in one sentence how the source differs from the lock; empty where it does not."""
        locked, skill, offer = self.locked, self.skill, self.offer
        if self.is_proposed:
            return ""
        if skill is None or offer is None:
            return f"{locked.name}: {self.reason}"
        if self.has_moved:
            was, now = locked.resolved[:_SHOWN] or "nothing", self.resolved[:_SHOWN]
            return (
                f"{locked.name}: {offer.address.ref} of {locked.source} has moved: it was {was} and is {now}"
            )
        if not self.is_same:
            was, now = locked.digest[:_SHOWN], skill.digest[:_SHOWN]
            return f"{locked.name}: {locked.source} has other files now: {now}, and the lock says {was}"
        return ""


def fetch_locked(skills: Iterable[LockedSkill], place: Place) -> tuple[Fetched, ...]:
    """Fetch skills of a lock at the commit or URL that it has. Raises PackageError.

    A source that has other bytes for it is refused: nothing is resolved anew.
    """
    fetched, skills = [], list(skills)
    if proposed := next((each for each in skills if each.proposed is not None), None):
        raise OfferError(proposed.source, f"{proposed.name}: {NOTHING_TO_FETCH}")
    for number, (source, resolved, group) in enumerate(_groups(skills, pinned=True)):
        address = parse_locked(source, place.base, place.hosts)
        names = (each.name for each in group)
        offer = fetch(place.wanted(address, _folder(place, number), names, resolved))
        for skill in offer.skills:
            locked = next(each for each in group if each.name == skill.name)
            if difference := _fetched_at(resolved, locked, offer, skill).difference():
                raise OfferError(source, f"{difference}; skills update takes what is there now")
            fetched.append(Fetched(locked, offer, skill))
    return tuple(fetched)


def _fetched_at(resolved: str, locked: LockedSkill, offer: Offer, skill: OfferedSkill) -> Fetched:
    return Fetched(locked, offer._replace(resolved=resolved), skill._replace(resolved=resolved))


def fetch_current(skills: Iterable[LockedSkill], place: Place) -> tuple[Fetched, ...]:
    """Fetch skills of a lock as their sources have them now, by name. What cannot be fetched says why."""
    skills = list(skills)
    fetched = [Fetched(each, reason=NOTHING_TO_FETCH) for each in skills if each.proposed is not None]
    sourced = (each for each in skills if each.proposed is None)
    for number, (_, _, group) in enumerate(_groups(sourced, pinned=False)):
        folder = _folder(place, number)
        whole = _fetched(group, place, folder / "all")
        if len(group) > 1 and any(each.reason for each in whole):  # one may be gone, and the others there
            whole = [each for one in group for each in _fetched([one], place, folder / one.name)]
        fetched += whole
    return tuple(sorted(fetched, key=lambda each: each.locked.name))


def offers_of(fetched: Iterable[Fetched]) -> tuple[Offer, ...]:
    """Return what was fetched as offers, each of the wanted skills alone."""
    return tuple(
        offer._replace(skills=(skill,))
        for _, offer, skill, _ in fetched
        if offer is not None and skill is not None
    )


def _fetched(group: list[LockedSkill], place: Place, into: Path) -> list[Fetched]:
    into.mkdir()
    try:
        address = parse_locked(group[0].source, place.base, place.hosts)
        offer = fetch(place.wanted(address, into, (each.name for each in group)))
    except PackageError as error:
        return [Fetched(each, reason=str(error)) for each in group]
    by_name = {each.name: each for each in offer.skills}
    return [Fetched(each, offer, by_name[each.name]) for each in group]


class _Group(NamedTuple):
    source: str
    resolved: str
    skills: list[LockedSkill]


def _groups(skills: Iterable[LockedSkill], *, pinned: bool) -> Iterator[_Group]:
    def key(skill: LockedSkill) -> tuple[str, str]:
        return skill.source, skill.resolved if pinned else ""

    for (source, resolved), group in groupby(sorted(skills, key=key), key):
        yield _Group(source, resolved, list(group))


def _folder(place: Place, number: int) -> Path:
    folder = place.into / str(number)
    folder.mkdir(parents=True)
    return folder


class Drift(NamedTuple):
    """A skill of a lock that is not there as the lock has it."""

    locked: LockedSkill
    found: str
    """As `Target.found` says it."""


def drifts(target: Target, lock: SkillsLock) -> tuple[Drift, ...]:
    """Return the skills that are not as the lock has them, by name."""
    found = [Drift(lock.skills[name], target.found(name)) for name in sorted(lock.skills)]
    return tuple(
        each
        for each in found
        if each.found != each.locked.digest
        or any(manifest_differences(target.folder / each.locked.name, each.locked))
    )


def restore(
    target: Target, draft: Path, todo: Sequence[Drift], fetched: Sequence[Fetched], at: datetime
) -> None:
    """Put in place what was fetched for skills of the lock, which stays as it is; keep what was there.

    Raises PackageError; then nothing has been changed.
    """
    by_name = {each.locked.name: each.skill for each in fetched if each.skill is not None}
    with target.exclusive():
        lock = read_lock(target.folder)
        put = {}
        for each in todo:
            name = each.locked.name
            if target.found(name) != each.found or lock.skills.get(name) != each.locked:
                raise InstalledError(name, "it was changed while this was shown; look at it again")
            if each.found:
                target.backups.keep(target.folder / name, each.found, None, at)
            put[name] = Copy(by_name[name].folder, by_name[name].digest, each.found)
        target.commit(draft, put, {}, None)
