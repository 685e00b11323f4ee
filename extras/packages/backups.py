"""Backups: what was replaced or removed in a folder of skills, kept in the state folder of the user.

Each is the whole folder as it was, what the lock had of it, and when. Of each skill the last five are kept,
and of equal ones the last.
"""

import shutil
import tempfile
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from skills_agent.packages.journal import is_own, key_of, make_own, sync
from skills_agent.packages.lock import LockedSkill
from skills_agent.skills.trees import remove_tree

KEPT: Final = 5
"""Backups of each skill; of more, the oldest go."""
_FACTS: Final = "backup.json"
_DRAFT: Final = ".draft-"


class Backup(NamedTuple):
    """One version of a skill that was installed."""

    name: str
    digest: str
    """As `Target.found` says it: of a skill that could not be measured, the reason."""
    at: str
    """When it was replaced or removed: ISO 8601 in UTC."""
    locked: LockedSkill | None
    """What the lock had of it; None where this program had not installed it."""
    folder: Path
    """The copy: a skill's folder, which can be installed by this path."""


def backups_folder(state: Path, folder: Path) -> Path:
    """Return where the backups of one folder of skills are, in the state folder of the user."""
    return state / "backups" / key_of(folder)


def keep_backup(backups: Path, place: Path, digest: str, locked: LockedSkill | None, at: datetime) -> Backup:
    """Copy a skill's folder as it is, links as links. Raises OSError; then there is no backup.

    One program at a time does this for a folder of skills (`Target.exclusive`).
    """
    above = backups / place.name
    make_own(backups)
    above.mkdir(mode=0o700, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=above))
    try:
        _copy(place, draft / place.name)
        facts = {"digest": digest, "at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "locked": locked}
        (draft / _FACTS).write_bytes(msgspec.json.encode(facts))
        draft.rename(above / f"{at:%Y%m%dT%H%M%S%f}-{draft.name.removeprefix(_DRAFT)}")
    except BaseException:
        remove_tree(draft)
        raise
    sync(above)
    for left in above.glob(f"{_DRAFT}*"):  # by a program that was killed
        remove_tree(left)
    newest, *others = backups_of(backups, place.name)
    equal = [old for old in others if (old.digest, old.locked) == (newest.digest, newest.locked)]
    for old in (*equal, *[other for other in others if other not in equal][KEPT - 1 :]):
        # Nobody reads it any more, wherever this is killed.
        remove_tree(old.folder.parent.rename(above / f"{_DRAFT}{old.folder.parent.name}"))
    return newest


def backups_of(backups: Path, name: str) -> list[Backup]:
    """Return the backups of one skill, the newest first. Raises OSError."""
    above = backups / name
    if not (above.exists() and is_own(backups)):
        return []
    kept = sorted(above.iterdir(), key=attrgetter("name"), reverse=True)
    return [_read(each, name) for each in kept if not each.name.startswith(_DRAFT)]


def _read(kept: Path, name: str) -> Backup:
    facts = msgspec.json.decode((kept / _FACTS).read_bytes())
    locked = msgspec.convert(facts["locked"], LockedSkill | None)
    return Backup(name, facts["digest"], facts["at"], locked, kept / name)


def _copy(place: Path, target: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        shutil.copy2(place, target, follow_symlinks=False)
        return
    try:
        shutil.copytree(place, target, symlinks=True)
    except shutil.Error as error:
        (_, _, reason) = error.args[0][0]
        raise OSError(5, f"no backup can be made: {reason}") from error
