"""Whether a folder of skills is what its lock says, file by file. Reads, and writes nothing."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.packages.errors import InstalledError
from skills_agent.packages.lock import LockedSkill, SkillsLock
from skills_agent.packages.manifest import (
    MANIFEST_FILE,
    ManifestError,
    manifest_digest,
    read_manifest,
)
from skills_agent.packages.staging import files_of
from skills_agent.packages.target import Target
from skills_agent.skills.library.contents import (
    Member,
    SnapshotError,
    digest_of,
    list_contents,
    read_digests,
)
from skills_agent.skills.sources.walk import SKILL_FILE

State = Literal["same", "changed", "missing"]
_OPEN: Final = stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID
"""Modes that no installed file has: others may write it, or it runs as its owner."""
FileState = Literal["changed", "added", "removed", "mode"]


class Difference(NamedTuple):
    """One file that is not as the lock says."""

    path: str
    kind: FileState
    """`mode`: the same bytes, but executable, a link, or open to others to write where it was not."""
    locked: str
    """What the lock has of it; empty for nothing."""
    found: str


class Check(NamedTuple):
    """One skill of the lock, compared with what is there."""

    name: str
    state: State
    locked: LockedSkill
    digest: str = ""
    """Of what is there; empty for nothing, or for what cannot be measured."""
    reason: str = ""
    """Why it cannot be measured."""
    differences: tuple[Difference, ...] = ()


class Verification(NamedTuple):
    """What a folder holds, compared with its lock."""

    checks: tuple[Check, ...]
    """By name."""
    not_locked: tuple[str, ...]
    """Skills that are there, and that the lock does not have."""

    @property
    def is_same(self) -> bool:
        """Return whether all that the lock has is there, as it was installed."""
        return all(each.state == "same" for each in self.checks)


def verify(target: Target, lock: SkillsLock, names: Iterable[str] = ()) -> Verification:
    """Compare skills of a lock, by default all, with what is there. Raises InstalledError for other names."""
    wanted = sorted(set(names))
    if unknown := next((each for each in wanted if each not in lock.skills), ""):
        raise InstalledError(unknown, "skills.lock does not have it, so nothing says what it should be")
    checks = tuple(_check(target, lock.skills[name]) for name in wanted or sorted(lock.skills))
    return Verification(checks, () if wanted else tuple(sorted(_others(target.folder, lock))))


def _others(folder: Path, lock: SkillsLock) -> Iterator[str]:
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name not in lock.skills and (folder / each.name / SKILL_FILE).is_file():
                    yield each.name


def _check(target: Target, locked: LockedSkill) -> Check:
    name, place = locked.name, target.folder / locked.name
    if not os.path.lexists(place):
        return Check(name, "missing", locked)
    if place.is_symlink():
        return Check(name, "changed", locked, reason=f"it is a link to {place.readlink()}")
    skipped: list[str] = []
    try:
        members = list_contents(place, target.limits, skipped)
        digests = list(read_digests(place, members))
    except SnapshotError as error:
        return Check(name, "changed", locked, reason=error.reason)
    digest = digest_of(digests)
    differences = [
        *_files(locked.files, files_of(digests)),
        *_beside(place, members, skipped),
        *manifest_differences(place, locked),
    ]
    is_same = digest == locked.digest and not differences
    differences.sort(key=lambda each: each.path)
    return Check(name, "same" if is_same else "changed", locked, digest, differences=tuple(differences))


def manifest_differences(place: Path, locked: LockedSkill) -> Iterator[Difference]:
    """Yield where the manifest of an installed skill is not as the lock says: no digest covers it."""
    found = manifest_digest(place)
    if not locked.manifest:  # it was signed since, or the lock says nothing of manifests
        try:
            if (manifest := read_manifest(place)) is not None:
                manifest.check(locked.name, locked.digest, locked.files, place / MANIFEST_FILE)
        except ManifestError as error:
            yield Difference(MANIFEST_FILE, "changed", "", error.reason)
        return
    yield from _files({MANIFEST_FILE: locked.manifest}, {MANIFEST_FILE: found})


def _files(locked: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Difference]:
    for path in locked.keys() | found.keys():
        before, now = locked.get(path, ""), found.get(path, "")
        if before != now:
            is_mode = before.partition(" ")[0] == now.partition(" ")[0]
            kind: FileState = (
                "added" if not before else "removed" if not now else "mode" if is_mode else "changed"
            )
            yield Difference(path, kind, before, now)


def _beside(place: Path, members: Iterable[Member], skipped: Iterable[str]) -> Iterator[Difference]:
    """Yield what no digest covers: links that lead out, what is no file, and modes open to others."""
    for path in skipped:
        file = place / path
        found = f"a link to {file.readlink()}" if file.is_symlink() else "no file and no folder"
        yield Difference(path, "added", "", found)
    for path, kind, status, _ in members:
        if status.st_mode & _OPEN and kind != "link":
            yield Difference(path, "mode", "0644 or 0755", f"{stat.S_IMODE(status.st_mode):04o}")
