"""Folders that somebody else filled, opened and looked through: nothing is reached through a link."""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from skills_agent.skills.confined import open_folder_beneath
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.posix import FILE, FOLDER
from skills_agent.skills.trees import give_rights

MAX_DEPTH: Final = 200
"""Folders in one another that are looked at."""
NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is said of a path on whose way something is no folder."""
AS_IT_IS: Final = os.stat_result((stat.S_IFDIR | stat.S_IRWXU, *[0] * 9))
"""For `open_with_rights`: a folder whose rights stay as they are."""
D = TypeVar("D", bound=int | None)


@contextmanager
def closed_after(descriptor: D) -> Iterator[D]:
    """Yield a descriptor, if there is one, and close it when the block ends."""
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def open_with_rights(name: str, folder: int, status: os.stat_result) -> int:
    """Open a file or folder to read it, after this user got the rights to. Raises OSError."""
    is_folder = stat.S_ISDIR(status.st_mode)
    needed = stat.S_IRUSR | (stat.S_IXUSR if is_folder else 0)
    is_given = status.st_mode & needed != needed and status.st_uid == os.geteuid() != 0
    if is_given and is_folder:
        give_rights(folder, name)
    elif is_given and not hasattr(os, "O_PATH"):  # macOS, where this follows no link; Linux has no such call
        os.chmod(name, stat.S_IMODE(status.st_mode) | needed, dir_fd=folder, follow_symlinks=False)
    elif is_given:
        with closed_after(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)) as file:
            Path(f"/proc/self/fd/{file}").chmod(stat.S_IMODE(status.st_mode) | needed)
    return os.open(name, FOLDER if is_folder else FILE, dir_fd=folder)


class Entry(NamedTuple):
    """A name in an open folder."""

    folder: int
    name: str

    def status(self) -> os.stat_result | None:
        """Return what is there, if something is."""
        try:
            return os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None

    def rename(self, target: "Entry") -> None:
        """Rename it, over what is there."""
        os.rename(self.name, target.name, src_dir_fd=self.folder, dst_dir_fd=target.folder)


class Folders:
    """The folders beneath one, which is no link; opened part by part, and the last one stays open."""

    def __init__(self, root: Path) -> None:
        self._root, self._path, self._descriptor = root, "", os.open(root, FOLDER)

    def entry(self, path: str) -> Entry:
        """Return a path as a name in its folder. Raises OSError where that cannot be opened."""
        above, _, name = path.rpartition("/")
        if above != self._path:
            descriptor = open_folder_beneath(self._root, above)
            self.close()
            self._path, self._descriptor = above, descriptor
        return Entry(self._descriptor, name or ".")

    def find(self, path: str) -> Entry | None:
        """Return the same, None where there is no such folder."""
        try:
            return self.entry(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def close(self) -> None:
        """Close the last one."""
        os.close(self._descriptor)


class Seen(NamedTuple):
    """What `lstat` says of a path, as far as it tells whether it changed: its names are those of that."""

    st_mode: int
    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    """No program can set it; what changes in the tick of the file system's clock may look as before."""


telling = attrgetter(*Seen._fields)
"""Returns of what `lstat` says the values of `Seen`."""


def is_touched(before: Seen | None, now: os.stat_result) -> bool:
    """Return whether it may be another thing, by what tells; a folder or FIFO is what its mode says."""
    if before is None or before.st_mode != now.st_mode:
        return True
    return (stat.S_ISREG(now.st_mode) or stat.S_ISLNK(now.st_mode)) and before != telling(now)


class Listing(NamedTuple):
    """What is in one folder; paths are as in `Change`."""

    path: str
    """Empty for the folder that is scanned."""
    folder: int
    """Its descriptor, open until the next listing is asked for."""
    inner: dict[str, os.stat_result]


def scan(
    root: Path,
    *,
    skipped: Collection[str] = (),
    enters: Callable[[str, os.stat_result], os.stat_result | None] = lambda *_: AS_IT_IS,
    is_strict: bool = False,
) -> Iterator[Listing]:
    """Yield what is in a folder and in those beneath it, the nearest to the top first.

    Left out are `skipped` paths, what is in them, and what vanishes meanwhile. `enters` returns of a folder
    the status for `open_with_rights`, None to leave out what is in it; so is that of one which cannot be
    listed, or lies deeper than `MAX_DEPTH`, unless `is_strict`: then it raises OSError and ScriptError. It
    raises OSError where the folder itself cannot be listed.
    """
    waiting = [("", AS_IT_IS)]
    with closing(Folders(root)) as folders:
        for path, status in waiting:
            if not (rights := enters(path, status) if path else status):
                continue
            try:
                above, name = folders.entry(path)
                with closed_after(open_with_rights(name, above, rights)) as folder:
                    listing = _listed(path, folder, skipped)
                    if path.count("/") < MAX_DEPTH - 1:
                        yield listing
                        found = listing.inner.items()
                        waiting += [(each, now) for each, now in found if stat.S_ISDIR(now.st_mode)]
                    elif is_strict and listing.inner:
                        raise too_much(f"more than {MAX_DEPTH} folders in one another")
            except OSError:
                if is_strict or not path:
                    raise


def _listed(path: str, folder: int, skipped: Collection[str]) -> Listing:
    listing = Listing(path, folder, {})
    top = f"{path}/" if path else ""
    with os.scandir(folder) as entries:
        for entry in entries:
            if (here := f"{top}{entry.name}") in skipped:
                continue
            try:
                listing.inner[here] = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # somebody removes it just now
                continue
    return listing


def statuses(folder: Path, *, skipped: Collection[str] = (), most: float = inf) -> dict[str, os.stat_result]:
    """Return what `lstat` says of each path that a scan finds. 20,000 files take 0.1 s.

    Raises OSError where the folder itself cannot be listed, OverflowError for more than `most`.
    """
    found: dict[str, os.stat_result] = {}
    for listing in scan(folder, skipped=skipped):
        found |= listing.inner
        if len(found) > most:
            raise OverflowError
    return found


def too_much(what: str) -> ScriptError:
    """Return the error of a look that finds more than it can look at."""
    return ScriptError(
        f"What the run wrote cannot be looked at: it made {what}. Have it make less at a time."
    )
