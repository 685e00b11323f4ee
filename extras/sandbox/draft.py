"""What is to be done for a list of changes, and what somebody else did meanwhile: nothing is changed here."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.layer import FILE, NO_FOLDER, digest_of
from skills_agent.sandbox.plan import BITS, Entry, Folders, FolderState, Plan, Step
from skills_agent.skills.confined import open_folder_beneath
from skills_agent.skills.scripts.changes import Change

_MADE_AGAIN: Final = 0o755
_LONGEST: Final = 4096
"""Characters of a path in a folder that is removed: a plan has the path of each."""


class Conflict(NamedTuple):
    """A path that somebody else changed since the run began, or since its changes were applied."""

    path: str
    why: str
    """For people, after the path: "was changed meanwhile"."""


class Draft:
    """The steps for a list of changes, and what is in their way."""

    def __init__(self, changes: Sequence[Change], folder: Path, moment: int) -> None:
        """Look at each path in the folder. Raises OSError where one cannot be looked at."""
        self.conflicts: list[Conflict] = []
        self.blocked: list[Conflict] = []
        """Those that nobody can wave through: the way to them leads through a link."""
        self.puts: dict[str, tuple[Change, os.stat_result | None]] = {}
        """What comes, and what is there."""
        self.before: dict[str, FolderState] = {}
        self.after: dict[str, FolderState] = {}
        self._root, self._moment = folder, moment
        self._takes: dict[str, None] = {}
        self._drops: dict[str, None] = {}
        self._makes: dict[str, None] = {}
        ordered = sorted(changes, key=lambda change: change.path.split("/"))
        with closing(Folders(folder)) as self._folders:
            self._device = os.fstat(self._folders.entry("").folder).st_dev
            for change in ordered:
                if change.act == "removed":
                    self._remove(change.path)
            for change in ordered:
                if change.act != "removed":
                    self._bring(change)

    @property
    def is_empty(self) -> bool:
        """Return whether all is as it shall be."""
        return not self.steps() and all(self.before.get(path) == state for path, state in self.after.items())

    def steps(self) -> list[Step]:
        """Return what is to be done, in an order in which nothing is in the way and each folder is there."""
        steps = [Step("take", path) for path in self._takes if path not in self.puts]
        steps += [Step("drop", path) for path in reversed(self._drops)]
        steps += [Step("make", path) for path in self._makes]
        return steps + [Step("put", path) for path in self.puts]

    def _conflict(self, path: str, why: str = "was changed meanwhile") -> None:
        self.conflicts.append(Conflict(path, why))

    def _is_younger(self, status: os.stat_result) -> bool:
        return status.st_ctime_ns >= self._moment

    def _now(self, path: str, *, is_needed: bool = False) -> os.stat_result | None:
        """Return what is at a path, if something is; a folder above it that `is_needed` is made."""
        above = path.rpartition("/")[0]
        try:
            entry = self._folders.entry(path)
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise
            if error.errno != errno.ENOENT:
                self.blocked.append(Conflict(path, "is reached by a link now, or by what is no folder"))
            elif is_needed:
                self._make_again(above)
            return None
        if above not in self.before:
            self._note_rights(above, os.fstat(entry.folder))
        return entry.status()

    def _note_rights(self, path: str, status: os.stat_result) -> None:
        """Note the mode of a folder in which this user may not write: it gets the right for a moment."""
        if ~status.st_mode & stat.S_IRWXU and status.st_uid == os.geteuid():
            self.before[path] = FolderState(stat.S_IMODE(status.st_mode))
            self.after.setdefault(path, self.before[path])

    def _make_again(self, path: str) -> None:
        above = path.rpartition("/")[0]
        if above not in self._makes:
            self._now(path, is_needed=True)
        self._conflict(path, "was removed meanwhile")
        self._makes[path], self.after[path] = None, FolderState(_MADE_AGAIN)

    def _remove(self, path: str) -> None:
        status = self._now(path)
        if status is None:
            return  # somebody else removed it, too
        if self._is_younger(status):
            self._conflict(path)
        self._clear(path, status)

    def _clear(self, path: str, status: os.stat_result) -> None:
        """Take what is at a path, and all that is in it."""
        if not stat.S_ISDIR(status.st_mode):
            self._takes[path] = None
            return
        folders = [(path, status)]
        for above, its in folders:
            if its.st_dev != self._device:
                self.blocked.append(Conflict(above, "is another file system"))
                continue
            if len(above) > _LONGEST:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), f"{above[:60]}…")
            self._drops[above] = None
            self.before[above] = FolderState(
                stat.S_IMODE(its.st_mode), its.st_mtime_ns, its.st_uid, its.st_gid
            )
            descriptor = open_folder_beneath(self._root, above)
            try:
                with os.scandir(descriptor) as entries:
                    inner = [(f"{above}/{each.name}", each.stat(follow_symlinks=False)) for each in entries]
            finally:
                os.close(descriptor)
            for each, inner_status in inner:
                if self._is_younger(inner_status):
                    self._conflict(each)
            folders += [each for each in inner if stat.S_ISDIR(each[1].st_mode)]
            self._takes |= dict.fromkeys(each for each, its in inner if not stat.S_ISDIR(its.st_mode))

    def _bring(self, change: Change) -> None:
        path = change.path
        is_in_new_folder = path.rpartition("/")[0] in self._makes
        status = None if is_in_new_folder else self._now(path, is_needed=True)
        if path in self._takes or path in self._drops:  # another kind of thing comes
            is_there = False
        else:
            is_there = status is not None
            if change.act == "changed" and not is_there:
                self._conflict(path, "was removed meanwhile")
        if change.kind == "folder":
            self._bring_folder(change, status if is_there else None)
            return
        if status and is_there:
            if change.act == "added" or self._is_younger(status):
                if is_as(change, self._folders.entry(path)):
                    return  # somebody else wrote the same
                self._conflict(path)
            if stat.S_ISDIR(status.st_mode):
                self._clear(path, status)
        self.puts[path] = (change, status)

    def _bring_folder(self, change: Change, status: os.stat_result | None) -> None:
        path, mode = change.path, change.mode & BITS
        if status and stat.S_ISDIR(status.st_mode):
            own = stat.S_IMODE(status.st_mode)
            if change.act == "changed" and own & BITS != mode:
                if self._is_younger(status):
                    self._conflict(path)
                self.before[path], self.after[path] = FolderState(own), FolderState(own & ~BITS | mode)
            return
        if status:
            self._conflict(path)
            self._takes[path] = None
        self._makes[path], self.after[path] = None, FolderState(mode)


def changed_since(folder: Path, plan: Plan) -> Iterator[Conflict]:
    """Yield what is not as a plan left it, of all that would be taken back with it. Raises OSError."""
    changes = {change.path: change for change in plan.changes if change.act != "removed"}
    acts: dict[str, set[str]] = {act: set() for act in ("take", "drop", "make", "put")}
    for act, path in plan.steps:
        acts[act].add(path)
    left = acts["put"] | (plan.after.keys() & changes.keys() - acts["make"])
    come, folders_of_steps = acts["put"] | acts["make"], acts["make"] | acts["drop"]
    come_back = acts["drop"] | come
    with closing(Folders(folder)) as folders:
        for path in sorted({path for _, path in plan.steps} | left):
            why = ""
            # Where a run took the rights to look away, nobody else looked since.
            with suppress(PermissionError):
                entry = folders.find(path)
                status = entry.status() if entry else None
                if path in left:
                    why = "" if entry and is_as(changes[path], entry) else "was changed since"
                elif status and not (stat.S_ISDIR(status.st_mode) and path in folders_of_steps):
                    why = "was changed since"
                elif status and path in acts["take"] and not _names(folder, path) <= come:
                    why = "has files of somebody else"
                elif entry is None and path.rpartition("/")[0] not in come_back:
                    why = "has no folder any more"
            if why:
                yield Conflict(path, why)


def _names(folder: Path, path: str) -> set[str]:
    descriptor = open_folder_beneath(folder, path)
    try:
        return {f"{path}/{name}" for name in os.listdir(descriptor)}  # noqa: PTH208 - by its descriptor
    finally:
        os.close(descriptor)


def is_as(change: Change, entry: Entry, *, with_mode: bool = True) -> bool:
    """Return whether a path is as a change has it. Raises OSError."""
    status = entry.status()
    if status is None:
        return False
    if change.kind == "link":
        return stat.S_ISLNK(status.st_mode) and os.readlink(entry.name, dir_fd=entry.folder) == change.target
    if with_mode and (status.st_mode ^ change.mode) & BITS:
        return False
    if change.kind == "folder":
        return stat.S_ISDIR(status.st_mode)
    if not stat.S_ISREG(status.st_mode) or status.st_size != change.size:
        return False
    file = os.open(entry.name, FILE, dir_fd=entry.folder)
    try:
        return digest_of(file) == change.digest
    finally:
        os.close(file)
