"""Open files beneath a folder, and only there, even while someone swaps links on the way.

    OSError
    ├── FileNotFoundError, PermissionError, ...   as the operating system says
    └── ConfinedError (a SkillsAgentError, too): refused whatever the operating system would say
        │                      a link, or what is no folder, on the way; a folder, FIFO, socket or device
        └── OutsideRootError   absolute, `..`, NUL, or a link that leads out of the folder

A check by path followed by an open leaks under a link-swap race: `resolve()` and `is_relative_to`
gave the wrong file in 135 of 33,921 tries. So every part of a path is opened relative to the one before, and
no link is followed on the way. A link that stays inside is resolved first; then the real path is opened the
same way. (openat2 with RESOLVE_BENEATH is as safe, and no faster in a discovery of 1,000 skills.)
"""

import errno
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.posix import FILE, FILE_OR_LINK, FOLDER, FOLDER_OR_LINK

_PASSED: Final = FOLDER | getattr(os, "O_PATH", 0)
"""For a folder on the way, which is neither listed nor read."""
_LINK_REFUSED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
"""What O_NOFOLLOW answers for a link: ELOOP on a file, ENOTDIR together with O_DIRECTORY."""
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
"""What a file system answers that cannot sync a folder, as some over a network: it does so by itself."""
_PIECE: Final = 1 << 20
"""Bytes of one read: a sparse file of gigabytes with a small limit costs a small read."""


class ConfinedError(OSError, SkillsAgentError):
    reason: str = "is not a regular file"

    def __init__(self, path: str, reason: str = "") -> None:
        self.path, self.reason = path, reason or self.reason
        super().__init__(errno.EACCES, self.reason, path)
        SkillsAgentError.__init__(self, errno.EACCES, self.reason)  # which OSError does not call

    def __str__(self) -> str:
        return f"{self.path} {self.reason}."


class OutsideRootError(ConfinedError):
    reason = "leads out of its folder"


def parts_of(relative: str) -> tuple[str, ...]:
    """Split a relative path (`/` between parts) into its parts.

    Raises OutsideRootError for every way out by its text: it is absolute, or has a `..` or a NUL in it.
    """
    if "\0" in relative or relative.startswith("/"):
        raise OutsideRootError(relative)
    parts = relative.split("/")
    if ".." in parts:
        raise OutsideRootError(relative)
    return tuple([part for part in parts if part and part != "."])


def open_beneath(root: Path, relative: str, *, follow: bool = True) -> int:
    """Open a regular file beneath `root` for reading and return its descriptor; the caller closes it.

    Links are followed only to places beneath `root`, or not at all (`follow=False`). Never blocks: a FIFO
    is refused, not waited for.

    Raises OutsideRootError, ConfinedError for no regular file, or what the operating system says.
    """
    descriptor = _open(root, relative, follow=follow)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfinedError(relative)
    return descriptor


def open_folder_beneath(root: Path, relative: str) -> int:
    """Open a folder beneath `root`, following no link, and return its descriptor; the caller closes it.

    Raises OutsideRootError for the text of the path, or what the operating system says.
    """
    return _open_at(os.fspath(root), parts_of(relative), FOLDER_OR_LINK)


@contextmanager
def opened_folder(folder: str | os.PathLike[str], how: int = FOLDER) -> Iterator[int]:
    """Yield the descriptor of a folder, by default of one that is no link. Raises OSError."""
    descriptor = os.open(folder, how)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def held_open(folder: Path) -> Iterator[Path]:
    """Yield a path to what a folder is now, whatever is put in its place meanwhile. May raise OSError.

    Where the system names open folders by no path (macOS), it is the folder's own.
    """
    with opened_folder(folder, FOLDER_OR_LINK) as descriptor:
        held = f"/proc/self/fd/{descriptor}"
        yield Path(held) if os.path.isdir(held) else folder  # noqa: PTH112 - a text


