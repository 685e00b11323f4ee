"""Sources that are no folder on this machine: a listing of their files, and the bytes of each.

While a place does not answer, its skills stay as they were last seen, for a day, and the diagnostic
`source-unreachable` says so. A place that answers "no" (not found, not permitted) is believed at once.
"""

import errno
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping
from operator import attrgetter
from threading import Lock
from typing import Final, NamedTuple
from urllib.parse import unquote

from skills_agent.skills.confined import OutsideRootError, parts_of
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.protocol import NOISE, Scan, SkillEntry, SkillFile, Source
from skills_agent.skills.sources.walk import MAX_DEPTH, OWN_FOLDERS, SKILL_FILE, SKIPPED_FOLDERS
from skills_agent.skills.text import cause_of, one_line

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Clients that only know whole files hold one in memory: no larger one is asked for."""
MAX_FILES: Final = 20_000
_MAX_REPORTED: Final = 50
"""Findings; a place may have any number of them."""


class ListedFile(NamedTuple):
    """A file as its place lists it."""

    key: tuple[str, ...]
    """What the place is asked for when the file is fetched: where it has folders, the whole name."""
    size: int | None
    """Bytes; None where the place does not say."""
    stamp: tuple[int, ...] = ()
    """Differs when the file may have changed; empty where nothing is known."""


class Listing:
    """The files of a place at one time, by their checked path; refuses names that lead out of it."""

    def __init__(self, place: str, *, quoted: bool = False) -> None:
        """Name the place as people should see it; `quoted` paths are percent-encoded."""
        self.files: dict[str, ListedFile] = {}
        self.is_full = False
        """Whether there are more files than are listed."""
        self._place = place
        self._quoted = quoted
        self.diagnostics: dict[tuple[str, str], Diagnostic] = {}
        """By code and message: each is reported once."""

    def add(self, relative: str, file: ListedFile) -> None:
        """Add a file; of two with one path the first stays."""
        plain = self.plain(relative)
        if not plain or not SKIPPED_FOLDERS.isdisjoint(plain.split("/")):
            return
        if len(self.files) < MAX_FILES:
            self.files.setdefault(plain, file)
        else:
            self.is_full = True
            self.report("scan-limit", f"There are more than {MAX_FILES:,} files; the rest is left out.")

    def plain(self, relative: str) -> str | None:
        """Return the path in its plain form; None, and a report, where it leads out of the source."""
        try:
            relative.encode()
            return "/".join(parts_of(unquote(relative) if self._quoted else relative))
        except UnicodeEncodeError:
            self.refuse(relative, "its name is not text")
        except OutsideRootError as error:
            self.refuse(relative, f"its name {error.reason}")
        return None

    def refuse(self, name: str, why: str) -> None:
        """Report a file that is not listed."""
        plain = one_line(name.encode("utf-8", "backslashreplace").decode(), 200)
        self.report("file-refused", f"{plain} is passed over: {why}.")

    def report(self, code: str, message: str, path: str = "") -> None:
        """Add a diagnostic, about the place where no path is named."""
        if len(self.diagnostics) < _MAX_REPORTED:
            self.diagnostics[code, message] = diagnostic(Finding(code, message), path or self._place)


class _LastScan(NamedTuple):
    scan: Scan
    files: Mapping[str, ListedFile] = {}
    skills: Mapping[str, str] = {}
    """The SKILL.md files in `files`, by the path that the source gives them."""

    def relative(self, path: str) -> str:
        """Return a SKILL.md's path in `files`; raises FileNotFoundError."""
        if path not in self.skills:
            raise missing(path)
        return self.skills[path]

    def files_beside(self, skill_file: str) -> Iterator[tuple[str, ListedFile]]:
        """Yield the other files of a skill, with their path in it: no noise, and no folder of another."""
        cut = skill_file.rfind("/") + 1
        folder = skill_file[:cut]
        others = {other[: other.rfind("/") + 1] for other in self.skills.values()} - {folder}
        inner = tuple(other for other in others if other.startswith(folder))
        for relative in sorted(self.files):
            is_beside = relative.startswith(folder) and not relative.startswith(inner)
            if is_beside and relative.rpartition("/")[2] not in NOISE and relative != skill_file:
                yield relative[cut:], self.files[relative]


