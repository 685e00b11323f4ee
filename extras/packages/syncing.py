"""From a lock to what it names: each skill as its source has it now, or as it was when it was locked."""

from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.errors import PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.offer import Offer, Selection
from skills_agent.packages.origins import parse_locked
from skills_agent.packages.target import Target

_SHOWN: Final = 12
"""Digits of a digest that people compare."""


class Fetched(NamedTuple):
    """A locked skill, and what its source has of it."""

    locked: LockedSkill
    offer: Offer | None = None
    """With this skill alone; None where it could not be fetched."""
    reason: str = ""
    """Why not."""


def fetch_skills(
    skills: Iterable[LockedSkill], target: Target, into: Path, hosts: Collection[str] | None, *, pinned: bool
) -> tuple[Fetched, ...]:
    """Fetch skills of a lock, by name, but those that were proposed: they have no source.

    What cannot be fetched says why, and keeps out no other.

    `into` is an empty folder of this process alone, and `hosts` as in `parse_locked`. If they are `pinned`,
    nothing is resolved anew: the commit or URL of the lock is asked for, and other bytes are none.
    """

    def key(skill: LockedSkill) -> tuple[str, str]:
        return skill.source, skill.resolved if pinned else ""

    fetched: list[Fetched] = []
    sourced = sorted((each for each in skills if each.proposed is None), key=key)
    for number, ((_, resolved), group) in enumerate(groupby(sourced, key)):
        fetched += _fetched(list(group), resolved, target, into / str(number), hosts)
    if pinned:
        fetched = list(map(_pinned, fetched))
    return tuple(sorted(fetched, key=lambda each: each.locked.name))


def _fetched(
    group: list[LockedSkill], resolved: str, target: Target, into: Path, hosts: Collection[str] | None
) -> list[Fetched]:
    place = into / "all"
    place.mkdir(parents=True)
    names = frozenset(each.name for each in group)
    try:
        address = parse_locked(group[0].source, target.folder, hosts)
        offer = fetch(Selection(address, place, names, target.limits, resolved))
    except PackageError as error:
        if len(group) == 1:
            return [Fetched(group[0], reason=str(error).rstrip("."))]
        # One may be gone, and the others there.
        return [one for each in group for one in _fetched([each], resolved, target, into / each.name, hosts)]
    by_name = {skill.name: skill for skill in offer.skills}
    return [Fetched(each, offer._replace(skills=(by_name[each.name],))) for each in group]


def _pinned(fetched: Fetched) -> Fetched:
    locked = fetched.locked
    if fetched.offer is None or (now := fetched.offer.skills[0].digest) == locked.digest:
        return fetched
    reason = (
        f"{locked.source} has other files now: {now[:_SHOWN]}, and the lock says {locked.digest[:_SHOWN]}"
    )
    return Fetched(locked, reason=f"{reason}; skills update takes what is there now")
