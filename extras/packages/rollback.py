"""What going back to an earlier version of a skill would change, to be shown, and doing just that."""

import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.backups import Backup
from skills_agent.packages.errors import InstalledError
from skills_agent.packages.lock import LockedSkill, SkillsLock, read_lock
from skills_agent.packages.target import Copy, Target
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.library.contents import SnapshotError, list_contents, read_digest
from skills_agent.skills.visible import visible_line

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SHORTEST: Final = 4
"""Digits by which a version is named."""
_SHOWN: Final = 12


class Rollback(NamedTuple):
    """What going back would do to one skill."""

    name: str
    found: str
    """What is there now, as `Target.found` says it."""
    before: LockedSkill | None
    """What the lock has of it now."""
    to: Backup | None
    """The version that is put back; None: the skill was new, and is removed."""


def plan_rollback(target: Target, name: str, version: str = "") -> Rollback:
    """Return what going back would change: one version back, or to the one whose digest begins so.

    A skill that the agent proposed goes back to what it replaced, and a new one to nothing. Of any other it
    is the newest backup that is another version, and where a version is there, none that was left by going
    back: else the second time would bring back what the first had undone. Raises PackageError.
    """
    if not is_spec_name(name):
        raise InstalledError(visible_line(name), "that is no name of a skill")
    found, before = target.found(name), read_lock(target.folder).skills.get(name)
    try:
        backups = [each for each in target.backups.of(name) if _DIGEST.fullmatch(each.digest)]
    except OSError as error:
        raise InstalledError(name, error.strerror or str(error)) from error
    if not found and before is None and not backups:
        raise InstalledError(name, f"there is no such skill in {target.folder}, and no backup of one")
    if version:
        named = _named(name, version, backups)
        if (named.digest, named.locked) == (found, before):
            raise InstalledError(name, "it is that version already")
        return Rollback(name, found, before, named)
    proposed = before.proposed if before is not None else None
    if before is not None and proposed is not None and found == before.digest:
        earlier = next((each for each in backups if each.digest == proposed.replaced), None)
        if proposed.replaced and earlier is None:
            reason = f"the backup of what it replaced ({proposed.replaced[:_SHOWN]}) is gone"
            raise InstalledError(name, f"{reason}; --list shows which versions are kept")
        return Rollback(name, found, before, earlier)
    earlier = _earlier(found, backups)
    if earlier is None:
        later = "; --list shows later ones, and --version DIGEST puts one back" if backups else ""
        raise InstalledError(name, f"no earlier version of it is kept{later}")
    return Rollback(name, found, before, earlier)


def roll_back(target: Target, rollback: Rollback, at: datetime) -> Backup | None:
    """Do what was shown, and return the backup of what was there; None where nothing was.

    The lock has then what it had of that version. Raises PackageError; then nothing has been changed.
    """
    name, found, before, to = rollback
    with target.draft() as draft, target.exclusive():
        lock = read_lock(target.folder)
        if target.found(name) != found or lock.skills.get(name) != before:
            raise InstalledError(name, "it was changed while this was shown; look at it again")
        put = {} if to is None else {name: Copy(_copied(to, draft, target), to.digest, found)}
        remove = {name: found} if to is None else {}
        after = _lock_of(lock, name, to)
        # Going forward again (`--version`) leaves a version that is earlier than the one that comes back.
        is_back = to is None or not to.undone
        kept = target.backups.keep(target.folder / name, found, before, at, undone=is_back) if found else None
        target.commit(draft, put, remove, None if after == lock else after)
    return kept


def _earlier(found: str, backups: list[Backup]) -> Backup | None:
    """Return the version before the one that is there; of one that was removed, the newest."""
    if not found:
        return next(iter(backups), None)
    past = [each for each in backups if not each.undone]
    own = next((place for place, each in enumerate(past) if each.digest == found), -1)
    return next((each for each in past[own + 1 :] if each.digest != found), None)


def _named(name: str, version: str, backups: list[Backup]) -> Backup:
    meant = {each.digest for each in backups if each.digest.startswith(version.lower())}
    if len(version) < _SHORTEST or len(meant) != 1:
        kept = ", ".join(dict.fromkeys(each.digest[:_SHOWN] for each in backups)) or "none"
        raise InstalledError(name, f"{version} is not the beginning of one digest that is kept: {kept}")
    return next(each for each in backups if each.digest in meant)


def _copied(backup: Backup, draft: Path, target: Target) -> Path:
    copy = draft / "earlier" / backup.name
    try:
        shutil.copytree(backup.folder, copy, symlinks=True)
        digest = read_digest(copy, list_contents(copy, target.limits))
    except (OSError, shutil.Error, SnapshotError) as error:
        raise InstalledError(backup.name, f"its backup cannot be copied: {error}") from error
    if digest != backup.digest:
        raise InstalledError(backup.name, f"its backup was changed since; look at {backup.folder}")
    return copy


def _lock_of(lock: SkillsLock, name: str, to: Backup | None) -> SkillsLock:
    if to is not None and to.locked is not None:
        return lock.with_skills([to.locked])
    now = lock.skills.get(name)
    # What `skills sync` replaced was not what the lock says: the lock stays.
    is_kept = to is not None and now is not None and now.proposed is None
    return lock if is_kept else lock.with_skills((), without=[name])
