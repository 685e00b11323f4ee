"""Whether a folder of skills is still as it was when it was found to be what its lock says: by `stat` alone.

So `skills sync` with nothing to do reads neither the lock nor the skills. The stamp is in the state folder of
the user; without one, or with another one, everything is read.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from skills_agent.packages.journal import is_own, key_of, make_own
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, list_contents, signature_of
from skills_agent.skills.sources.walk import INSTALLING

_TICK = 2_000_000_000
"""Nanoseconds: the coarsest clock of a file system. A later change has another time then."""
_LOCK, _MANIFEST = "skills.lock", ".skill-manifest.json"


class Stamp(msgspec.Struct, frozen=True):
    """What `stat` told of a folder."""

    names: list[str]
    """The skills of its lock."""
    signature: str


def read_stamp(state: Path, folder: Path, limits: ContentLimits) -> Stamp | None:
    """Return the stamp of a folder where that is still so; None where it must be looked at."""
    file = _file(state, folder)
    try:
        if not is_own(file.parent) or (folder / INSTALLING).exists():
            return None
        stamp = msgspec.json.decode(file.read_bytes(), type=Stamp)
        return stamp if _signature(folder, stamp.names, limits) == stamp.signature else None
    except (OSError, SnapshotError, msgspec.DecodeError):
        return None


def write_stamp(
    state: Path, folder: Path, names: Iterable[str], limits: ContentLimits, looked_at: int
) -> None:
    """Note that a folder was what its lock says at a time, in ns, unless it changed just before or since."""
    file, draft = _file(state, folder), _file(state, folder).with_suffix(f".{os.getpid()}")
    try:
        stamp = Stamp(sorted(names), _signature(folder, sorted(names), limits, before=looked_at - _TICK))
        if stamp.signature:
            make_own(file.parent)
            draft.write_bytes(msgspec.json.encode(stamp))
            draft.replace(file)
    except (OSError, SnapshotError):
        draft.unlink(missing_ok=True)


def _file(state: Path, folder: Path) -> Path:
    return state / "synced" / f"{key_of(folder)}.json"


def _signature(folder: Path, names: Iterable[str], limits: ContentLimits, before: int | None = None) -> str:
    """Return what differs when the lock or a skill does; empty for what changed after a time."""
    lock = (folder / _LOCK).lstat()
    newest, parts = lock.st_ctime_ns, [repr((lock.st_ino, lock.st_size, lock.st_mtime_ns, lock.st_ctime_ns))]
    for name in names:
        members = list_contents(folder / name, limits)
        file = folder / name / _MANIFEST  # no member of the skill
        manifest = file.lstat().st_ctime_ns if os.path.lexists(file) else 0
        newest = max([newest, manifest, *(each.status.st_ctime_ns for each in members)])
        parts.append(f"{name} {(folder / name).is_symlink()} {manifest} {signature_of(members)}")
    if before is not None and newest > before:
        return ""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
