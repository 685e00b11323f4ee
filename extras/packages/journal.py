"""What was decided about a folder of skills and is not done yet: a file in the state folder of the user.

It is not in the folder of skills itself, which a repository can bring: nothing that lies there, a plan or a
copy, makes this program install or remove anything. A decision names its draft by the inode, too, and every
copy by its digest.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from skills_agent.packages.errors import PackageError
from skills_agent.skills.confined import opened_folder, sync_folder


class Put(msgspec.Struct, frozen=True):
    """One skill that is put in place, or removed."""

    digest: str
    """Of its copy; empty for a removal."""
    before: str
    """What is there now, as `Target.found` says it."""


class Decision(msgspec.Struct, frozen=True):
    """What is to be done with the copies of one draft."""

    draft: str
    """The name of its folder."""
    inode: int
    put: Mapping[str, Put]
    """By name."""
    lock: str
    """SHA-256 of the new skills.lock in the draft; empty where that stays as it is."""


def journal_of(state: Path, folder: Path) -> Path:
    """Return the file in this user's state folder that has the decision about a folder of skills."""
    return state / "installing" / f"{key_of(folder)}.json"


def read_decision(file: Path) -> Decision | None:
    """Return what was decided and is not done yet. Raises OSError and PackageError."""
    try:
        raw = file.read_bytes()
        return msgspec.json.decode(raw, type=Decision) if is_own(file.parent) else None
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise PackageError(
            f"Nothing can be installed: {file}, which says what is half done, cannot be read; remove it."
        ) from error


def write_decision(file: Path, decision: Decision) -> None:
    """Keep a decision: from here on it will be done. Raises OSError, and then nothing is decided."""
    make_own(file.parent)
    draft = file.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(decision))
    draft.replace(file)


def clear_decision(file: Path) -> None:
    """Note that all is done, or that nothing was decided."""
    file.unlink(missing_ok=True)
    file.with_suffix(".new").unlink(missing_ok=True)


def key_of(folder: Path) -> str:
    """Return a name for what is kept about a folder of skills elsewhere."""
    return hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:32]


def sync(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    with opened_folder(folder) as descriptor:
        sync_folder(descriptor)


def make_own(folder: Path) -> None:
    """Make a folder of this user alone. Raises OSError, also where others can write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own(folder):
        raise PermissionError(1, f"{folder} is not this user's alone")


def is_own(folder: Path) -> bool:
    """Return whether a folder is this user's, and nobody else may write to it. Raises OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
