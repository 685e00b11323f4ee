"""Apply the changes of a layer to the real folder, all or none of them, and take them back.

The new files lie ready beside the folder when the plan is written down: with that, the changes are applied,
whatever happens to the agent. What was there before is kept, for `undo`, of the last five runs.

    <own>/undo/<token>/new      what comes to its place, by its number in the plan
    <own>/undo/<token>/before   what was there
    <journal>/<number>-<token>  the plan; its name ends in what has become of it:
        .new      the files are being laid ready, nothing is applied
        .plan     it is to be carried out     .done     it is
        .undo     it is to be taken back      .undone   it is
        .damaged  it cannot be read, or its files are gone: nothing is done with it

Whoever brings `.agent` along in a clone brings no plan: the journal is in a folder of the user.
"""

import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.graph.private_files import make_private_folder, open_private
from skills_agent.sandbox.draft import Conflict, Draft, changed_since, is_as
from skills_agent.sandbox.layer import FILE
from skills_agent.sandbox.plan import (
    BEFORE,
    BITS,
    COPY,
    FORMAT,
    NEW,
    CarryingOut,
    Entry,
    Folders,
    Plan,
    checked,
    copy_entry,
    is_one_by_one,
    plan_of,
    plan_text,
    put_on_disk,
    set_owner,
    sync_file_system,
)
from skills_agent.skills import posix
from skills_agent.skills.confined import make_folder_beneath, open_folder_beneath, opened_folder, sync_folder
from skills_agent.skills.errors import DetailedError, ScriptError
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import remove_tree

logger = logging.getLogger(__name__)

UNDO: Final = "undo"
KEPT: Final = 5
"""Runs that can be taken back, the last one first: each keeps what it replaced and removed on the disk."""
_NAME: Final = re.compile(r"\d{6,}-[0-9a-f]{16}\.[a-z]+")


class ApplyError(DetailedError, ScriptError):
    """Changes cannot be applied, or not be taken back; the folder is as it was."""

    sentence = "Nothing was changed: {path} {fault}."
    path: str | Path
    fault: str


class Applied(NamedTuple):
    """Changes that were applied."""

    label: str
    when: float
    """Seconds since 1970."""
    changes: list[Change]
    plans: int
    """So many times `undo` takes them back: changes that a person was asked about were applied later."""


