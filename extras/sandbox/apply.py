"""Apply the changes of a layer to the real folder, all or none of them, and take them back.

The new files lie ready beside the folder when the plan is written down: with that, the changes are applied,
whatever happens to the agent. What was there before is kept, for `undo`, of the last five runs.

    <own>/undo/<name>/new       what comes to its place, by its number in the plan
    <own>/undo/<name>/before    what was there
    <journal>/<name>            the plan, `<number>-<token>`, and what has become of it:
        .new      the files are being laid ready, nothing is applied
        .plan     it is to be carried out     .done     it is
        .undo     it is to be taken back      .undone   it is
        .damaged  it cannot be read, or its files are gone: nothing is done with it

Whoever brings `.agent` along in a clone brings no plan: the journal is in a folder of the user.
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from skills_agent.graph.private_files import make_private_folder, open_private
from skills_agent.sandbox.draft import Conflict, Draft, changed_since
from skills_agent.sandbox.plan import BEFORE, FORMAT, NEW, Plan, carry_out
from skills_agent.sandbox.run_folder import read
from skills_agent.sandbox.stage import stage, sync_file_system
from skills_agent.skills import posix
from skills_agent.skills.confined import make_folder_beneath, opened_folder, parts_of, sync_folder
from skills_agent.skills.errors import DetailedError, ScriptError
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.scripts.run_folders import weigh
from skills_agent.skills.trees import remove_tree

logger = logging.getLogger(__name__)

UNDO: Final = "undo"
KEPT: Final = 5
"""Runs that can be taken back, the last one first: each keeps what it replaced and removed on the disk."""
MAX_KEPT: Final = 1 << 30
"""Bytes that they keep, all of them together."""


class ApplyError(DetailedError, ScriptError):
    """Changes cannot be applied, or not be taken back; the folder is as it was."""

    sentence = "Nothing was changed: {path} {fault}."
    path: str | Path
    fault: str


class Applier:
    """Applies changes to one folder, and takes them back; one at a time, whoever else does it."""

    def __init__(self, folder: Path, own: Path, journal: Path) -> None:
        """Name the folder, one on the same file system that no script sees, and one that only this user has.

        `own` may be in `folder`. `journal` is for this folder alone. Both are made when they are needed.
        """
        self._folder, self._own, self._journal = folder.resolve(), own, journal
        self.notices: list[str] = []
        """Sentences about what was applied."""

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
        with self._alone():
            _check(changes, self._folder, (self._own, self._journal))
            self._recover()
            draft = Draft(changes, self._folder, moment)
            if (draft.conflicts and not over_conflicts) or not (draft.steps or draft.after):
                return draft.conflicts
            what = (label, run, time.time(), list(changes))
            plan = Plan(FORMAT, *what, draft.steps, draft.before, draft.after)
            if failure := self._finish(self._write(plan, draft, content), plan):
                raise failure
            self._make_room()
            return []

    def has_applied(self, changes: Sequence[Change], run: str) -> bool:
        """Return whether these changes of a run are applied: a killed agent may not have noted that."""
        with self._alone():
            self._recover()
            plans = map(self._read, self._names("done"))
            return any(plan and (plan.run, plan.changes) == (run, [*changes]) for plan in plans)

    def recover(self) -> list[str]:
        """End what the agent had begun when it was killed: all of it, or nothing.

        Returns sentences for people. Where there is nothing to do, it lists one folder. Raises ScriptError
        where changes are half applied, and cannot be ended.
        """
        if not self._names("new", "plan", "undo"):
            return []
        with self._alone():
            return self._recover()

    def forget(self) -> None:
        """Remove what is kept for `undo`."""
        for name in self._names("*"):
            self._remove(name)

    def last(self) -> list[Plan]:
        """Return the plans of the last run that `undo` can take back, the last first: so many times.

        There are several where changes that a person was asked about were applied later.
        """
        with self._alone():
            plans = list[Plan]()
            for name in reversed(self._names("done")):
                plan = self._read(name)
                if plan is None or (plans and plan.run != (plans[0].run or None)):
                    break
                plans.append(plan)
        return plans

    def kept(self) -> list[tuple[Plan, Path]]:
        """Return the plans that `undo` takes back, the oldest first, with the folders of what was there."""
        with self._alone():
            found = [(self._read(name), self._place(name) / BEFORE) for name in self._names("done")]
        return [(plan, before) for plan, before in found if plan]

    def undo(self) -> list[Conflict]:
        """Take back what was applied last; or change nothing, and return what was changed since.

        A folder that was made stays where somebody else put something in. Raises ApplyError, also where there
        is nothing to take back, and what `apply` raises.
        """
        with self._alone():
            self._recover()
            names = self._names("done")
            plan = self._read(names[-1]) if names else None
            if plan is None:
                raise ApplyError(self._folder, "has no last changes that are kept")
            if conflicts := list(changed_since(self._folder, plan)):
                return conflicts
            if failure := self._finish(self._become(names[-1], "undo"), plan):
                raise failure
            return []

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the folder, for which others wait; say what an error means here."""
        make_private_folder(self._journal)
        lock = open_private(self._journal / "lock", os.O_RDWR)
        try:
            posix.fcntl.flock(lock, posix.fcntl.LOCK_EX)
            yield
        except OSError as error:
            raise ApplyError(error.filename or "a file", f"cannot be changed ({error.strerror})") from error
        finally:
            os.close(lock)

    def _names(self, *states: str) -> list[str]:
        """Return the names of the plans in these states, the oldest first."""
        return sorted(each.name for state in states for each in self._journal.glob(f"[0-9]*-*.{state}"))

    def _place(self, name: str) -> Path:
        """Return the folder with the files of a plan."""
        return self._own / UNDO / name.partition(".")[0]

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
        numbers = (int(each.partition("-")[0]) for each in self._names("*"))
        name = f"{max(numbers, default=0) + 1:06}-{secrets.token_hex(8)}.new"
        place = self._place(name)
        with os.fdopen(open_private(self._journal / name, os.O_WRONLY | os.O_EXCL), "wb") as file:
            try:
                # A clone may bring links along: none is on the way.
                os.close(make_folder_beneath(self._own.parent, f"{self._own.name}/{UNDO}", 0o700))
                with suppress(FileExistsError), (place.parent / ".gitignore").open("x") as ignored:
                    ignored.write("*\n")
                for folder in (place, place / NEW, place / BEFORE):
                    folder.mkdir(mode=0o700)
                stage(draft, content, place / NEW)
                file.write(json.dumps(plan).encode())  # bytes of paths that are no UTF-8 are escaped
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                self._remove(name)
                raise
        return self._become(name, "plan")

    def _make_room(self) -> None:
        """Keep for `undo` what the last runs replaced, as far as there is room for it."""
        names, room = self._names("done", "undone", "damaged")[::-1], MAX_KEPT
        for number, name in enumerate(names):
            room -= _kept_bytes(self._place(name), name)
            if number >= KEPT or (room < 0 and number):
                self._remove(name)
            elif room < 0:  # its plan stays: else `undo` would take back the run before it
                remove_tree(self._place(name))
                self.notices.append(
                    f"`undo` cannot take it back: it replaced more than {MAX_KEPT >> 20} MiB."
                )

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
        if plan is None:
            self._become(name, "damaged")
            return f"A change of {self._folder} was cut off: its plan is damaged, or its files are gone."
        failure = self._finish(name, plan)
        done = "applied" if name.endswith("plan") is not bool(failure) else "taken back"
        reason = f" ({failure})" if failure else ""
        return f"The changes of {plan.label} were cut off: all of them are {done} now{reason}."

    def _finish(self, name: str, plan: Plan, failure: OSError | None = None) -> OSError | None:
        """Carry a plan out, or back, as its name says. Where that fails, do the other; return why.

        Raises ScriptError where neither can be done.
        """
        is_back = name.endswith("undo")
        try:
            carry_out(plan, self._folder, self._place(name), back=is_back)
        except OSError as error:
            if not failure:
                return self._finish(self._become(name, "plan" if is_back else "undo"), plan, error)
            raise ScriptError(
                f"The changes of {plan.label} in {self._folder} are half applied: {error}. Put that right, "
                "and start again.",
                code="half-applied",
            ) from error
        if self._folder.stat().st_dev != self._journal.stat().st_dev:  # else it is so in this order
            sync_file_system(self._folder)
        self._become(name, "undone" if is_back else "done")
        return failure

    def _read(self, name: str) -> Plan | None:
        """Return a plan, or None where it cannot be read, or its files are gone."""
        try:
            plan = read(self._journal / name, Plan)
        except (OSError, ValueError) as error:
            logger.warning("the plan %s is damaged: %s", self._journal / name, error)
            return None
        return plan if (self._place(name) / BEFORE).is_dir() else None

    def _remove(self, name: str) -> None:
        """Remove the files of a plan, then itself."""
        remove_tree(self._place(name))
        (self._journal / name).unlink(missing_ok=True)


@lru_cache(maxsize=256)
def _kept_bytes(place: Path, name: str) -> int:  # noqa: ARG001 - the same name has the same files
    """Return what the files of a plan take on the disk; once, for it is asked at each run."""
    return weigh(place).bytes


def _check(changes: Sequence[Change], folder: Path, kept: Sequence[Path]) -> None:
    """Refuse what is no change of a folder, or would reach what the agent keeps in it."""
    places = tuple(f"{os.path.relpath(os.path.realpath(each), folder)}/".casefold() for each in kept)
    for change in changes:
        path = f"{change.path}/".casefold()
        if not change.path or "/".join(parts_of(change.path)) != change.path:
            raise ApplyError(change.path, "is written as no path of a change")
        if change.kind == "special" and change.act != "removed":
            raise ApplyError(change.path, "is no file, link or folder")
        is_whole = change.kind != "folder" or change.act == "removed"
        if path.startswith(places) or (is_whole and any(each.startswith(path) for each in places)):
            raise ApplyError(change.path, "is where the agent keeps what is its own")
