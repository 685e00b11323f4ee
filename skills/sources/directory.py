"""Skills in a folder on disk."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.confined import OutsideRootError, is_beneath, read_beneath
from skills_agent.skills.sources.protocol import Scan, SeenFolder, SkillFile
from skills_agent.skills.sources.walk import (
    SKILL_FILE,
    SKIPPED_FOLDERS,
    ScanLimits,
    Walk,
    is_text,
    is_unchanged,
    scan_of,
)

_NOISE: Final = frozenset({".DS_Store", "Thumbs.db"})
_MAX_FILES: Final = 5_000
"""Files of one skill that a listing looks at."""


class _Last(NamedTuple):
    """The last scan: in one piece, for several registries may share a source."""

    folders: Sequence[SeenFolder]
    scan: Scan | None
    """None before the first, when another process saw the folders."""


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
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Name a folder; `required` reports it when it is missing."""
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are kept as the user names them
        self.label = label
        self.trusted = trusted
        self._required = required
        self._limits = limits
        self._clock = clock
        self._last = _Last((), None)

    @property
    def address(self) -> str:
        """Where the folder is, and how far it is searched."""
        return f"{self.folder} {tuple(self._limits)}"

    @property
    def folders(self) -> Sequence[SeenFolder]:
        """What the last scan saw of each folder: the next one looks only at those that have changed."""
        return self._last.folders

    @folders.setter
    def folders(self, folders: Sequence[SeenFolder]) -> None:
        self._last = _Last(folders, None)

    def scan(self) -> Scan:
        """Find every SKILL.md beneath the folder, reading none."""
        last = self._last
        if last.folders and all(map(is_unchanged, last.folders)):
            if last.scan is not None:
                return last.scan
            scan = scan_of(last.folders)
            self._last = _Last(last.folders, scan)
            return scan
        walk = Walk(str(self.folder), self._limits, self._clock(), last.folders)
        scan = walk.scan(required=self._required)
        self._last = _Last(walk.folders, scan)
        return scan

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
            elif relative != skill_file and entry.name not in _NOISE and is_text(relative):
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
