"""What removing skills would remove, to be shown, and doing just that."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from skills_agent.packages.backups import Backup
from skills_agent.packages.errors import InstalledError
from skills_agent.packages.lock import LockedSkill, read_lock
from skills_agent.packages.target import Target
from skills_agent.skills.errors import list_names
from skills_agent.skills.format.rules import is_spec_name


class Removal(NamedTuple):
    """One skill that is to be removed."""

    name: str
    found: str
    """As `Target.found` says it; empty where the lock alone has it."""
    before: LockedSkill | None

    @property
    def is_foreign(self) -> bool:
        """Return whether this program did not install what is there, or it was changed since."""
        return bool(self.found) and (self.before is None or self.before.digest != self.found)


def plan_removal(target: Target, names: Iterable[str]) -> tuple[Removal, ...]:
    """Return what removing skills would remove, by name. Raises PackageError."""
    lock = read_lock(target.folder)
    removals = [
        Removal(name, target.found(name) if is_spec_name(name) else "", lock.skills.get(name))
        for name in sorted(set(names))
    ]
    for each in removals:
        if not each.found and each.before is None:
            installed = list_names(sorted(lock.skills)) if lock.skills else "nothing"
            raise InstalledError(each.name, f"there is no such skill in {target.folder}; it has {installed}")
    return tuple(removals)


def uninstall(
    target: Target,
    removals: Sequence[Removal],
    at: datetime,
    *,
    force: bool = False,
    purge: bool = False,
) -> tuple[Backup, ...]:
    """Remove what was shown, and return the backups, which `purge` removes, too.

    Without `force`, what this program has not installed is left alone, and so is what was changed since, if
    there shall be no backup. Raises PackageError; then nothing has been changed.
    """
    with target.draft() as draft, target.exclusive():
        lock = read_lock(target.folder)
        for each in removals:
            if each.is_foreign and not force and (purge or each.before is None):
                reason = "was not installed by skills-agent" if each.before is None else "was changed since"
                raise InstalledError(each.name, f"it {reason}; --force removes it")
            if target.found(each.name) != each.found or lock.skills.get(each.name) != each.before:
                raise InstalledError(each.name, "it was changed while this was shown; look at it again")
        there = [each for each in removals if each.found]
        keep = target.backups.keep
        backups = (
            ()
            if purge
            else tuple(keep(target.folder / each.name, each.found, each.before, at) for each in there)
        )
        after = lock.with_skills((), without=[each.name for each in removals])
        target.commit(draft, {}, {each.name: each.found for each in there}, None if after == lock else after)
        if purge:
            for each in removals:
                target.backups.remove(each.name)
    return backups
