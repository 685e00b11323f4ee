"""Skills in a folder on disk: found by a bounded walk that follows no link out and opens nothing odd."""

import os
import stat
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.confined import OutsideRootError, is_beneath, read_beneath
from skills_agent.skills.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.protocol import FoundSkill, Scan, SkillFile

SKILL_FILE: Final = "SKILL.md"
SKIPPED_FOLDERS: Final = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "__MACOSX",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".idea", ".vscode",
    }
)  # fmt: skip
_NOISE: Final = frozenset({".DS_Store", "Thumbs.db"})
_MAX_FILES: Final = 5_000
"""Files of one skill that a listing looks at."""


class ScanLimits(NamedTuple):
    """How far a walk goes. What lies beyond is reported."""

    depth: int = 6
    """Folders between the source's and a skill's own: finds 99.4 % of 4,419 skills of 442 repositories."""
    skills: int = 50_000
    folders: int = 200_000
    entries: int = 2_000_000


class DirectorySource:
    """A folder of skill folders, or a skill folder itself."""

    def __init__(
        self,
        folder: Path,
        label: str,
        *,
        trusted: bool = True,
        required: bool = False,
        limits: ScanLimits = ScanLimits(),  # noqa: B008 - an immutable value
    ) -> None:
        """Name a folder; `required` reports it when it is missing."""
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are kept as the user names them
        self.label = label
        self.trusted = trusted
        self._required = required
        self._limits = limits

    def scan(self) -> Scan:
        """Find every SKILL.md beneath the folder, reading none."""
        walk = _Walk(self.folder, self._limits)
        return walk.scan(required=self._required)

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a SKILL.md."""
        return read_beneath(self.folder, self._relative(path), limit)

    def files(self, path: str) -> Iterator[SkillFile]:
        """Yield the other files of the skill's folder, in path order within each folder."""
        self._relative(path)
        return _files(Path(path).parent, os.path.basename(path), self._limits.depth)  # noqa: PTH119

    def read_file(self, path: str, relative: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file of the skill's folder."""
        self._relative(path)
        return read_beneath(Path(path).parent, relative, limit)

    def root(self, path: str) -> Path | None:
        """Return the skill's folder."""
        self._relative(path)
        return Path(path).parent

    def _relative(self, path: str) -> str:
        inside = f"{self.folder}{os.sep}"
        if not path.startswith(inside):
            raise OutsideRootError(path)
        return path.removeprefix(inside)


class _Walk:
    """One walk over a folder."""

    def __init__(self, root: Path, limits: ScanLimits) -> None:
        self._root = root
        self._limits = limits
        self._found: list[FoundSkill] = []
        self._diagnostics: dict[tuple[str, str], Diagnostic] = {}
        self._entries_left = limits.entries

    def scan(self, *, required: bool) -> Scan:
        root = os.fspath(self._root)
        waiting = deque([(root, 0)])
        folders = 0
        while waiting:
            path, depth = waiting.popleft()
            folders += 1
            if self._is_over(folders):
                break
            try:
                inner = self._folder(path)
            except OSError as error:
                self._unreadable(path, error, required=required)
                continue
            if depth <= self._limits.depth:
                waiting.extend((folder, depth + 1) for folder in inner)
            elif inner:
                self._report("scan-limit", f"Folders below {path} are too deep to be searched.", root)
        self._found.sort()
        return Scan(tuple(self._found), tuple(self._diagnostics[key] for key in sorted(self._diagnostics)))

    def _is_over(self, folders: int) -> bool:
        limits = self._limits
        if folders > limits.folders:
            reason = f"more than {limits.folders:,} folders"
        elif len(self._found) >= limits.skills:
            reason = f"{limits.skills:,} skills or more"
        elif self._entries_left <= 0:
            reason = f"more than {limits.entries:,} files"
        else:
            return False
        self._report(
            "scan-limit", f"The folder has {reason}; the rest is not searched.", os.fspath(self._root)
        )
        return True

    def _folder(self, path: str) -> list[str]:
        """Note the SKILL.md of one folder, and return the folders in it."""
        inner: list[str] = []
        skill: os.DirEntry[str] | None = None
        with os.scandir(path) as entries:
            for entry in islice(entries, self._entries_left):
                self._entries_left -= 1
                name = entry.name
                if len(name) == len(SKILL_FILE) and name.upper() == SKILL_FILE.upper():
                    skill = entry if skill is None or name == SKILL_FILE else skill
                elif entry.is_dir(follow_symlinks=False):
                    if name not in SKIPPED_FOLDERS:
                        inner.append(entry.path)
                elif entry.is_symlink():
                    self._link(entry)
        if skill is not None:
            self._skill(skill, path)
        return inner

    def _skill(self, entry: os.DirEntry[str], folder: str) -> None:
        try:
            status = entry.stat()
            outside = entry.is_symlink() and not is_beneath(self._root, Path(entry.path))
        except OSError as error:
            self._report("skill-unreadable", f"The file cannot be read: {error.strerror}.", entry.path)
            return
        if outside:
            self._report("link-outside", "The file is a link that leads out of the source.", entry.path)
        elif not stat.S_ISREG(status.st_mode):
            self._report("not-regular-file", "This is no regular file, and was not opened.", entry.path)
        elif not _is_text(entry.path):
            self._report("skill-unreadable", "The path is not UTF-8 text.", entry.path)
        else:
            if entry.name != SKILL_FILE:
                self._report("file-name-case", f"The file is named {entry.name}.", entry.path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            name = folder.rpartition(os.sep)[2]
            self._found.append(FoundSkill(entry.path, name, stamp, status.st_size))

    def _link(self, entry: os.DirEntry[str]) -> None:
        """Report a link to a folder elsewhere; what one to a folder in here leads to is found anyway."""
        try:
            leads_out = entry.is_dir() and not is_beneath(self._root, Path(entry.path))
        except OSError:  # a loop of links
            return
        if leads_out:
            self._report("link-outside", "The folder is a link that leads out of the source.", entry.path)

    def _unreadable(self, path: str, error: OSError, *, required: bool) -> None:
        if path != os.fspath(self._root):
            self._report("folder-unreadable", f"The folder cannot be read: {error.strerror}.", path)
        elif not isinstance(error, FileNotFoundError):
            self._report("source-unreadable", f"The folder cannot be read: {error.strerror}.", path)
        elif required:
            self._report("source-missing", "The folder does not exist.", path)

    def _report(self, code: str, message: str, path: str) -> None:
        plain = path if _is_text(path) else os.fsencode(path).decode("utf-8", "backslashreplace")
        self._diagnostics[plain, code] = diagnostic(Finding(code, message), plain)


def _is_text(path: str) -> bool:
    # Bytes of a file name that are not UTF-8 become lone surrogates, which nothing downstream can write.
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _files(folder: Path, skill_file: str, depth: int) -> Iterator[SkillFile]:
    """Walk one skill's folder without the folders of skills in it."""
    waiting = [("", 0)]
    looked = 0
    while waiting:
        prefix, level = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            listed = sorted(islice(entries, _MAX_FILES), key=lambda entry: entry.name)
        if prefix and any(entry.name == SKILL_FILE for entry in listed):
            continue
        inner: list[tuple[str, int]] = []
        for entry in listed:
            looked += 1
            relative = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_FOLDERS and level < depth:
                    inner.append((f"{relative}/", level + 1))
            elif relative != skill_file and entry.name not in _NOISE and _is_text(relative):
                size = _size_of(entry, folder)
                if size is not None:
                    yield SkillFile(relative, size)
        if looked > _MAX_FILES:
            return
        waiting.extend(reversed(inner))


def _size_of(entry: os.DirEntry[str], folder: Path) -> int | None:
    """Return the size of a regular file that is in the folder, links resolved; None for anything else."""
    try:
        status = entry.stat()
        outside = entry.is_symlink() and not is_beneath(folder, Path(entry.path))
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and not outside else None
