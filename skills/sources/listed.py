"""What the sources that are no folder on disk have in common.

Such a source lists every file that it has (`_list`) and gives the bytes of one (`_fetch`); the protocol is
kept here, once, and so is what happens while the place does not answer: its skills stay as they were last
seen, for a day, and the diagnostic `source-unreachable` says so. Nobody's skills vanish because a network
blinked. A place that answers "no" (not found, not permitted) is believed at once.
"""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from skills_agent.skills.files import NotRegularFileError, parts_of
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.protocol import FoundSkill, Scan, SkillFile, in_path_order
from skills_agent.skills.sources.shelf import (
    MAX_DEPTH,
    ListedFile,
    Listing,
    Shelf,
    ShelvedSkill,
)
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import one_line

KEEP_SECONDS: Final = 24 * 3600.0
"""How long the skills of a place that does not answer stay."""
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Clients that only know whole files hold one in memory: no larger one is asked for."""
_MAX_FILES: Final = 5_000
"""Files of one skill that are listed."""


class _Seen(NamedTuple):
    """What a look at the place has shown."""

    scan: Scan
    shelf: Shelf
    skills: Mapping[str, ShelvedSkill]
    """By path, as the source names it."""


class ListedSource(ABC):
    """A source that is known by a listing of its files. A subclass lists them, and fetches one."""

    def __init__(
        self,
        label: str,
        place: str,
        *,
        trusted: bool,
        clock: Callable[[], float],
        fresh_seconds: float = 0.0,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """Name the place as people should see it; it is asked again after `fresh_seconds` of the clock."""
        self.label = label
        self.trusted = trusted
        self.place = place
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._keep_seconds = keep_seconds
        self._lock = Lock()
        self._seen: _Seen | None = None
        self._seen_at = 0.0
        self._whole: _Seen | None = None
        """The last look that showed everything, and when that was."""
        self._whole_at = 0.0

    @abstractmethod
    def _list(self) -> Listing:
        """List the source, reading no more than stamps need; OSError says why that cannot be done."""

    @abstractmethod
    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        """Return the first `limit` bytes of a file; OSError says why that cannot be done."""

    def _sizes(self, files: list[ListedFile]) -> list[int]:
        """Return the sizes of files that are about to be shown (bytes; 0 where it cannot be known)."""
        return [file.size or 0 for file in files]

    def _path(self, relative: str) -> str:
        """Return the path of a SKILL.md as people should see it."""
        return f"{self.place.rstrip('/')}/{relative}"

    def _root_name(self) -> str:
        """Return what stands for the folder's name where the source is a skill itself."""
        return self.place.rstrip("/").rpartition("/")[2]

    def scan(self) -> Scan:
        """Find every SKILL.md in the listing."""
        return self._look(again=True).scan

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a SKILL.md."""
        seen = self._look()
        return self._fetch(seen.shelf.files[_skill(seen, path).path], limit)

    def files(self, path: str) -> Iterator[SkillFile]:
        """Yield the other files of the skill's folder, in path order."""
        seen = self._look()
        skill = _skill(seen, path)
        names = list(islice(seen.shelf.of_skill(skill), _MAX_FILES))
        sizes = self._sizes([seen.shelf.files[name] for name in names])
        start = len(skill.folder)
        return (SkillFile(name[start:], size) for name, size in zip(names, sizes, strict=True))

    def read_file(self, path: str, relative: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file of the skill's folder."""
        seen = self._look()
        skill = _skill(seen, path)
        parts = parts_of(relative)
        name = skill.folder + "/".join(parts)
        if parts and name in seen.shelf.files:
            return self._fetch(seen.shelf.files[name], limit)
        if not parts or any(seen.shelf.beneath(f"{name}/")):
            raise NotRegularFileError(relative)
        raise missing(relative)

    def root(self, path: str) -> Path | None:
        """Return None: no folder on this machine."""
        del path
        return None

    def claims(self, path: str) -> bool:
        """Return whether a path is in the place."""
        return path.startswith(self._path(""))

    def _look(self, *, again: bool = False) -> _Seen:
        with self._lock:
            now = self._clock()
            if self._seen is None or (again and now - self._seen_at >= self._fresh_seconds):
                self._seen = self._ask(now)
                self._seen_at = now
            return self._seen

    def _ask(self, now: float) -> _Seen:
        """Ask the place for its files."""
        try:
            listing = self._list()
        except (FileNotFoundError, PermissionError) as error:
            self._whole = None
            finding = Finding("source-missing", "Nothing is there.")
            if isinstance(error, PermissionError):
                finding = Finding("source-unreadable", f"Access is refused: {cause_of(error)}.")
            return _nothing(diagnostic(finding, self.place))
        except OSError as error:
            why = f"The source cannot be reached: {cause_of(error)}."
            return self._kept(now, why) or _nothing(
                diagnostic(Finding("source-unreachable", why), self.place)
            )
        seen = self._arrange(listing)
        if listing.whole:
            self._whole, self._whole_at = seen, now
            return seen
        return self._kept(now, "A part of the source cannot be reached.") or seen

    def _kept(self, now: float, why: str) -> _Seen | None:
        """Return the last look that showed everything, while it may stand in, and why it does."""
        if self._whole is None or now - self._whole_at >= self._keep_seconds:
            return None
        message = f"{why} Its skills are shown as they were last seen."
        report = diagnostic(Finding("source-unreachable", message), self.place)
        found, before = self._whole.scan
        return self._whole._replace(scan=Scan(found, (*before, report)))

    def _arrange(self, listing: Listing) -> _Seen:
        """Name the skills of a listing, and report those that are named oddly or too deep."""
        shelf = Shelf(listing.files)
        found: list[FoundSkill] = []
        skills: dict[str, ShelvedSkill] = {}
        diagnostics = list(listing.diagnostics)
        for skill in shelf.skills:
            path = self._path(skill.path)
            if skill.folder.count("/") > MAX_DEPTH + 1:
                finding = Finding("scan-limit", f"{path} is too deep to be searched.")
                diagnostics.append(diagnostic(finding, self.place))
                continue
            if skill.file != SKILL_FILE:
                finding = Finding("file-name-case", f"The file is named {skill.file}.")
                diagnostics.append(diagnostic(finding, path))
            file = listing.files[skill.path]
            folder = skill.folder[:-1].rpartition("/")[2] or self._root_name()
            found.append(FoundSkill(path, folder, file.stamp, file.size or 0))
            skills[path] = skill
        return _Seen(Scan(in_path_order(found), tuple(diagnostics)), shelf, skills)


def missing(name: str) -> FileNotFoundError:
    """Return the error for a file that is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def cause_of(error: BaseException) -> str:
    """Say what a foreign client raised, on one short line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text, 200).rstrip(".") or type(error).__name__


@contextmanager
def answering(clean: Callable[[str], str] = str) -> Iterator[None]:
    """Turn what a foreign client raises, of whatever class, into an OSError with one clean line of text."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
    except PermissionError as error:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error
    except OSError as error:
        raise OSError(error.errno or errno.EIO, clean(cause_of(error))) from error
    except Exception as error:
        raise OSError(errno.EIO, clean(f"{type(error).__name__}: {cause_of(error)}")) from error


def _nothing(why: Diagnostic) -> _Seen:
    return _Seen(Scan((), (why,)), Shelf({}), {})


def _skill(seen: _Seen, path: str) -> ShelvedSkill:
    if path not in seen.skills:
        raise missing(path)
    return seen.skills[path]
