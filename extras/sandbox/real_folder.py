"""What is in a folder before a run that works in it, and what changed there since.

What is nearest to the top is looked at first: so of a large folder what lies deepest is left out. Afterwards
there is no limit, for a run must not get out of the look by making too much.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.changes import Judge
from skills_agent.sandbox.layer import ChangeList
from skills_agent.sandbox.obeyed import is_git
from skills_agent.sandbox.products import above_of
from skills_agent.sandbox.scan import AS_IT_IS, Folders, Listing, Seen, is_touched, scan, telling
from skills_agent.skills.confined import outermost
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import open_up

MAX_ENTRIES: Final = 50_000
"""Files and folders that are looked at before a run: some 0.3 s, and as much after it."""
MAX_SHARED: Final = 100
"""Files with a name elsewhere, or folders of many: each is a mount, and keeps those above it in place."""


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
    shared: list[str]
    """Files that have a name elsewhere, too, or the folders of many: a sandbox keeps the run from these."""


_FILE_OF_PACKAGES: Final = Seen(stat.S_IFREG, 0, 0, 0, 0)


def look_before(before: Before, judge: Judge) -> None:
    """Fill in what is in the folder, but for folders that this user cannot list.

    Raises OSError where it cannot be listed itself.
    """
    paths: dict[str, Seen | None] = {}
    linked: dict[tuple[int, int], list[str]] = {}
    for listing in _listings(before, MAX_ENTRIES):
        for path, status in listing.inner.items():
            is_file = stat.S_ISREG(status.st_mode)
            paths[path] = None if is_file and judge.is_free(path) else Seen(*telling(status))
            if is_file and status.st_nlink > 1:
                linked.setdefault((status.st_ino, status.st_nlink), []).append(path)
    outside = (names for (_, count), names in linked.items() if len(names) < count)
    before.shared.extend(_few({path for names in outside for path in names}))
    gits = {path for path, seen in paths.items() if seen and is_git(path)}  # in folders of packages
    before.skipped.extend(gits)
    for path, seen in paths.items():
        if not gits or gits.isdisjoint((*above_of(path), path)):
            before.paths[path] = seen


def _few(paths: set[str]) -> list[str]:
    """Return files, or in their place the folders that hold them, the deepest first, until these are few."""
    while len(paths) > MAX_SHARED and (depth := max(path.count("/") for path in paths)):
        paths = {path.rpartition("/")[0] if path.count("/") == depth else path for path in paths}
    return sorted(outermost(paths))


def changes_since(before: Before, copies: Path) -> list[Change]:
    """Return what is another thing than before, as `layer.changes` does.

    `copies`: a folder with copies of some files, with which they are compared. Others are not read (they get
    no digest), and count as changed where they were touched. Each path that was removed is a change, but for
    files that nobody obeys. What lies deeper than `MAX_DEPTH`, or cannot be listed, is left out. This user
    gets the rights that a run took away.

    Raises OSError where the folder itself cannot be listed.
    """
    if not os.access(before.lower, os.R_OK | os.X_OK):
        open_up(before.lower)
    known, gone = before.paths, {*before.paths}
    found = ChangeList(is_bounded=False)
    with closing(Folders(copies)) as beside:
        for listing in _listings(before, inf):
            gone.difference_update(listing.inner)
            for path, status in listing.inner.items():
                is_of_packages = path in known and known[path] is None
                seen = _FILE_OF_PACKAGES if is_of_packages else known.get(path)
                if is_touched(seen, status) and not (is_of_packages and stat.S_ISREG(status.st_mode)):
                    _compare(found, path, seen, status, listing.folder, beside)
    for path in gone:
        found.remove(path, known[path])
    return found.changes


def _listings(before: Before, most: float) -> Iterator[Listing]:
    """Yield what is in the folder now. Folders beyond `most` paths are added to those that are left out.

    One that could not be listed before is opened if it changed since.
    """
    left_out, count = {*before.left_out}, 0

    def enters(path: str, status: os.stat_result) -> os.stat_result | None:
        if count >= most:
            before.left_out.append(path)
        if count >= most or path in left_out:
            return None
        return status if before.paths and before.paths.get(path) != telling(status) else AS_IT_IS

    for listing in scan(Path(before.lower), skipped={*before.skipped}, enters=enters):
        count += len(listing.inner)
        yield listing


def _compare(
    found: ChangeList, path: str, before: Seen | None, now: os.stat_result, folder: int, copies: Folders
) -> None:
    """Add a change of what is there now, if it is one. Of files, only what may be as its copy is read."""
    place = copies.find(path)
    copy = place.status() if place else None
    is_read = copy is not None and copy.st_size == now.st_size
    lower = place.folder if place else None
    try:
        found.compare(path, before, now, folder, lower, is_read=is_read)
    except FileNotFoundError:  # somebody removes it just now
        return
    except OSError:  # nobody may read it
        found.compare(path, before, now, folder, None, is_read=False)