class FetchedSource(Source):
    """A source that lists the files of a place and fetches them. A subclass knows the place."""

    keep_seconds = 24 * 3600.0
    """How long the skills of a place that does not answer stay."""
    max_depth = MAX_DEPTH
    """How many folders above that of a skill are searched."""
    unreachable = "The source cannot be reached: {}."
    """What is said of a place that does not answer, with the cause."""

    def __init__(
        self,
        label: str,
        place: str,
        *,
        trusted: bool,
        clock: Callable[[], float] = time.monotonic,
        fresh_seconds: float = 0.0,
    ) -> None:
        """Name the place as people should see it; it is asked again after `fresh_seconds` of the clock."""
        self.label = label
        self.trusted = trusted
        self.place = place
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._lock = Lock()
        self._latest: tuple[float, _LastScan] | None = None
        self._latest_whole: tuple[float, _LastScan] | None = None

    @abstractmethod
    def _list(self) -> Listing:
        """List the place, reading no more than stamps need; OSError says why that cannot be done."""

    @abstractmethod
    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        """Return the first `limit` bytes of a file; OSError says why that cannot be done."""

    def _path(self, relative: str) -> str:
        return f"{self.place.rstrip('/')}/{relative}"

    def _root_name(self) -> str:
        return self.place.rstrip("/").rpartition("/")[2]

    def scan(self) -> Scan:
        return self._look(again=True).scan

    def read(self, path: str, limit: int) -> bytes:
        look = self._look()
        return self._fetch(look.files[look.relative(path)], limit)

    def fetch(self, path: str) -> Iterator[SkillFile]:
        # Its SKILL.md comes first, and has that name.
        look = self._look()
        skill_file = look.relative(path)
        yield SkillFile(SKILL_FILE, self._whole(look.files[skill_file]))
        for relative, file in look.files_beside(skill_file):
            yield SkillFile(relative, self._whole(file))

    def claims(self, path: str) -> bool:
        before, _, after = self._path("\0").partition("\0")
        return path.startswith(before) and path.endswith(after)

    def _whole(self, file: ListedFile) -> bytes:
        content = b"" if (file.size or 0) > MAX_FILE_BYTES else self._fetch(file, MAX_FILE_BYTES + 1)
        if max(len(content), file.size or 0) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"{file.key[-1]} is over {MAX_FILE_BYTES:,} bytes")
        return content

    def _look(self, *, again: bool = False) -> _LastScan:
        with self._lock:
            now = self._clock()
            if self._latest is None or (again and now - self._latest[0] >= self._fresh_seconds):
                self._latest = (now, self._ask(now))
            return self._latest[1]

    def _ask(self, now: float) -> _LastScan:
        try:
            listing = self._list()
        except (FileNotFoundError, PermissionError) as error:
            self._latest_whole = None
            finding = Finding("source-missing", "Nothing is there.")
            if isinstance(error, PermissionError):
                finding = Finding("source-unreadable", f"Access is refused: {cause_of(error)}.")
            return _LastScan(Scan((), (diagnostic(finding, self.place),)))
        except OSError as error:
            return self._stand_in(now, self.unreachable.format(cause_of(error)))
        look = self._arrange(listing)
        self._latest_whole = (now, look)
        return look

    def _stand_in(self, now: float, why: str) -> _LastScan:
        """Return the last look at a place that answered, while it is young enough."""
        if self._latest_whole is None or now - self._latest_whole[0] >= self.keep_seconds:
            return _LastScan(Scan((), (diagnostic(Finding("source-unreachable", why), self.place),)))
        look = self._latest_whole[1]
        message = f"{why} Its skills are shown as they were last seen."
        report = diagnostic(Finding("source-unreachable", message), self.place)
        return look._replace(scan=Scan(look.scan.skills, (*look.scan.diagnostics, report)))

    def _arrange(self, listing: Listing) -> _LastScan:
        files = listing.files
        skills: dict[str, str] = {}
        matches: list[SkillEntry] = []
        for relative in _skill_files(files):
            folder, _, name = relative.rpartition("/")
            path = self._path(relative)
            if folder.count("/") > self.max_depth:
                listing.report("scan-limit", f"{path} is too deep to be searched.")
                continue
            if name != SKILL_FILE:
                listing.report("file-name-case", f"The file is named {name}.", path)
            file = files[relative]
            folder_name = folder.rpartition("/")[2] or self._root_name()
            matches.append(SkillEntry(path, folder_name, file.stamp, file.size or 0))
            skills[path] = relative
        matches.sort(key=attrgetter("path"))
        reports = [listing.diagnostics[key] for key in sorted(listing.diagnostics)]
        return _LastScan(Scan(tuple(matches), tuple(reports)), files, skills)


def is_skill_file(relative: str) -> bool:
    """Return whether a file is a SKILL.md, in any case of letters."""
    return relative.rpartition("/")[2].upper() == SKILL_FILE.upper()


def missing(name: str) -> FileNotFoundError:
    """Return the error for a file that is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _skill_files(files: Mapping[str, ListedFile]) -> list[str]:
    """Return the SKILL.md of each skill: the one in capitals where its folder has several."""
    names: dict[str, str] = {}
    for relative in filter(is_skill_file, files):
        folder, _, name = relative.rpartition("/")
        if name == SKILL_FILE or folder not in names:
            names[folder] = relative
    return [names[folder] for folder in sorted(names) if not _is_of_a_skill(folder, names)]


def _is_of_a_skill(folder: str, skills: Container[str]) -> bool:
    """Return whether a folder is within one that a skill calls its own."""
    parts = folder.split("/")
    return any(part in OWN_FOLDERS and "/".join(parts[:at]) in skills for at, part in enumerate(parts))
