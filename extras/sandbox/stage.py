"""Stage the new files of a plan: lay them ready on the file system of the folder that they will come to."""

import ctypes
import os
import stat
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from skills_agent.sandbox.draft import BITS, Draft
from skills_agent.sandbox.layer import digest_of
from skills_agent.sandbox.scan import Entry, Folders, closed_after
from skills_agent.skills.confined import ConfinedError, opened_folder, sync_folder
from skills_agent.skills.posix import FILE, NEW_FILE
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.scripts.environment import is_root

_PIECE: Final = 1 << 20
_MANY: Final = 16
"""Of so many files, all that waits for the disk is written at once: each fsync of its own takes 1 ms."""


def stage(draft: Draft, content: Path, new: Path) -> None:
    """Lay the new files ready in a folder, by the numbers of their steps, and put them on the disk.

    Raises OSError.
    """
    with closing(Folders(content)) as folders, opened_folder(new) as folder:
        for number, (change, before) in draft.puts.items():
            staged = Entry(folder, str(number))
            _bring(folders.entry(change.path), staged, change.mode)
            if not _is_made_right(staged, change, before, is_synced=len(draft.puts) <= _MANY):
                raise ConfinedError(change.path, "is not what it was when somebody looked at it")
        sync_folder(folder)
    if len(draft.puts) > _MANY:
        sync_file_system(new)


def _bring(source: Entry, staged: Entry, mode: int) -> None:
    """Lay a file of the layer ready, by a link: so the layer keeps it, and nothing is copied.

    One that has another name, too, is copied, because a script may hold that; so is one that nobody may read,
    because the layer is to be read again, and one on another disk.
    """
    status = os.lstat(source.name, dir_fd=source.folder)
    if status.st_nlink == 1 and (stat.S_ISLNK(status.st_mode) or mode & stat.S_IRUSR):
        folders = {"src_dir_fd": source.folder, "dst_dir_fd": staged.folder}
        with suppress(OSError, NotImplementedError):
            os.link(source.name, staged.name, **folders, follow_symlinks=False)
            return
    copy_entry(source, staged, status)


def _is_made_right(staged: Entry, change: Change, before: os.stat_result | None, *, is_synced: bool) -> bool:
    """Give a file its mode, and the owner of the one that it replaces, if it has the bytes of the change."""
    if change.kind == "link":
        is_link = stat.S_ISLNK(os.lstat(staged.name, dir_fd=staged.folder).st_mode)
        return is_link and os.readlink(staged.name, dir_fd=staged.folder) == change.target
    with closed_after(os.open(staged.name, FILE, dir_fd=staged.folder)) as file:
        if not stat.S_ISREG(os.fstat(file).st_mode) or digest_of(file) != change.digest:
            return False
        # With an owner, also with its own, the kernel takes off what it may do beyond its user.
        set_owner(file, *((before.st_uid, before.st_gid) if before else (-1, -1)))
        os.fchmod(file, change.mode & BITS)
        if is_synced:
            os.fsync(file)
    return True


def copy_entry(source: Entry, target: Entry, status: os.stat_result) -> None:
    """Copy a file or a link, of which `lstat` says this, with its mode, owner and time. Raises OSError.

    By reference where the file system can; of a file that grows meanwhile what it had.
    """
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source.name, dir_fd=source.folder), target.name, dir_fd=target.folder)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(target.name, ns=times, dir_fd=target.folder, follow_symlinks=False)
        return
    with closed_after(os.open(source.name, FILE, dir_fd=source.folder)) as reading:
        if (clone := fclonefileat()) and not clone(reading, target.folder, os.fsencode(target.name), 0):
            return
        with closed_after(os.open(target.name, NEW_FILE, 0o600, dir_fd=target.folder)) as writing:
            _copy_bytes(reading, writing, status.st_size or _PIECE)  # some file systems say 0
            make_alike(writing, status)


def _copy_bytes(reading: int, writing: int, most: int) -> None:
    with suppress(OSError, AttributeError):  # not from every file system to every other, and not on macOS
        while most > 0 and (size := os.copy_file_range(reading, writing, min(most, _PIECE))):
            most -= size
    while most > 0 and (piece := os.read(reading, min(most, _PIECE))):
        most -= len(piece)
        while piece:
            piece = piece[os.write(writing, piece) :]


def make_alike(copy: int, status: os.stat_result) -> None:
    """Give a copy the owner, the mode and the time of what it is a copy of."""
    set_owner(copy, status.st_uid if is_root() else -1, status.st_gid)
    os.fchmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def set_owner(file: int, owner: int, group: int) -> None:
    """Give a file an owner, as far as this user may; -1 for the one that it has."""
    with suppress(PermissionError):
        os.fchown(file, owner, group)


@lru_cache(maxsize=1)
def fclonefileat() -> Any:
    """Return what clones a file on macOS; None elsewhere, where copying clones where it can."""
    return getattr(ctypes.CDLL(None), "fclonefileat", None)


def sync_file_system(folder: Path) -> None:
    """Put all that was written to the file system of a folder on the disk: 200 files take 5 ms, not 200."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # macOS
        os.sync()
        return
    with opened_folder(folder) as descriptor:
        if libc.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "cannot be put on the disk", os.fspath(folder))
