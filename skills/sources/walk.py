"""Find skills in a folder on disk: a bounded walk that follows no link out and opens nothing odd.

What a folder held is kept with the time of its last change, so that walking again costs one `stat` for each
folder and each SKILL.md that stayed as it was.
"""

import os
import stat
from collections import deque
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from skills_agent.skills.confined import is_beneath
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.protocol import FolderState, Scan, SkillEntry
from skills_agent.skills.text import is_text, readable

SKILL_FILE: Final = "SKILL.md"
_SKILL_FILE_UPPER: Final = SKILL_FILE.upper()
INSTALLING: Final = ".installing"
"""In a folder of skills: what is being installed, which nobody has agreed to yet."""
SKIPPED_FOLDERS: Final = frozenset(
    {
        INSTALLING,
        ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "__MACOSX",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".idea", ".vscode",
    }
)  # fmt: skip
OWN_FOLDERS: Final = frozenset({"scripts", "references", "assets", "evals"})
"""Of a skill, three by the specification: a SKILL.md in them is a file of it, and no other skill is looked
for. What eval cases work on may well be skills."""
MAX_DEPTH: Final = 6
"""Folders between the source's and a skill's own: finds 99.4 % of 4,419 skills of 442 repositories."""
MAX_FOLDERS: Final = 200_000
MAX_ENTRIES: Final = 2_000_000
_FINE_TICK: Final = 100_000_000
_COARSE_TICK: Final = 2_000_000_000
_SECOND: Final = 1_000_000_000


def is_unchanged(listing: FolderState) -> bool:
    """Return whether a folder and its SKILL.md are as they were; False where nobody knows."""
    skill = listing.skill
    try:
        if not listing.changed or _changed(listing.path) != listing.changed:
            return False
        return skill is None or _stamp(os.lstat(skill.path)) == skill.stamp
    except OSError:
        return False


def scan_of(listings: Iterable[FolderState], diagnostics: tuple[Diagnostic, ...] = ()) -> Scan:
    """Return what a walk with these listings has found."""
    skills = [listing.skill for listing in listings if listing.skill is not None]
    return Scan(tuple(sorted(skills, key=attrgetter("path"))), diagnostics)


