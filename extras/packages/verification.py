"""Whether a folder of skills is what its lock says, file by file. Reads, and writes nothing."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.packages.difference import SHOWN, FileDifference
from skills_agent.packages.errors import EntryError
from skills_agent.packages.lock import Lock, LockedSkill, chosen
from skills_agent.packages.manifest import MANIFEST_FILE, manifest_digest, read_manifest
from skills_agent.packages.staging import files_of
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    SnapshotError,
    digest_of,
    list_contents,
    read_digests,
)
from skills_agent.skills.sources.walk import SKILL_FILE

_OPEN: Final = stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID
"""Modes that no installed file has: others may write it, or it runs as its owner."""


class Check(NamedTuple):
    """One skill of the lock, compared with what is there."""

    locked: LockedSkill
    state: Literal["same", "changed", "missing"]
    digest: str = ""
    """Of what is there; empty for nothing, or for what cannot be measured."""
    reason: str = ""
    """Why it cannot be measured."""
    differences: tuple[FileDifference, ...] = ()
    """What each file has instead of what the lock says; a mode is also one that is open to others."""


def verify(folder: Path, lock: Lock, names: Iterable[str] = ()) -> tuple[Check, ...]:
    """Compare skills of a lock, by default all, with what is there. Raises PackageError for other names."""
    return tuple(_check(folder / locked.name, locked) for locked in chosen(lock, names))


def not_locked(folder: Path, lock: Lock) -> list[str]:
    """Return the skills that are there, and that the lock does not have."""
    return sorted(
        place.parent.name for place in folder.glob(f"*/{SKILL_FILE}") if place.parent.name not in lock
    )


def _check(place: Path, locked: LockedSkill) -> Check:
    if not os.path.lexists(place):
        return Check(locked, "missing")
    if place.is_symlink():
        return Check(locked, "changed", reason=f"it is a link to {place.readlink()}")
    skipped: list[str] = []
    try:
        members = list_contents(place, ContentLimits(), skipped)
        digests = list(read_digests(place, members))
    except SnapshotError as error:
        return Check(locked, "changed", reason=error.reason)
    digest = digest_of(digests)
    differences = [
        *_files(locked.files, files_of(digests)),
        *_beside(place, members, skipped),
        *_manifest(place, locked),
    ]
    is_same = digest == locked.digest and not differences
    differences.sort(key=lambda each: each.path)
    return Check(locked, "same" if is_same else "changed", digest, differences=tuple(differences))


def _manifest(place: Path, locked: LockedSkill) -> Iterator[FileDifference]:
    """Yield where the manifest of an installed skill is not as the lock says: no digest covers it."""
    if locked.manifest:
        yield from _files({MANIFEST_FILE: locked.manifest}, {MANIFEST_FILE: manifest_digest(place)})
        return
    try:  # it was signed since
        if (manifest := read_manifest(place)) is not None:
            manifest.check(locked.name, locked.digest, locked.files, place / MANIFEST_FILE)
    except EntryError as error:
        yield FileDifference(MANIFEST_FILE, "changed", said=error.reason)


def _files(locked: Mapping[str, str], found: Mapping[str, str]) -> Iterator[FileDifference]:
    for path in locked.keys() | found.keys():
        before, now = locked.get(path, ""), found.get(path, "")
        if not before:
            yield FileDifference(path, "added", said=_short(now))
        elif not now:
            yield FileDifference(path, "removed", said=_short(before))
        elif before != now:
            is_mode = before.partition(" ")[0] == now.partition(" ")[0]
            said = f"{_short(before)} -> {_short(now)}"
            yield FileDifference(path, "mode" if is_mode else "changed", said=said)


def _beside(place: Path, members: Iterable[Member], skipped: Iterable[str]) -> Iterator[FileDifference]:
    """Yield what no digest covers: links that lead out, what is no file, and modes open to others."""
    for path in skipped:
        file = place / path
        found = f"a link to {file.readlink()}" if file.is_symlink() else "no file and no folder"
        yield FileDifference(path, "added", said=found)
    for path, kind, status, _ in members:
        if status.st_mode & _OPEN and kind != "link":
            yield FileDifference(path, "mode", said=f"0644 or 0755 -> {stat.S_IMODE(status.st_mode):04o}")


def _short(value: str) -> str:
    digest, blank, kind = value.partition(" ")
    return f"{digest[:SHOWN]}{blank}{kind}" if len(digest) == 64 else value
