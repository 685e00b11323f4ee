"""A folder of installed skills: changed by one program at a time, and each skill in one step.

What is to be installed is prepared in a draft beside it, which belongs to the process that made it. Then:

    .installing/draft-x/              copies, and what is shown to a person
    STATE/installing/KEY.json         the decision (journal.py): from here on it will be done
    name/                             exchanged with its copy, one skill after the other
    skills.lock                       put in place last

Whoever comes next does what was decided, and removes a draft whose process has ended. So after a kill each
skill is the old one or the new one, and after the next command all are what the lock says. What somebody
changed in between stays as it is, for `skills install --locked --check` to tell.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from skills_agent.packages.backups import backups_folder
from skills_agent.packages.errors import PackageError
from skills_agent.packages.journal import (
    Decision,
    Put,
    clear_decision,
    journal_of,
    read_decision,
    write_decision,
)
from skills_agent.packages.lock import LOCK_FILE, Lock, lock_text
from skills_agent.packages.swap import exchange
from skills_agent.skills import posix
from skills_agent.skills.confined import opened_folder
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, list_contents, read_digest
from skills_agent.skills.posix import FOLDER
from skills_agent.skills.sources.walk import INSTALLING
from skills_agent.skills.trees import remove_tree

_DRAFT: Final = "draft-"
_NEW: Final = "new"
_OLD: Final = "old-"


class Target:
    """A folder of skills that is installed into."""

    def __init__(self, folder: Path, state: Path) -> None:
        """Name a folder, and that of this user's state; both are made when they are needed.

        What is half done is believed from `state` alone.
        """
        self.folder = folder
        self.backups = backups_folder(state, folder)
        self._work = folder / INSTALLING
        self._journal = journal_of(state, folder)

    def found(self, name: str) -> str:
        """Return the digest of a skill's folder as it is now; empty where nothing is there.

        Of what is no folder, or cannot be measured, a sentence that says so, and that is no digest.
        """
        return self._measured(self.folder / name)

    def _measured(self, place: Path) -> str:
        if place.is_symlink():
            return f"a link to {place.readlink()}"
        if not os.path.lexists(place):
            return ""
        try:
            return read_digest(place, list_contents(place, ContentLimits()))
        except SnapshotError as error:
            return error.reason

    def settle(self) -> None:
        """Finish what an interrupted command left; costs one look where there is nothing.

        Raises PackageError.
        """
        if os.path.lexists(self._work):
            with self.exclusive():
                pass

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Give an empty folder to prepare skills in; what is left in it at the end is removed.

        Raises PackageError.
        """
        with self.exclusive():
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._make_work()))
            descriptor = os.open(draft, FOLDER)
            posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX)
        try:
            yield draft
        finally:
            os.close(descriptor)
            with suppress(PackageError), self.exclusive():  # which removes what nobody holds
                pass

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other programs out; what an interrupted one left is finished first. Raises PackageError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with opened_folder(self.folder) as descriptor:
                posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX)
                try:
                    self._recover()
                    yield
                finally:
                    with suppress(OSError):
                        self._work.rmdir()
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            reason = f"{place}{error.strerror or error}"
            raise PackageError(f"Cannot install into {self.folder}: {reason}.") from error

    def commit(
        self, draft: Path, todo: Mapping[str, Put], folders: Mapping[str, Path], lock: Lock | None
    ) -> None:
        """Put the folders of a draft in place by their names, remove what is without one, and write the lock.

        All of it, or nothing. A copy that is another one by now than what was shown is not installed. `None`
        leaves the lock as it is. To be called within `exclusive`. Raises PackageError and OSError while
        nothing has been changed.
        """
        new = draft / _NEW
        new.mkdir()
        for name, folder in folders.items():
            folder.rename(new / name)
            if self._measured(new / name) != todo[name].digest:
                raise PackageError(f"The copy of {name} was changed while it was shown; look at it again.")
        written = lock_text(lock).encode() if lock is not None else b""
        if written:
            (draft / LOCK_FILE).write_bytes(written)
        decision = Decision(
            draft=draft.name,
            inode=draft.lstat().st_ino,
            put=todo,
            lock=hashlib.sha256(written).hexdigest() if written else "",
        )
        write_decision(self._journal, decision)
        self._finish(decision)
        clear_decision(self._journal)

    def _make_work(self) -> Path:
        with suppress(FileExistsError):
            self._work.mkdir(mode=0o700)
        if not _is_folder(self._work):  # a repository can bring a link
            raise PackageError(
                f"Cannot install into {self.folder}: {INSTALLING} in it is no folder; remove it."
            )
        return self._work

    def _recover(self) -> None:
        if decision := read_decision(self._journal):
            self._finish(decision)
        clear_decision(self._journal)
        if _is_folder(self._work):
            for place in sorted(self._work.glob(f"{_DRAFT}*")):
                if _is_left(place):
                    remove_tree(place)

    def _finish(self, decision: Decision) -> None:
        """Do what was decided, from wherever it was interrupted."""
        draft = self._work / decision.draft
        if _is_folder(self._work) and _is_folder(draft) and draft.lstat().st_ino == decision.inode:
            for name, put in decision.put.items():
                if put.digest:
                    self._put(name, draft / _NEW / name, put)
                elif put.before and self.found(name) == put.before:
                    self._put_aside(self.folder / name, draft)
            self._put_lock(draft / LOCK_FILE, decision.lock)

    def _put(self, name: str, copy: Path, put: Put) -> None:
        if self._measured(copy) != put.digest:
            return  # it is in place, and what was there is here
        place, found = self.folder / name, self.found(name)
        if found and found == put.before:
            _make_movable(place)
            if exchange(copy, place):
                return
            self._put_aside(place, copy.parent.parent)
            found = ""
        if not found:  # else somebody has put something there since
            copy.rename(place)

    def _put_aside(self, place: Path, draft: Path) -> None:
        _make_movable(place)
        place.rename(Path(tempfile.mkdtemp(prefix=_OLD, dir=draft)) / place.name)

    def _put_lock(self, file: Path, digest: str) -> None:
        if digest and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest:
            file.replace(self.folder / LOCK_FILE)


def _is_left(draft: Path) -> bool:
    """Return whether the process that made a draft has ended; False for what is no draft of this user."""
    if not _is_folder(draft) or draft.lstat().st_uid != os.geteuid():
        return False
    with opened_folder(draft) as descriptor:
        try:
            posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _is_folder(place: Path) -> bool:
    """Return whether a folder is there, and no link to one."""
    try:
        return stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return False


def _make_movable(place: Path) -> None:
    """A folder goes elsewhere only where it can be written: its `..` changes."""
    if _is_folder(place) and not os.access(place, os.W_OK):
        place.chmod(place.lstat().st_mode | stat.S_IWUSR)