def make_folder_beneath(root: Path, relative: str, mode: int = 0o777) -> int:
    """Open a folder beneath `root` as `open_folder_beneath` does, with what is missing made on the way.

    `mode` is that of the last part. What was made is on the disk when it is returned.
    """
    *folders, last = parts_of(relative) or (".",)
    descriptor = os.open(root, FOLDER_OR_LINK)
    for name in (*folders, last):
        try:
            with suppress(FileExistsError):
                os.mkdir(name, mode if name is last else 0o777, dir_fd=descriptor)
                sync_folder(descriptor)
            inner = os.open(name, FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def sync_folder(descriptor: int) -> None:
    """Put the names in a folder on the disk: a file that was made or renamed may be lost with them."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def link_error(error: OSError, path: Path) -> OSError:
    """Return what says in one sentence that a path has a link on its way, if that is the error."""
    if error.errno not in _LINK_REFUSED:
        return error
    return ConfinedError(str(path), "is reached by a link, or by what is no folder")


def read_beneath(root: Path, relative: str, limit: int, *, follow: bool = True) -> bytes:
    """Read the first `limit` bytes of a regular file beneath `root`; like `open_beneath` in all else."""
    pieces = []
    with FileIO(open_beneath(root, relative, follow=follow)) as file:
        while piece := file.read(min(limit, _PIECE)):
            pieces.append(piece)
            limit -= len(piece)
    return b"".join(pieces)


def read_at_most(root: Path, relative: str, most: int, *, follow: bool = True) -> bytes:
    """Read a file as `read_beneath` does, and raise OSError for one of more than `most` bytes."""
    raw = read_beneath(root, relative, most + 1, follow=follow)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return raw


def is_beneath(root: Path, path: Path) -> bool:
    """Return whether `path`, links resolved, is `root` or beneath it: for listings, not before an open."""
    return is_in(os.path.realpath(path), os.path.realpath(root))


def is_in(path: str, root: str) -> bool:
    """Return whether a path is a folder, or in it, as both are written."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are in no other one of them."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda path: Path(path).parts):  # what is in one comes right behind it
        if not kept or not is_in(path, kept[-1]):
            kept.append(path)
    return kept


def _open(root: Path, relative: str, *, follow: bool) -> int:
    parts = parts_of(relative)
    if not parts:
        raise ConfinedError(relative)
    try:
        try:
            return _open_at(os.fspath(root), parts, FILE)
        except OSError as error:
            if error.errno not in _LINK_REFUSED or not follow:
                raise
        return _open_at(*_resolve(root, parts), FILE)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENODEV}:  # a socket, or a device without a driver
            raise ConfinedError(relative) from error
        raise


def _open_at(root: str, parts: tuple[str, ...], flags: int) -> int:
    """Open every part relative to the one before; no link is followed but in `root` itself."""
    flags |= os.O_NOFOLLOW  # which is about the last part of a path: what is before it is `root`
    *folders, last = parts or (".",)
    if not folders:
        return os.open(f"{root}/{last}", flags)
    descriptor = os.open(f"{root}/{folders[0]}", _PASSED)
    try:
        for name in folders[1:]:
            outer, descriptor = descriptor, os.open(name, _PASSED, dir_fd=descriptor)
            os.close(outer)
        return os.open(last, flags, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _resolve(root: Path, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, *parts))  # noqa: PTH118 - strings, as realpath gives them
    inside = real_root.rstrip(os.sep) + os.sep
    if not real.startswith(inside):
        raise OutsideRootError("/".join(parts))
    return real_root, Path(real.removeprefix(inside)).parts


def write_own_file(path: Path, content: bytes) -> None:
    """Write a file of this user alone, whole or not at all, and make its folder. Raises OSError."""
    draft = path.with_name(f".{os.urandom(8).hex()}{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft.touch(mode=0o600, exist_ok=False)
    draft.write_bytes(content)
    draft.replace(path)


def read_own_file(
    path: Path, most: int = -1, *, secret: bool = False, or_root: bool = False, follow: bool = True
) -> bytes:
    """Read a file that nobody but this user can write, of at most so many bytes (-1: any).

    With `secret`, nobody else can read it, either; with `or_root` it may be root's; without `follow` it is
    no link. Raises OSError, whose `strerror` says what is wrong and, where others have a right too many, how
    to repair it.
    """
    refused, rights, use = (0o077, "rwx", "read or write") if secret else (0o022, "w", "write")
    with FileIO(os.open(path, FILE_OR_LINK if follow else FILE)) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if facts.st_uid not in ({os.geteuid(), 0} if or_root else {os.geteuid()}):
            raise PermissionError(errno.EPERM, "it belongs to another user")
        if facts.st_mode & refused:
            command = shlex.join(["chmod", f"go-{rights}", str(path)])
            raise PermissionError(errno.EPERM, f"other users can {use} it; to change that: {command}")
        if 0 <= most < facts.st_size:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
        return file.read(most) or b""
