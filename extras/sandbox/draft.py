"""What is to be done for a list of changes, and what somebody else did meanwhile: nothing is changed here."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.layer import is_same, kind_of
from skills_agent.sandbox.plan import Act, FolderState, Plan, Step
from skills_agent.sandbox.scan import Entry, Folders, closed_after
from skills_agent.skills.confined import link_error, open_folder_beneath
from skills_agent.skills.scripts.changes import Change

BITS: Final = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
"""What is applied of a mode: never a set-id bit."""
_ALIKE: Final = ({"file"}, {"executable"}, {"file", "executable"}, {"link"}, {"folder"})
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
        """Look at each path in the folder. Raises OSError where one cannot be, as when a link leads there."""
        self.conflicts: list[Conflict] = []
        self.steps: list[Step] = []
        self.puts: dict[int, tuple[Change, os.stat_result | None]] = {}
        """By the number of its step: what comes, and what is there."""
        self.before: dict[str, FolderState] = {}
        self.after: dict[str, FolderState] = {}
        self._root, self._moment = folder, moment
        self._left: dict[str, str] = {}
        """The last act on each path."""
        with closing(Folders(folder)) as self._folders:
            for change in sorted(changes, key=lambda each: (each.path.split("/"), each.act != "removed")):
                status = self._now(change)
                if change.act != "removed":
                    self._bring(change, status)
                elif status:  # else somebody else removed it, too
                    if self._is_younger(status):
                        self._conflict(change.path)
                    self._clear(change.path, status)

    def _step(self, act: Act, path: str) -> None:
        self.steps.append(Step(act, path))
        self._left[path] = act

    def _conflict(self, path: str, why: str = "was changed meanwhile") -> None:
        self.conflicts.append(Conflict(path, why))

    def _is_younger(self, status: os.stat_result) -> bool:
        return status.st_ctime_ns >= self._moment

    def _now(self, change: Change) -> os.stat_result | None:
        """Return what is at a path when its turn comes; a folder above it that it needs is made."""
        above = change.path.rpartition("/")[0]
        if change.path in self._left or self._left.get(above) == "make":
            return None
        try:
            return self._folders.entry(change.path).status()
        except FileNotFoundError:
            if change.act != "removed":
                self._bring(again := Change(above, "changed", "folder", mode=_MADE_AGAIN), self._now(again))
            return None
        except NotADirectoryError as error:
            raise link_error(error, Path(change.path)) from error

    def _clear(self, path: str, status: os.stat_result) -> None:
        """Take what is at a path, and all that is in it."""
        if not stat.S_ISDIR(status.st_mode):
            self._step("take", path)
            return
        folders = [(path, status)]
        for above, its in folders:
            if len(above) > _LONGEST:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), f"{above[:60]}…")
            self.before[above] = FolderState(stat.S_IMODE(its.st_mode), its.st_mtime_ns)
            for inner, inner_status in _entries(self._root, above):
                if self._is_younger(inner_status):
                    self._conflict(inner)
                if stat.S_ISDIR(inner_status.st_mode):
                    folders.append((inner, inner_status))
                else:
                    self._step("take", inner)
        for above, _ in reversed(folders):
            self._step("drop", above)

    def _bring(self, change: Change, status: os.stat_result | None) -> None:
        path = change.path
        if change.act == "changed" and not status:
            self._conflict(path, "was removed meanwhile")
        if change.kind == "folder":
            self._bring_folder(change, status)
            return
        if status:
            if change.act == "added" or self._is_younger(status):
                if is_as(change, self._folders.entry(path)):
                    return  # somebody else wrote the same
                self._conflict(path)
            if stat.S_ISDIR(status.st_mode):
                self._clear(path, status)
        self.puts[len(self.steps)] = (change, status)
        self._step("put", path)

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
            self._clear(path, status)
        self._step("make", path)
        self.after[path] = FolderState(mode)


def _entries(root: Path, folder: str) -> list[tuple[str, os.stat_result]]:
    """Return the paths in a folder, and what is there. Raises OSError."""
    with closed_after(open_folder_beneath(root, folder)) as descriptor, os.scandir(descriptor) as entries:
        return [(f"{folder}/{each.name}", each.stat(follow_symlinks=False)) for each in entries]


def changed_since(folder: Path, plan: Plan) -> Iterator[Conflict]:
    """Yield what is not as a plan left it, of all that would be taken back with it. Raises OSError."""
    changes = {change.path: change for change in plan.changes if change.act != "removed"}
    acts = {step.path: step.act for step in plan.steps}
    taken = {step.path for step in plan.steps if step.act == "take"}
    moded = plan.after.keys() & changes.keys() - acts.keys()
    with closing(Folders(folder)) as folders:
        for path in sorted(acts.keys() | moded):
            why = ""
            with suppress(PermissionError):  # where a run took the rights to look away, nobody did since
                entry = folders.find(path)
                status = entry.status() if entry else None
                if path in moded or acts[path] == "put":
                    why = "" if entry and is_as(changes[path], entry) else "was changed since"
                elif status and (acts[path] == "take" or not stat.S_ISDIR(status.st_mode)):
                    why = "was changed since"
                elif status and path in taken and {each for each, _ in _entries(folder, path)} - acts.keys():
                    why = "has files of somebody else"
            if why:
                yield Conflict(path, why)


def is_as(change: Change, entry: Entry) -> bool:
    """Return whether a path is as a change has it."""
    status = entry.status()
    if status is None or {change.kind, kind_of(status.st_mode)} not in _ALIKE:
        return False
    mode = stat.S_IMODE(status.st_mode)
    if (mode ^ change.mode) & BITS:
        return False
    return is_same(change._replace(path=entry.name, mode=mode), status, entry.folder)
