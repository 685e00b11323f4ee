"""Backups: what was replaced or removed in a folder of skills, kept in the state folder of the user.

Each is the whole folder as it was, what the lock had of it, and when. Of each skill the last five are kept,
and of equal ones the last.
"""

import shutil
import tempfile
from collections.abc import Iterator
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


class _Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    digest: str
    at: str
    locked: LockedSkill | None
    undone: bool = False


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
    undone: bool
    """True for a version that was left to go back to an earlier one: it is not earlier itself."""


class Backups:
    """The backups of one folder of skills."""

    def __init__(self, state: Path, folder: Path) -> None:
        """Name the state folder of the user, and the folder of skills."""
        self._place = state / "backups" / key_of(folder)

    def keep(
        self, place: Path, digest: str, locked: LockedSkill | None, at: datetime, *, undone: bool = False
    ) -> Backup:
        """Copy a skill's folder as it is, links as links. Raises OSError; then there is no backup.

        One program at a time does this for a folder of skills (`Target.exclusive`).
        """
        name, stamp = place.name, f"{at:%Y%m%dT%H%M%S%f}"
        above = self._place / name
        make_own(self._place)
        above.mkdir(mode=0o700, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=above))
        try:
            _copy(place, draft / name)
            facts = _Facts(digest, f"{at:%Y-%m-%dT%H:%M:%SZ}", locked, undone)
            (draft / _FACTS).write_bytes(msgspec.json.encode(facts))
            kept = draft.rename(above / f"{stamp}-{draft.name.removeprefix(_DRAFT)}")
        except BaseException:
            remove_tree(draft)
            raise
        sync(above)
        for left in above.glob(f"{_DRAFT}*"):  # by a program that was killed
            remove_tree(left)
        newest, *others = self.of(name)
        for old in others:
            if (old.digest, old.locked) == (newest.digest, newest.locked):
                _remove(old.folder.parent)
        for old in self.of(name)[KEPT:]:
            _remove(old.folder.parent)
        return Backup(name, facts.digest, facts.at, locked, kept / name, undone)

    def all(self) -> list[Backup]:
        """Return all backups, by name, the newest of each first. Raises OSError."""
        names = sorted(each.name for each in self._place.iterdir()) if self._place.exists() else []
        return [backup for name in names for backup in self.of(name)]

    def of(self, name: str) -> list[Backup]:
        """Return the backups of one skill, the newest first. Raises OSError."""
        return list(self._read(self._place / name))

    def remove(self, name: str) -> None:
        """Remove all backups of one skill."""
        remove_tree(self._place / name)

    def _read(self, above: Path) -> Iterator[Backup]:
        if not (above.exists() and is_own(self._place)):
            return
        for kept in sorted(above.iterdir(), key=attrgetter("name"), reverse=True):
            if not kept.name.startswith(_DRAFT):
                facts = msgspec.json.decode((kept / _FACTS).read_bytes(), type=_Facts)
                place = kept / above.name
                yield Backup(above.name, facts.digest, facts.at, facts.locked, place, facts.undone)


def _remove(kept: Path) -> None:
    """Remove a backup. Nobody reads it any more, wherever this is killed."""
    draft = kept.rename(kept.with_name(f"{_DRAFT}{kept.name}"))
    remove_tree(draft)


def _copy(place: Path, target: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        shutil.copy2(place, target, follow_symlinks=False)
        return
    try:
        shutil.copytree(place, target, symlinks=True)
    except shutil.Error as error:
        (_, _, reason) = error.args[0][0]
        raise OSError(5, f"no backup can be made: {reason}") from error
