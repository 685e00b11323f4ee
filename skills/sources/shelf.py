"""A listing of files, and which of them are skills: for sources that are no folder on disk."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from skills_agent.skills.files import OutsideRootError, parts_of
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.walk import SKILL_FILE, SKIPPED_FOLDERS
from skills_agent.skills.text import one_line

MAX_DEPTH: Final = 6
"""Folders between the source's and a skill's own, as for folders on disk."""
_MAX_REPORTED: Final = 20
"""Findings of one kind that are reported one by one."""
_NOISE: Final = frozenset({".DS_Store", "Thumbs.db"})


class ListedFile(NamedTuple):
    """A file as its source lists it."""

    at: tuple[str, ...]
    """What the source asks for when it reads the file."""
    size: int | None
    """Bytes; None where the source says it only when asked for the one file."""
    stamp: tuple[int, ...] = ()
    """Differs when the file may have changed; empty where nothing is known."""


class Listing(NamedTuple):
    """The files of a source at one time, by their path relative to its root."""

    files: Mapping[str, ListedFile]
    diagnostics: tuple[Diagnostic, ...]
    whole: bool
    """False when a part of the source did not answer."""


class ListingDraft:
    """A listing in the making: takes what a place says it has, and refuses what leads out of it."""

    def __init__(self, place: str, max_files: int) -> None:
        self.files: dict[str, ListedFile] = {}
        self.whole = True
        self._place = place
        self._max_files = max_files
        self._findings: dict[str, dict[str, Diagnostic]] = {}
        """By code, then by what they are about."""

    @property
    def full(self) -> bool:
        """Tell whether there are more files than are taken."""
        return len(self.files) > self._max_files

    def add(self, relative: str, file: ListedFile) -> None:
        """Take a file; of two with one path the first stays."""
        plain = self.checked(relative)
        if plain and SKIPPED_FOLDERS.isdisjoint(plain.split("/")):
            self.files.setdefault(plain, file)

    def checked(self, relative: str) -> str | None:
        """Return the path in its plain form; None, and a report, where it leads out of the source."""
        try:
            relative.encode()
            return "/".join(parts_of(relative))
        except UnicodeEncodeError:
            self.refuse(relative, "its name is no text")
        except OutsideRootError as error:
            self.refuse(relative, f"its name {error.reason}")
        return None

    def refuse(self, name: str, why: str) -> None:
        """Report a file that is not taken."""
        plain = one_line(name.encode("utf-8", "backslashreplace").decode(), 200)
        self._note(diagnostic(Finding("file-refused", f"{plain} is passed over: {why}."), self._place))

    def report(self, code: str, message: str) -> None:
        """Add a diagnostic about the source."""
        self._note(diagnostic(Finding(code, message), self._place))

    def listing(self) -> Listing:
        """Return what was taken, at most as many files as are allowed."""
        if self.full:
            self.report("scan-limit", f"There are more than {self._max_files:,} files; the rest is left out.")
        files = dict(islice(self.files.items(), self._max_files))
        return Listing(files, tuple(self._reported()), self.whole)

    def _reported(self) -> Iterator[Diagnostic]:
        for _, found in sorted(self._findings.items()):
            messages = sorted(found)
            yield from (found[message] for message in messages[:_MAX_REPORTED])
            more = len(messages) - _MAX_REPORTED
            if more > 0:
                yield replace(found[messages[-1]], message=f"There are {more:,} more of these.")

    def _note(self, found: Diagnostic) -> None:
        self._findings.setdefault(found.code, {})[found.message] = found


class ShelvedSkill(NamedTuple):
    """Where a skill is in a listing."""

    folder: str
    """Relative, with `/` at its end; empty where the source is a skill itself."""
    file: str
    """Name of its SKILL.md, in the case that it has."""

    @property
    def path(self) -> str:
        """Return the SKILL.md, relative to the source."""
        return self.folder + self.file


class Shelf:
    """A listing with its skills found."""

    def __init__(self, files: Mapping[str, ListedFile]) -> None:
        self.files = files
        self.skills = tuple(_skills(files))
        self._names = sorted(files)
        self._folders = sorted(skill.folder for skill in self.skills)

    def beneath(self, folder: str) -> Iterator[str]:
        """Yield the files beneath a folder (with `/` at its end), in order."""
        return _starting(self._names, folder)

    def of_skill(self, skill: ShelvedSkill) -> Iterator[str]:
        """Yield the files of a skill but its SKILL.md: without the folders of skills in it, and noise."""
        inner = tuple(folder for folder in _starting(self._folders, skill.folder) if folder != skill.folder)
        for name in self.beneath(skill.folder):
            noise = name.rpartition("/")[2] in _NOISE
            if name != skill.path and not noise and not name.startswith(inner):
                yield name


def is_skill_file(relative: str) -> bool:
    """Tell whether a file is a SKILL.md, in any case of letters."""
    return relative.rpartition("/")[2].upper() == SKILL_FILE.upper()


def inside(root: str, name: str) -> str | None:
    """Return the part of a listed name beneath the root, unchecked; None where it is not beneath it."""
    base = root.rstrip("/")
    if not base:
        return name.removeprefix("/")
    return name[len(base) + 1 :] if name.startswith(f"{base}/") else None


def _skills(files: Mapping[str, ListedFile]) -> Iterator[ShelvedSkill]:
    named: dict[str, str] = {}
    for relative in files:
        if is_skill_file(relative):
            cut = relative.rfind("/") + 1
            if relative[cut:] == SKILL_FILE or relative[:cut] not in named:
                named[relative[:cut]] = relative[cut:]
    return (ShelvedSkill(folder, named[folder]) for folder in sorted(named))


def _starting(names: list[str], prefix: str) -> Iterator[str]:
    for index in range(bisect_left(names, prefix), len(names)):
        if not names[index].startswith(prefix):
            return
        yield names[index]