class Applier:
    """Applies changes to one folder, and takes them back; one at a time, whoever else does it."""

    def __init__(self, folder: Path, own: Path, journal: Path) -> None:
        """Name the folder, one on the same file system that no script sees, and one that only this user has.

        `own` may be in `folder`; across file systems, files are copied. `journal` is for this folder alone.
        Both are made when they are needed.
        """
        self._folder, self._own, self._journal = folder.resolve(), own, journal

    def apply(
        self,
        content: Path,
        moment: int,
        changes: Sequence[Change],
        *,
        label: str,
        run: str = "",
        over_conflicts: bool = False,
    ) -> list[Conflict]:
        """Apply changes, whose bytes are in `content`; or apply none, and return what is in the way.

        That is what changed since `moment` (st_ctime_ns), but for what is as the change has it. With
        `over_conflicts` they are applied all the same; only a path that has a link on its way now is not.
        `content` stays as it is.

        Raises ApplyError where nothing was changed, PrivateFileError for `journal`, ScriptError where other
        changes are half applied, and cannot be ended.
        """
        with _explained(), self._alone():
            _check(changes, self._folder, (self._own, self._journal))
            self._recover()
            draft = Draft(changes, self._folder, moment)
            if draft.blocked or (draft.conflicts and not over_conflicts):
                return draft.blocked or draft.conflicts
            if draft.is_empty:
                return []
            own = (os.fspath(self._folder), label, run, time.time())
            plan = Plan(FORMAT, *own, list(changes), draft.steps(), draft.before, draft.after)
            if failure := self._finish(self._write(plan, draft, content), plan):
                raise failure
            for name in self._names("done", "undone", "damaged")[:-KEPT]:
                self._remove(name)
            return []

    def recover(self) -> list[str]:
        """End what the agent had begun when it was killed: all of it, or nothing.

        Returns sentences for people. Where there is nothing to do, it lists one folder. Raises ScriptError
        where changes are half applied, and cannot be ended.
        """
        if not self._names("new", "plan", "undo"):
            return []
        with self._alone():
            return self._recover()

    def last(self) -> Applied | None:
        """Return what was applied of the last run, if `undo` can take it back."""
        with self._alone():
            plans = list[Plan]()
            for name in reversed(self._names("done")):
                plan = self._read(name)
                if plan is None or (plans and not plan.run) or any(each.run != plan.run for each in plans):
                    break
                plans.append(plan)
        if not plans:
            return None
        changes = [change for plan in plans for change in plan.changes]
        return Applied(plans[0].label, plans[0].when, changes, len(plans))

    def undo(self) -> list[Conflict]:
        """Take back what was applied last; or change nothing, and return what was changed since.

        A folder that was made stays where somebody else put something in. Raises ApplyError, also where there
        is nothing to take back, and what `apply` raises.
        """
        with _explained(), self._alone():
            self._recover()
            names = self._names("done")
            plan = self._read(names[-1]) if names else None
            if plan is None or not self._is_kept(names[-1]):
                raise ApplyError(self._folder, "has no last changes that are kept")
            if conflicts := list(changed_since(self._folder, plan)):
                return conflicts
            if failure := self._finish(self._become(names[-1], "undo"), plan):
                raise failure
            return []

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the folder; another thread or process waits for it."""
        make_private_folder(self._journal)
        lock = open_private(self._journal / "lock", os.O_RDWR)
        try:
            posix.fcntl.flock(lock, posix.fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _names(self, *states: str) -> list[str]:
        """Return the names of the plans in these states, or of all, the oldest first."""
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = [path.name for path in self._journal.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(each for each in names if not states or each.partition(".")[2] in states)

    def _place(self, name: str) -> Path:
        """Return the folder with the files of a plan."""
        return self._own / UNDO / re.split("[-.]", name)[1]

    def _is_kept(self, name: str) -> bool:
        return (self._place(name) / BEFORE).is_dir()

    def _become(self, name: str, state: str) -> str:
        """Rename a plan to what has become of it; return its name.

        What is to be done is on the disk then. That it was done may be lost with the power: it is done again.
        """
        new = f"{name.partition('.')[0]}.{state}"
        (self._journal / name).rename(self._journal / new)
        if state in {"plan", "undo"}:
            with opened_folder(self._journal) as journal:
                sync_folder(journal)
        return new

    def _write(self, plan: Plan, draft: Draft, content: Path) -> str:
        """Lay the files ready and write the plan down: with its name on the disk, its changes are applied.

        Raises OSError and ApplyError: then nothing is left.
        """
        numbers = (int(each.partition("-")[0]) for each in self._names())
        name = f"{max(numbers, default=0) + 1:06}-{secrets.token_hex(8)}.new"
        file = open_private(self._journal / name, os.O_WRONLY | os.O_EXCL)
        try:
            self._make_place(self._place(name))
            _stage(content, draft, self._place(name))
            text = plan_text(plan)
            while text:
                text = text[os.write(file, text) :]
            os.fsync(file)
            return self._become(name, "plan")
        except BaseException:
            if name in self._names("new"):
                self._remove(name)
            raise
        finally:
            os.close(file)

    def _make_place(self, place: Path) -> None:
        """Make the folders for the files of a plan, through no link."""
        self._own.mkdir(exist_ok=True)
        if self._own.is_symlink():
            raise ApplyError(self._own, "is a link")
        above = make_folder_beneath(self._own, UNDO, 0o700)
        try:
            with suppress(FileExistsError):
                ignored = os.open(".gitignore", COPY, 0o600, dir_fd=above)
                os.write(ignored, b"*\n")
                os.close(ignored)
            for path in (place.name, f"{place.name}/{NEW}", f"{place.name}/{BEFORE}"):
                os.mkdir(path, 0o700, dir_fd=above)
            sync_folder(above)
        finally:
            os.close(above)

    def _recover(self) -> list[str]:
        for name in self._names("new"):
            self._remove(name)
        sentences = [self._end(name) for name in self._names("plan", "undo")]
        for sentence in sentences:
            logger.warning("%s", sentence)
        return sentences

    def _end(self, name: str) -> str:
        """End a plan that was cut off; return a sentence."""
        plan = self._read(name)
        if plan is None or not self._is_kept(name):
            self._become(name, "damaged")
            fault = f"its files in {self._place(name)} are gone" if plan else "its plan is damaged"
            return f"A change of {self._folder} was cut off, and cannot be ended: {fault}."
        failure = self._finish(name, plan, again=True)
        done = "applied" if name.endswith("plan") is not bool(failure) else "taken back"
        reason = f" ({failure})" if failure else ""
        return f"The changes of {plan.label} were cut off: all of them are {done} now{reason}."

    def _finish(self, name: str, plan: Plan, *, again: bool = False) -> OSError | None:
        """Carry a plan out, or take it back, as its name says. Where that fails, do the other; return why.

        Raises ScriptError where neither can be done.
        """
        failure: OSError | None = None
        while True:
            is_back = name.endswith("undo")
            carrying = CarryingOut(plan, self._folder, self._place(name))
            try:
                carrying.run(back=is_back, again=again)
            except OSError as error:
                if failure:
                    raise ScriptError(
                        f"The changes of {plan.label} in {self._folder} are half applied: {error}. Put that "
                        "right, and start again.",
                        code="half-applied",
                    ) from error
                failure, again = error, True
                name = self._become(name, "plan" if is_back else "undo")
            else:
                if self._folder.stat().st_dev != self._journal.stat().st_dev:  # else it is so in this order
                    put_on_disk(self._folder, plan)
                self._become(name, "undone" if is_back else "done")
                return failure
            finally:
                for each in carrying.displaced:
                    logger.warning("somebody else wrote there meanwhile, and it is kept: %s", each)

    def _read(self, name: str) -> Plan | None:
        """Return a plan, or None where it cannot be read."""
        try:
            with os.fdopen(os.open(self._journal / name, FILE), "rb") as file:
                return plan_of(file.read(), self._folder)
        except (OSError, ValueError) as error:
            logger.warning("the plan %s is damaged: %s", self._journal / name, error)
            return None

    def _remove(self, name: str) -> None:
        """Remove the files of a plan, then itself."""
        with suppress(OSError):
            os.close(open_folder_beneath(self._own, UNDO))  # and no link
            remove_tree(self._place(name))
        (self._journal / name).unlink(missing_ok=True)


def _check(changes: Sequence[Change], folder: Path, kept: Sequence[Path]) -> None:
    """Refuse what is no change of a folder, or would reach what the agent keeps in it."""
    places = [f"{os.path.relpath(os.path.realpath(each), folder).casefold()}/" for each in kept]
    for change in changes:
        path = f"{checked(change.path).casefold()}/"
        if change.kind == "special" and change.act != "removed":
            raise ApplyError(change.path, "is no file, link or folder")
        for place in places:
            is_over = place.startswith(path) and (change.kind != "folder" or change.act == "removed")
            if is_over or path.startswith(place):
                raise ApplyError(change.path, "is where the agent keeps what is its own")


def _stage(content: Path, draft: Draft, place: Path) -> None:
    """Lay the new files ready, as links to those of the layer or copies; they are on the disk then."""
    is_synced = is_one_by_one(len(draft.puts))
    first = len(draft.steps()) - len(draft.puts)
    with closing(Folders(content)) as folders, opened_folder(place / NEW) as new:
        for number, (change, before) in enumerate(draft.puts.values(), first):
            staged = Entry(new, str(number))
            _bring(folders.entry(change.path), staged, change)
            if not is_as(change, staged, with_mode=False):
                raise ApplyError(change.path, "is not what it was when somebody looked at it")
            if change.kind != "link":
                _make_right(staged, change, before, is_synced=is_synced)
        sync_folder(new)
    if is_synced:
        with opened_folder(place) as above:
            sync_folder(above)
    else:
        sync_file_system(place)


def _bring(source: Entry, staged: Entry, change: Change) -> None:
    """Lay a file of the layer ready, by a link: so the layer keeps it, and nothing is copied.

    One that has another name, too, is copied, because a script may hold that; so is one that nobody may read,
    because the layer is to be read again.
    """
    is_alone = os.lstat(source.name, dir_fd=source.folder).st_nlink == 1
    if is_alone and (change.kind == "link" or change.mode & stat.S_IRUSR):
        with suppress(OSError, NotImplementedError):
            os.link(
                *(source.name, staged.name),
                src_dir_fd=source.folder,
                dst_dir_fd=staged.folder,
                follow_symlinks=False,
            )
            return
    copy_entry(source, staged, is_synced=False)


def _make_right(staged: Entry, change: Change, before: os.stat_result | None, *, is_synced: bool) -> None:
    """Give a file its mode, and the owner of the one that it replaces."""
    file = os.open(staged.name, FILE, dir_fd=staged.folder)
    try:
        for name in os.listxattr(file) if hasattr(os, "listxattr") else ():
            if name.startswith("user.overlay.") or name == "security.capability":
                os.removexattr(file, name)
        if before:
            set_owner(file, before.st_uid, before.st_gid)
        os.fchmod(file, change.mode & BITS)
        if is_synced:
            os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _explained() -> Iterator[None]:
    """Raise an error of the operating system as one that says what it means here."""
    try:
        yield
    except OSError as error:
        raise ApplyError(error.filename or "a file", f"cannot be changed ({error.strerror})") from error
