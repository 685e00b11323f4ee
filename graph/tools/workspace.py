"""The folder that the file tools work in, and no other: every path is walked beneath its root."""

import os
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from langchain_core.tools import ToolException

from skills_agent.skills.confined import (
    ConfinedError,
    OutsideRootError,
    make_folder_beneath,
    open_beneath,
    open_folder_beneath,
    sync_folder,
)
from skills_agent.skills.posix import NEW_FILE
from skills_agent.skills.text import one_line, readable
from skills_agent.skills.trees import walk

OWN_FOLDER = ".agent"
SKILLS_FOLDER = "skills"
LINKED_BY_TOOLS = frozenset({".git", ".venv", "node_modules", "site-packages"})
"""Folders whose files have second names in good faith: package installers and `git clone` link them."""
NOT_SEARCHED = frozenset({"node_modules", "__pycache__"})
MAX_DEPTH = 40
_OWN = f"is in {OWN_FOLDER}, which is closed to tools but for {OWN_FOLDER}/{SKILLS_FOLDER}"
_SECOND_NAME = "has a second name (a hard link), perhaps outside of the workspace; make a copy of it"


class Workspace:
    """Files beneath one root. Links are followed where they stay inside; every refusal is a ToolException.

    The agent's own folder holds settings and checkpoints: only the skills in it are open. A file with a
    second name is closed, because that name may be outside.
    """

    def __init__(self, root: Path, closed: Collection[Path] = ()) -> None:
        """Name the folder; what is in `closed` (absolute, links resolved) is refused, too."""
        self._root = root.resolve()
        self._closed = [Path(str(place).casefold()) for place in closed]
        self.changing = Lock()
        """Held from reading a file to writing it: two calls of one step may edit the same one."""

    def real(self, path: str) -> str:
        """Return a model's path relative to the real root, with its links resolved; the root is `.`.

        An absolute path may lead to a place beneath the root. Raises ToolException for a way out, and for
        the agent's own folder.
        """
        with _refusals(path):
            if "\0" in path:
                raise OutsideRootError(path)
            real = (self._root / os.path.normpath(path or ".")).resolve()
            if not real.is_relative_to(self._root):
                raise OutsideRootError(path)
            inside = real.relative_to(self._root)
            # Some file systems do not tell cases apart.
            first, second = (*(part.casefold() for part in inside.parts[:2]), "", "")[:2]
            if first == OWN_FOLDER and second != SKILLS_FOLDER:
                raise ConfinedError(path, _OWN)
            if self._is_closed(real):
                raise ConfinedError(path, "is where secrets are kept, which is closed to tools")
        return str(inside)

    def _is_closed(self, real: Path) -> bool:
        place = Path(str(real).casefold())
        return any(place.is_relative_to(closed) for closed in self._closed)

    def read(self, path: str, limit: int) -> bytes:
        """Return a file's bytes. Raises ToolException for a file over `limit` bytes."""
        with _refusals(path), self.open(self.real(path)) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise ToolException(
                    f"{path} has {size:,} bytes, over the limit of {limit:,}. "
                    "Search it with grep, or run a script on it."
                )
            return file.read(limit)

    def find(self, path: str, limit: int) -> tuple[bytes, int, int] | None:
        """Return the first `limit` bytes of a file as it is now, its size, and when it changed (kernel, ns).

        None where there is none. Raises ToolException for what cannot be read.
        """
        with _refusals(path):
            try:
                with self.open(self.real(path)) as file:
                    status = os.fstat(file.fileno())
                    return file.read(limit), status.st_size, status.st_ctime_ns
            except FileNotFoundError:
                return None

    def open(self, real: str) -> BinaryIO:
        """Open a regular file by its real path, following no link. Raises OSError."""
        file = os.fdopen(open_beneath(self._root, real, follow=False), "rb")
        if os.fstat(file.fileno()).st_nlink > 1 and LINKED_BY_TOOLS.isdisjoint(real.split("/")):
            file.close()
            raise ConfinedError(real, _SECOND_NAME)
        return file

    def files(self, path: str) -> Iterator[str]:
        """Yield the real path of a file, or of all beneath a folder, in order and without hidden ones.

        Raises ToolException for a path that is not there. Links may be among them: `open` refuses them.
        """
        top = self._root / self.real(path)
        with _refusals(path):
            is_folder = stat.S_ISDIR(top.stat(follow_symlinks=False).st_mode)
        if not is_folder:
            yield str(top.relative_to(self._root))
            return
        for folder, inner, names in walk(top):
            here = Path(folder).relative_to(self._root)
            open_folders = sorted(
                name
                for name in inner
                if name[0] != "." and name not in NOT_SEARCHED and not self._is_closed(Path(folder, name))
            )
            inner[:] = open_folders if len(here.parts) < MAX_DEPTH else []
            yield from (str(here / name) for name in sorted(names) if not name.startswith("."))

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, folders first, with what each is."""
        with _refusals(path):
            descriptor = open_folder_beneath(self._root, self.real(path))
            try:
                with os.scandir(descriptor) as entries:
                    return [_listed(entry) for entry in sorted(entries, key=_place_in_list)]
            finally:
                os.close(descriptor)

    def write(self, path: str, content: bytes) -> bool:
        """Put a file in place whole, with the folders it needs; return whether it is new.

        A reader sees the old content or the new one, never a part, also after a loss of power: the content
        is on the disk before its name is, and both are when this returns. The mode of an old file is kept.
        """
        *folders, name = Path(self.real(path)).parts or ("",)
        with _refusals(path):
            if not name:
                raise IsADirectoryError
            folder = make_folder_beneath(self._root, "/".join(folders))
            try:
                return _replace(folder, name, content)
            finally:
                os.close(folder)


def _replace(folder: int, name: str, content: bytes) -> bool:
    mode = _mode_of(name, folder)
    draft = f".{name[:100]}.{secrets.token_hex(4)}.draft"
    with os.fdopen(os.open(draft, NEW_FILE, 0o666, dir_fd=folder), "wb") as file:
        try:
            file.write(content)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
    sync_folder(folder)
    return mode is None


def _mode_of(name: str, folder: int) -> int | None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise ConfinedError(name)
    return stat.S_IMODE(mode)


def _place_in_list(entry: os.DirEntry[str]) -> tuple[bool, str]:
    return not entry.is_dir(follow_symlinks=False), entry.name


def _listed(entry: os.DirEntry[str]) -> str:
    name = one_line(readable(entry.name))
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    if entry.is_file(follow_symlinks=False):
        return f"{name} ({entry.stat(follow_symlinks=False).st_size:,} bytes)"
    return f"{name} (link)" if entry.is_symlink() else f"{name} (other)"


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolException(_sentence(path, error)) from error


def _sentence(path: str, error: OSError) -> str:
    match error:
        case OutsideRootError():
            return f"{path} leads out of the workspace. Use a path relative to it."
        case ConfinedError():
            return f"{path} {error.reason}."
        case FileNotFoundError():
            return f"There is no {path} in the workspace. list_dir shows what there is."
        case IsADirectoryError():
            return f"{path} is a folder."
        case NotADirectoryError():
            return f"{path} is not in a folder, or is no folder itself."
        case _:
            return f"{path}: {error.strerror or error}."
