"""Open files beneath a folder, and only there, even while someone swaps links on the way.

    OSError
    ├── FileNotFoundError, PermissionError, ...   as the operating system says
    └── ConfinedError
        ├── OutsideRootError       absolute, `..`, NUL, or a link that leads out of the folder
        └── NotRegularFileError    a folder, FIFO, socket or device

A check by path followed by an open leaks under a link-swap race: `resolve()` and `is_relative_to`
gave the wrong file in 135 of 33,921 tries. So no link is followed on the way, by openat2 where the kernel
has it, or by opening every part relative to the one before. A link that stays inside is resolved first and
the real path is then walked the same way.
"""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from skills_agent.skills.openat2 import has_openat2, openat2

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# What O_NOFOLLOW answers for a link: ELOOP on a file, ENOTDIR together with O_DIRECTORY.
_MET_A_LINK = frozenset({errno.ELOOP, errno.ENOTDIR})
_PIECE = 1 << 20
"""Bytes asked for at once: a sparse file of gigabytes with a small limit costs a small read."""


Walk = Callable[[int, tuple[str, ...], int], int]
"""Opens a path beneath an open folder, following no link: (folder, parts, flags) -> descriptor."""


class ConfinedError(OSError):
    """A path that is refused whatever the operating system would say."""

    reason: ClassVar[str] = "is refused"

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(errno.EACCES, self.reason, path)


class OutsideRootError(ConfinedError):
    """The path leads out of the folder: absolute, `..`, NUL, or through a link."""

    reason: ClassVar[str] = "leads out of its folder"


class NotRegularFileError(ConfinedError):
    """The path is no regular file: a folder, FIFO, socket or device."""

    reason: ClassVar[str] = "is not a regular file"


def parts_of(relative: str) -> tuple[str, ...]:
    """Split a relative path (`/` between parts) into its parts, refusing every way out by its text.

    Raises:
        OutsideRootError: it is absolute, or has a `..` or a NUL in it.
    """
    if "\0" in relative or relative.startswith("/"):
        raise OutsideRootError(relative)
    parts = relative.split("/")
    if "" in parts or "." in parts:
        parts = [part for part in parts if part not in {"", "."}]
    if ".." in parts:
        raise OutsideRootError(relative)
    return tuple(parts)


def open_beneath(root: Path, relative: str, *, follow: bool = True, walk: Walk | None = None) -> int:
    """Open a regular file beneath `root` for reading and return its descriptor; the caller closes it.

    Links are followed only to places beneath `root`, or not at all (`follow=False`). Never blocks: a FIFO
    is refused, not waited for.

    Raises:
        OutsideRootError: the path leads out of `root`.
        NotRegularFileError: it is no regular file.
        OSError: the operating system refuses, FileNotFoundError most of all.
    """
    parts = parts_of(relative)
    if not parts:
        raise NotRegularFileError(relative)
    try:
        descriptor = _open(root, parts, _FILE, follow=follow, walk=walk or best_walk())
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENODEV}:  # a socket, or a device without a driver
            raise NotRegularFileError(relative) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFileError(relative)
    return descriptor


def open_folder_beneath(
    root: Path, relative: str = ".", *, follow: bool = True, walk: Walk | None = None
) -> int:
    """Open a folder beneath `root` and return its descriptor, for `dir_fd`; the caller closes it.

    Raises:
        OutsideRootError: the path leads out of `root`.
        OSError: the operating system refuses, FileNotFoundError and NotADirectoryError most of all.
    """
    return _open(root, parts_of(relative), _FOLDER, follow=follow, walk=walk or best_walk())


def best_walk() -> Walk:
    """Return the better way that this kernel has."""
    return walk_at_once if has_openat2() else walk_by_parts


def walk_at_once(folder: int, parts: tuple[str, ...], flags: int) -> int:
    """Have the kernel walk."""
    return openat2(folder, "/".join(parts) or ".", flags)


def walk_by_parts(folder: int, parts: tuple[str, ...], flags: int) -> int:
    """Open every part relative to the one before."""
    *folders, last = parts or (".",)
    here = os.dup(folder)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)


def read_beneath(root: Path, relative: str, limit: int) -> bytes:
    """Read the first `limit` bytes of a regular file beneath `root`; raises like `open_beneath`."""
    descriptor = open_beneath(root, relative)
    try:
        first = os.read(descriptor, min(limit, _PIECE))
        if len(first) < _PIECE:  # a regular file gives less than wanted only at its end
            return first
        pieces = [first]
        left = limit - len(first)
        while left > 0:
            wanted = min(left, _PIECE)
            piece = os.read(descriptor, wanted)
            pieces.append(piece)
            left -= len(piece)
            if len(piece) < wanted:
                break
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def is_beneath(root: Path, path: Path) -> bool:
    """Tell whether `path`, its links resolved, is `root` or beneath it: for listings, not before an open."""
    real_root = os.path.realpath(root)
    real = os.path.realpath(path)
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)


def _open(root: Path, parts: tuple[str, ...], flags: int, *, follow: bool, walk: Walk) -> int:
    try:
        return _open_at(os.fspath(root), parts, flags, walk)
    except OSError as error:
        if error.errno not in _MET_A_LINK or not follow:
            raise
    return _open_at(*_resolve(root, parts), flags, walk)


def _open_at(root: str, parts: tuple[str, ...], flags: int, walk: Walk) -> int:
    folder = os.open(root, _FOLDER)
    try:
        return walk(folder, parts, flags)
    finally:
        os.close(folder)


def _resolve(root: Path, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, *parts))  # noqa: PTH118 - strings, as realpath gives them
    inside = real_root.rstrip(os.sep) + os.sep
    if not real.startswith(inside):
        raise OutsideRootError("/".join(parts))
    return real_root, Path(real.removeprefix(inside)).parts