class Walk:
    """One walk over a folder, with the listings that an earlier one kept."""

    def __init__(self, root: str, now: int, before: Iterable[FolderState] = ()) -> None:
        """Take the time of day in ns, and the listings of an earlier walk."""
        self._root = root
        self._long_ago = now - _COARSE_TICK
        self._a_tick_ago = now - _FINE_TICK
        self._before = {listing.path: listing for listing in before if listing.changed}
        self.folders: list[FolderState] = []
        """Of every folder from the root down. What is reported is of one that does not tell (`changed` 0)."""
        self._diagnostics: dict[tuple[str, str], Diagnostic] = {}

    def scan(self, *, required: bool) -> Scan:
        """Find every SKILL.md; `required` reports a root that is missing."""
        waiting = deque([(self._root, 0)] if self._is_text(self._root) else [])
        entries = 0
        while waiting:
            path, depth = waiting.popleft()
            if len(self.folders) >= MAX_FOLDERS or entries >= MAX_ENTRIES:
                message = "The folder has too many files or folders; the rest is not searched."
                self._report("scan-limit", message, self._root)
                self.folders.append(FolderState(path))
                break
            try:
                listing = self._before.get(path)
                if listing is None or not is_unchanged(listing):
                    listing = self._folder(path, MAX_ENTRIES - entries)
            except OSError as error:
                self._unreadable(path, error, required=required)
                self.folders.append(FolderState(path))
                continue
            if listing.inner and depth > MAX_DEPTH:
                message = f"Folders below {path} are too deep to be searched."
                self._report("scan-limit", message, self._root)
                listing = replace(listing, changed=0, inner=())
            self.folders.append(listing)
            entries += listing.entries
            waiting.extend([(inner, depth + 1) for inner in listing.inner])
        return scan_of(self.folders, tuple(self._diagnostics[key] for key in sorted(self._diagnostics)))

    def _folder(self, path: str, limit: int) -> FolderState:
        changed = _changed(path)
        tells = self._is_settled(changed)
        inner: list[str] = []
        own: list[os.DirEntry[str]] = []
        file: os.DirEntry[str] | None = None
        left = limit
        with os.scandir(path) as entries:
            for entry in islice(entries, limit):
                left -= 1
                name = entry.name
                if len(name) == len(SKILL_FILE) and name.upper() == _SKILL_FILE_UPPER:
                    file = entry if file is None or name == SKILL_FILE else file
                elif entry.is_dir(follow_symlinks=False):
                    if name in OWN_FOLDERS:
                        own.append(entry)
                    elif not self._is_text(entry.path):
                        tells = False
                    elif name not in SKIPPED_FOLDERS:
                        inner.append(entry.path)
                elif entry.is_symlink():
                    tells = False
                    self._link(entry)
        skill = None
        if file is not None:
            skill = self._skill(file, path)
            is_plain = file.name == SKILL_FILE and not file.is_symlink()
            tells = tells and skill is not None and skill.settled and is_plain
        if skill is None:
            inner += [entry.path for entry in own]
        return FolderState(path, changed if tells and left else 0, limit - left, tuple(inner), skill)

    def _skill(self, entry: os.DirEntry[str], folder: str) -> SkillEntry | None:
        path = entry.path
        try:
            status = entry.stat()
            outside = entry.is_symlink() and not is_beneath(Path(self._root), Path(path))
        except OSError as error:
            self._report("skill-unreadable", f"The file cannot be read: {error.strerror}.", path)
            return None
        if outside:
            self._report("link-outside", "The file is a link that leads out of the source.", path)
        elif not stat.S_ISREG(status.st_mode):
            self._report("not-regular-file", "This is no regular file, and was not opened.", path)
        else:
            if entry.name != SKILL_FILE:
                self._report("file-name-case", f"The file is named {entry.name}.", path)
            settled = self._is_settled(status.st_ctime_ns)
            name = folder[folder.rfind(os.sep) + 1 :]
            stamp = _stamp(status)
            return SkillEntry(path, name, stamp, stamp[2], settled)
        return None

    def _is_text(self, folder: str) -> bool:
        """Return whether a folder can be named in what is kept and sent; report it where it cannot."""
        if not is_text(folder):
            skill = f"{folder}/{SKILL_FILE}"
            message = "The name of the folder is not UTF-8 text: nothing in it is used."
            self._report("folder-not-text", message, skill if os.path.lexists(skill) else folder)
            return False
        return True

    def _is_settled(self, changed: int) -> bool:
        # File systems count time in ticks: of 4 to 10 ms, or of up to two seconds where they keep whole ones.
        return changed < self._long_ago or (changed < self._a_tick_ago and changed % _SECOND != 0)

    def _link(self, entry: os.DirEntry[str]) -> None:
        """Report a link to a folder elsewhere; what one to a folder in here leads to is found anyway."""
        try:
            leads_out = entry.is_dir() and not is_beneath(Path(self._root), Path(entry.path))
        except OSError:  # a loop of links
            return
        if leads_out:
            self._report("link-outside", "The folder is a link that leads out of the source.", entry.path)

    def _unreadable(self, path: str, error: OSError, *, required: bool) -> None:
        if path != self._root:
            self._report("folder-unreadable", f"The folder cannot be read: {error.strerror}.", path)
        elif not isinstance(error, FileNotFoundError):
            self._report("source-unreadable", f"The folder cannot be read: {error.strerror}.", path)
        elif required:
            self._report("source-missing", "The folder does not exist.", path)

    def _report(self, code: str, message: str, path: str) -> None:
        plain = readable(path)
        self._diagnostics[plain, code] = diagnostic(Finding(code, message), plain)


def _changed(folder: str) -> int:
    # Nobody can set this time back, as archivers do with that of the content.
    return os.stat(folder).st_ctime_ns  # noqa: PTH116 - a Path for each folder doubles the cost


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
