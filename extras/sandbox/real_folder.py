"""What is in a folder before a run that works in it, and what changed there since.

Nothing is reached through a link. What is nearest to the top is looked at first: so of a large folder what
lies deepest is left out. Afterwards there is no limit, for a run must not get out of the look by making too
much.
"""

import os
import stat
from collections.abc import Callable, Collection
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.changes import Judge
from skills_agent.sandbox.layer import MAX_DEPTH, ChangeList, is_same, kind_of, opened
from skills_agent.sandbox.obeyed import is_git
from skills_agent.sandbox.plan import Folders
from skills_agent.sandbox.products import above_of
from skills_agent.sandbox.seen import is_touched, telling
from skills_agent.skills.scripts.changes import Act, Change

MAX_ENTRIES: Final = 50_000
"""Files and folders that are looked at before a run: some 0.3 s, and as much after it."""


class Seen(NamedTuple):
    """What `lstat` says of a path, as far as it tells whether it changed."""

    mode: int
    inode: int
    size: int
    modified: int
    changed: int
    """`st_ctime_ns`: no program can set it."""


class Before(NamedTuple):
    """What is known of a real folder from before a run, beside the copies of its files."""

    lower: str
    """The folder, links resolved."""
    label: str
    """The run, for people."""
    allowed: list[str]
    """Paths that a person approved the run to write."""
    elsewhere: dict[str, str]
    """As `judge` takes it."""
    skipped: list[str]
    """What is not looked at: the agent's own, git's, what git's configuration names, and the whole paths that
    the operator protects. A sandbox keeps the run from writing it."""
    paths: dict[str, Seen | None]
    """What was in it; None for a file of packages, which nobody obeys whatever is in it."""
    left_out: list[str]
    """Folders that are not looked at, because there is too much."""


_FILE_OF_PACKAGES: Final = Seen(stat.S_IFREG, 0, 0, 0, 0)
_OPEN: Final = os.stat_result((stat.S_IFDIR | stat.S_IRWXU, *[0] * 9))
"""For a folder whose rights stay as they are."""


def look_before(before: Before, judge: Judge) -> None:
    """Fill in what is in the folder, but for folders that this user cannot list.

    Raises OSError where it cannot be listed itself.
    """
    statuses = _statuses(before, judge.is_free, MAX_ENTRIES)
    gits = {path for path, status in statuses.items() if status and is_git(path)}  # in folders of packages
    before.skipped.extend(gits)
    for path, status in statuses.items():
        if not gits or gits.isdisjoint((*above_of(path), path)):
            before.paths[path] = status and Seen(*telling(status))


def changes_since(before: Before, copies: Path) -> list[Change]:
    """Return what is another thing than before, as `layer.changes` does.

    `copies`: a folder with copies of some files, with which they are compared. Others are not read (they get
    no digest), and count as changed where they were touched. Each path that was removed is a change, but for
    files that nobody obeys. What lies deeper than `MAX_DEPTH`, or cannot be listed, is left out. This user
    gets the rights that a run took away.

    Raises OSError where the folder itself cannot be listed.
    """
    known = before.paths
    found = ChangeList(is_bounded=False)
    now = _statuses(before, lambda path: known.get(path, True) is None, inf)
    for path in known.keys() - now.keys():
        _remove(found, path, known[path])
    with closing(Folders(Path(before.lower))) as folders, closing(Folders(copies)) as beside:
        for path, status in now.items():
            seen = known.get(path, _FILE_OF_PACKAGES if path in known else None)
            if status and is_touched(seen, status):
                _compare(found, path, seen, status, folders, beside)
    # Of one path, what was removed stays before what came there.
    return sorted(found.changes, key=lambda change: change.path.split("/"))


def _statuses(
    before: Before, is_free: Callable[[str], bool], most: float
) -> dict[str, os.stat_result | None]:
    """Return what is in the folder now, None for files that are free.

    Folders beyond `most` paths are added to those that are left out. One that could not be listed before is
    opened if it changed since.
    """
    found: dict[str, os.stat_result | None] = {}
    skipped, left_out, waiting = {*before.skipped}, {*before.left_out}, [""]
    with closing(Folders(Path(before.lower))) as folders:
        for path in waiting:
            if len(found) >= most:
                before.left_out.append(path)
                continue
            status = found.get(path)
            is_changed = status and before.paths and before.paths.get(path) != telling(status)
            try:
                place = folders.entry(path)
                with opened(place.name, place.folder, status if status and is_changed else _OPEN) as folder:
                    inner = _listed(folder, f"{path}/" if path else "", is_free, skipped)
            except OSError:
                if not path:
                    raise
                continue
            found |= inner
            if path.count("/") < MAX_DEPTH - 2:
                folders_in_it = (each for each, now in inner.items() if now and stat.S_ISDIR(now.st_mode))
                waiting += [each for each in folders_in_it if each not in left_out]
    return found


def _listed(
    folder: int, top: str, is_free: Callable[[str], bool], skipped: Collection[str]
) -> dict[str, os.stat_result | None]:
    """Return what is in an open folder, by its paths."""
    found: dict[str, os.stat_result | None] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{top}{entry.name}"
            try:
                if is_free(path) and entry.is_file(follow_symlinks=False):
                    found[path] = None
                elif path not in skipped:
                    found[path] = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # somebody removes it just now
                continue
    return found


def _compare(
    found: ChangeList, path: str, before: Seen | None, now: os.stat_result, folders: Folders, copies: Folders
) -> None:
    """Add a change of what is there now, if it is one."""
    act: Act = "changed" if before and stat.S_IFMT(before.mode) == stat.S_IFMT(now.st_mode) else "added"
    if act == "added":
        _remove(found, path, before)
    change = Change(path, act, kind_of(now.st_mode), now.st_size, mode=stat.S_IMODE(now.st_mode))
    beside = copies.find(path) if act == "changed" and change.kind != "folder" else None
    copy = beside.status() if beside else None
    try:
        if change.kind == "link" or (copy and copy.st_size == now.st_size):
            change = found.is_now(path, act, now, folders.entry(path).folder)
    except FileNotFoundError:  # somebody removes it just now
        return
    except OSError:  # nobody may read it
        copy = None
    if not (beside and copy and is_same(change, copy, beside.folder)):
        found.add(change)


def _remove(found: ChangeList, path: str, seen: Seen | None) -> None:
    if seen:
        size = seen.size if stat.S_ISREG(seen.mode) else 0
        found.add(Change(path, "removed", kind_of(seen.mode), size))
