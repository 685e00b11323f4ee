"""What is in a folder, and what changed in it since: for a folder that a run itself writes in.

    before = seen(folder)
    ...                                   # a run
    changes_since(folder, before)         # records as `layer.changes` returns them

It is a copy. What changes in the tick of the file system's clock in which it was seen may
look as before: a run begins in a later tick.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from math import inf
from operator import attrgetter
from pathlib import Path

from skills_agent.sandbox.layer import (
    MAX_DEPTH,
    ChangeList,
    closed_after,
    is_same,
    not_compared,
    opened,
    too_much,
)
from skills_agent.sandbox.plan import Folders
from skills_agent.skills.confined import opened_folder
from skills_agent.skills.posix import FOLDER
from skills_agent.skills.scripts.changes import Change

telling = attrgetter("st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
"""Returns of what `lstat` says what tells whether a path changed."""
_Opens = Callable[[str, int, os.stat_result], AbstractContextManager[int | None]]


def seen(folder: Path, *, skipped: Collection[str] = (), most: float = inf) -> dict[str, os.stat_result]:
    """Return what `lstat` says of each path in a folder; paths are as in `Change`.

    Nothing is reached through a link. Left out are `skipped` paths and what is in them, what is in folders
    that this user may not list or that lie deeper than `MAX_DEPTH`, and what vanishes meanwhile. 20,000 files
    take 0.1 s. Raises OSError where the folder itself cannot be listed, OverflowError for more than `most`.
    """
    found: dict[str, os.stat_result] = {}
    with opened_folder(folder) as top:
        _add(found, "", top, frozenset(skipped), partial(_opened_before, found=found, most=most))
    return found


def changes_since(
    folder: Path,
    before: Mapping[str, os.stat_result],
    *,
    skipped: Collection[str] = (),
    original: Path,
) -> list[Change]:
    """Return what is another thing than when it was `seen`, as `layer.changes` does, with its limits.

    `original`: what the folder is a copy of. A file that was touched, with the bytes and bits that it has
    there, is no change. This user gets the rights that a run took away.

    Raises ScriptError for more of a copy than can be looked at, and for what cannot be read.
    """
    found = ChangeList()
    now: dict[str, os.stat_result] = {}
    try:
        with opened_folder(folder) as top:
            _add(now, "", top, frozenset(skipped), _opened_after)
        for path in before.keys() - now.keys():
            above = now.get(path.rpartition("/")[0])
            if "/" not in path or (above and stat.S_ISDIR(above.st_mode)):
                found.remove(path, before[path])
        with closing(Folders(folder)) as folders, closing(Folders(original)) as originals:
            for path, status in now.items():
                was = before.get(path)
                if is_touched(was and telling(was), status):
                    _compare(found, path, was, status, folders, originals)
    except OSError as error:
        raise not_compared(original, error) from error
    # Of one path, what was removed stays before what came there.
    return sorted(found.changes, key=lambda change: change.path.split("/"))


def _add(
    found: dict[str, os.stat_result], above: str, folder: int, skipped: Collection[str], opens: _Opens
) -> None:
    """Add what is in an open folder; `opens` yields the descriptor of one in it, or None to leave it out."""
    inner: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{above}{entry.name}"
            if path in skipped:
                continue
            with suppress(FileNotFoundError):
                found[path] = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found[path].st_mode):
                    inner.append(path)
    for path in inner:
        with opens(path, folder, found[path]) as descriptor:
            if descriptor is not None:
                _add(found, f"{path}/", descriptor, skipped, opens)


@contextmanager
def _opened_before(
    path: str,
    folder: int,
    status: os.stat_result,  # noqa: ARG001 - as `_opened_after`
    *,
    found: Collection[str],
    most: float,
) -> Iterator[int | None]:
    if len(found) > most:
        raise OverflowError
    descriptor = None
    with suppress(OSError):
        if path.count("/") < MAX_DEPTH - 1:
            descriptor = os.open(path.rpartition("/")[2], FOLDER, dir_fd=folder)
    with closed_after(descriptor):
        yield descriptor


@contextmanager
def _opened_after(path: str, folder: int, status: os.stat_result) -> Iterator[int | None]:
    with opened(path.rpartition("/")[2], folder, status) as descriptor:
        is_deepest = path.count("/") >= MAX_DEPTH - 1
        if is_deepest and os.listdir(descriptor):  # noqa: PTH208 - by its descriptor
            raise too_much(f"more than {MAX_DEPTH} folders in one another")
        yield None if is_deepest else descriptor


def is_touched(before: tuple[int, ...] | None, now: os.stat_result) -> bool:
    """Return whether it may be another thing, by what tells; a folder or FIFO is what its mode says."""
    if before is None or before[0] != now.st_mode:
        return True
    return (stat.S_ISREG(now.st_mode) or stat.S_ISLNK(now.st_mode)) and before != telling(now)


def _compare(
    found: ChangeList,
    path: str,
    before: os.stat_result | None,
    now: os.stat_result,
    folders: Folders,
    originals: Folders,
) -> None:
    """Add a change, if it is one. Raises OSError for what cannot be read."""
    if before and stat.S_IFMT(before.st_mode) != stat.S_IFMT(now.st_mode):
        found.remove(path, before)
        before = None
    change = found.is_now(path, "changed" if before else "added", now, folders.entry(path).folder)
    beside = originals.find(path) if before else None
    if not (before and beside and is_same(change, before, beside.folder)):
        found.add(change)
