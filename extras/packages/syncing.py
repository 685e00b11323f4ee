"""From a lock to what it names: each skill as its source has it now, or as it was when it was locked."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from skills_agent.packages.difference import SHOWN
from skills_agent.packages.errors import PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.origins import parse_locked
from skills_agent.packages.target import Target


def fetch_skills(
    skills: Iterable[LockedSkill],
    target: Target,
    into: Path,
    hosts: Collection[str] | None,
    lose: Callable[[LockedSkill, str], None],
    *,
    pinned: bool,
) -> list[OfferedSkill]:
    """Fetch skills of a lock, by name, but those that were proposed: they have no source.

    `lose` is told which cannot be fetched, and why; if it raises nothing, that keeps out no other.

    `into` is an empty folder of this process alone, and `hosts` as in `parse_locked`. If they are `pinned`,
    nothing is resolved anew: the commit or URL of the lock is asked for, and other bytes are none.
    """

    def key(skill: LockedSkill) -> tuple[str, str]:
        return skill.source, skill.resolved if pinned else ""

    def fetched(group: Sequence[LockedSkill], resolved: str, place: Path) -> Iterator[OfferedSkill]:
        (place / "all").mkdir(parents=True)
        names = frozenset(skill.name for skill in group)
        try:
            address = parse_locked(group[0].source, target.folder, hosts)
            found = fetch(Selection(address, place / "all", names, resolved=resolved))
        except PackageError as error:
            if len(group) == 1:
                lose(group[0], str(error).rstrip("."))
                return
            for locked in group:  # one may be gone, and the others there
                yield from fetched([locked], resolved, place / locked.name)
            return
        by_name = {skill.name: skill for skill in found}
        for locked in group:
            skill = by_name[locked.name]
            if pinned and skill.digest != locked.digest:
                both = f"{skill.digest[:SHOWN]}, and the lock says {locked.digest[:SHOWN]}"
                lose(locked, f"{locked.source} has other files now: {both}; skills update takes these")
            else:
                yield skill

    every: list[OfferedSkill] = []
    sourced = sorted((skill for skill in skills if skill.proposed is None), key=key)
    for number, ((_, resolved), group) in enumerate(groupby(sourced, key)):
        every += fetched(list(group), resolved, into / str(number))
    return sorted(every, key=attrgetter("name"))
