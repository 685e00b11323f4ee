"""Folders that somebody else filled: looked through, and removed, however deep they are.

The standard library's functions call themselves for each level (`shutil.rmtree`; `os.walk` before 3.12):
a thousand folders in one another end them.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from skills_agent.skills.confined import opened_folder
from skills_agent.skills.posix import FOLDER


def walk(
    top: str | os.PathLike[str], onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what `os.walk` does from the top down: a folder, the folders and the files in it."""
    folders = [os.fspath(top)]
    while folders:
        path = folders.pop()
        inner: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    (inner if _is_folder(entry) else names).append(entry.name)
        except OSError as error:
            if onerror:
                onerror(error)
            continue
        yield path, inner, names
        below = [f"{path.rstrip('/')}/{name}" for name in reversed(inner)]
        folders += [each for each in below if not os.path.islink(each)]  # noqa: PTH114


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False


def give_rights(above: int, name: str) -> None:
    """Give this user the rights that a script took away from a folder: to look into it, and to move it."""
    status = os.lstat(name, dir_fd=above)
    mode = stat.S_IMODE(status.st_mode) | stat.S_IRWXU
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder or status.st_uid != os.geteuid() or mode == stat.S_IMODE(status.st_mode):
        return
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, dir_fd=above, follow_symlinks=False)  # Linux cannot
        return
    folder = os.open(name, os.O_PATH | FOLDER, dir_fd=above)
    try:
        Path(f"/proc/self/fd/{folder}").chmod(mode)
    finally:
        os.close(folder)


def open_up(folder: str) -> None:
    """Give this user the rights to a folder; a link is left as it is. Raises OSError."""
    with opened_folder(os.path.dirname(folder), getattr(os, "O_PATH", 0) | FOLDER) as above:  # noqa: PTH120
        give_rights(above, os.path.basename(folder))  # noqa: PTH119


def empty(folder: Path) -> None:
    """Remove what is in a folder, as far as that is possible. Raises OSError: what is left, or a link."""
    open_up(str(folder))
    with opened_folder(folder) as top:
        _empty(top)


def remove_tree(folder: Path) -> None:
    """Remove a folder, as far as that is possible."""
    with suppress(OSError):
        empty(folder)
        folder.rmdir()


def _empty(top: int) -> None:
    """Bring each folder up to the top before it is emptied: no path is too long, and two folders are open."""
    failure: OSError | None = None
    left = os.listdir(top)
    while left:
        name = left.pop()
        try:
            if _is_unlinked(name, top):
                continue
            give_rights(top, name)
            folder = os.open(name, FOLDER, dir_fd=top)
            try:
                for inner in os.listdir(folder):  # noqa: PTH208 - by its descriptor
                    if not _is_unlinked(inner, folder):
                        give_rights(folder, inner)  # without them it is not moved
                        left.append(f".removed-{token_hex(8)}")
                        os.rename(inner, left[-1], src_dir_fd=folder, dst_dir_fd=top)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
        except OSError as error:
            failure = error
    if failure:
        raise failure


def _is_unlinked(name: str, folder: int) -> bool:
    """Remove what is no folder; return whether it was none."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True
