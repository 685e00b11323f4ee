"""A folder of installed skills: changed by one program at a time, and each skill in one step.

What is to be installed is prepared in a draft beside it, which belongs to the process that made it. Then:

    .installing/draft-x/     copies, and what is shown to a person
    .installing/commit-x/    the same folder, renamed, with plan.json: from here on it is decided
    name/                    exchanged with the copy, one skill after the other
    skills.lock              put in place last

Whoever finds a `commit-x` finishes it, and whoever finds a draft without its process removes it. So after a
kill each skill is the old one or the new one, and after the next command all are what the lock says.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from skills_agent.skills.confined import sync_folder
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, list_contents, read_digest
from skills_agent.skills.packages.errors import TargetError
from skills_agent.skills.packages.lock import LOCK_FILE, SkillsLock
from skills_agent.skills.packages.swap import swap
from skills_agent.skills.posix import fcntl, flags
from skills_agent.skills.sources.walk import INSTALLING

_DRAFT: Final = "draft-"
_COMMIT: Final = "commit-"
_PLAN: Final = "plan.json"
_NEW: Final = "new"
_OLD: Final = "old"
_FOLDER: Final = flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC")


class _Plan(msgspec.Struct, frozen=True):
    put: dict[str, str]
    """Digest of each new skill, by its name."""
    remove: list[str]


class Target:
    """A folder of skills that is installed into."""

    def __init__(self, folder: Path, limits: ContentLimits = ContentLimits()) -> None:  # noqa: B008 - immutable
        """Name a folder, which is made when it is needed."""
        self.folder = folder
        self.limits = limits
        self._work = folder / INSTALLING

    def digest_of(self, name: str) -> str:
        """Return the digest of a skill's folder as it is now; empty where there is none.

        Raises SnapshotError.
        """
        place = self.folder / name
        if not os.path.lexists(place):
            return ""
        return read_digest(place, list_contents(place, self.limits))

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Give an empty folder to prepare skills in; what is left in it at the end is removed.

        Raises TargetError.
        """
        with self.exclusive():
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._work))
            descriptor = os.open(draft, _FOLDER)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield draft
        finally:
            os.close(descriptor)
            shutil.rmtree(draft, ignore_errors=True)
            with suppress(OSError):
                self._work.rmdir()
                self.folder.rmdir()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other programs out; what an interrupted one left is finished first. Raises TargetError."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._work.mkdir(exist_ok=True, mode=0o700)
            self._recover()
            yield
        except OSError as error:
            raise TargetError(self.folder, error.strerror or str(error)) from error
        finally:
            with suppress(OSError):
                self._work.rmdir()
            os.close(descriptor)

    def commit(self, draft: Path, put: Mapping[str, Path], remove: list[str], lock: SkillsLock) -> None:
        """Install copies of a draft by their names, remove others, and write the lock, as one.

        To be called within `exclusive`. Raises OSError while nothing has been changed.
        """
        (draft / _NEW).mkdir()
        (draft / _OLD).mkdir()
        digests = {}
        for name, copy in put.items():
            place = copy.rename(draft / _NEW / name)
            digests[name] = read_digest(place, list_contents(place, self.limits))
        (draft / LOCK_FILE).write_text(lock.text(), encoding="utf-8")
        (draft / _PLAN).write_bytes(msgspec.json.encode(_Plan(digests, remove)))
        os.sync()
        decided = draft.rename(draft.with_name(draft.name.replace(_DRAFT, _COMMIT, 1)))
        self._sync(self._work)
        self._finish(decided)

    def _open(self) -> int:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return os.open(self.folder, _FOLDER | os.O_NOFOLLOW)
        except OSError as error:
            raise TargetError(self.folder, error.strerror or str(error)) from error

    def _recover(self) -> None:
        for place in sorted(self._work.iterdir()):
            if place.name.startswith(_COMMIT):
                self._finish(place)
            elif _is_left(place):
                shutil.rmtree(place)

    def _finish(self, decided: Path) -> None:
        """Do what was decided, from wherever it was interrupted."""
        if (decided / _PLAN).exists():  # else all was done, and its removal was interrupted
            plan = msgspec.json.decode((decided / _PLAN).read_bytes(), type=_Plan)
            for name, digest in plan.put.items():
                self._put(name, decided / _NEW / name, digest)
            for name in plan.remove:
                if os.path.lexists(self.folder / name):
                    (self.folder / name).rename(decided / _OLD / name)
            self._sync(self.folder)
            with suppress(FileNotFoundError):
                (decided / LOCK_FILE).replace(self.folder / LOCK_FILE)
            self._sync(self.folder)
            (decided / _PLAN).unlink()
        shutil.rmtree(decided)

    def _put(self, name: str, copy: Path, digest: str) -> None:
        between, place = copy.with_name(f"{name}.between"), self.folder / name
        if between.exists():  # a swap in three steps was interrupted
            if not os.path.lexists(place):
                copy.rename(place)
            between.rename(copy) if not copy.exists() else shutil.rmtree(between)
            return
        if not copy.exists() or not self._is(copy, digest):
            return  # it is in place, and what was there is here
        if os.path.lexists(place):
            swap(copy, place)
        else:
            copy.rename(place)

    def _is(self, folder: Path, digest: str) -> bool:
        try:
            return read_digest(folder, list_contents(folder, self.limits)) == digest
        except SnapshotError:
            return False

    @staticmethod
    def _sync(folder: Path) -> None:
        descriptor = os.open(folder, _FOLDER)
        try:
            sync_folder(descriptor)
        finally:
            os.close(descriptor)


def _is_left(draft: Path) -> bool:
    """Return whether the process that made a draft has ended."""
    descriptor = os.open(draft, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
