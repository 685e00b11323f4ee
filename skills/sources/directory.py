"""Skills in a folder on disk, and the standard folders: which of two skills of one name wins."""

import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_agent.skills.confined import OutsideRootError, is_beneath, open_beneath, read_beneath
from skills_agent.skills.sources.protocol import NOISE, FolderState, Scan, SkillFile
from skills_agent.skills.sources.walk import (
    MAX_DEPTH,
    SKILL_FILE,
    SKIPPED_FOLDERS,
    Walk,
    is_text,
    is_unchanged,
    scan_of,
)

if TYPE_CHECKING:
    from skills_agent.skills.sources.inotify import FolderWatch

STANDARD_FOLDERS: Final = (".claude/skills", ".agents/skills", ".agent/skills")
"""Low to high precedence."""
BUNDLED_FOLDER: Final = Path(__file__).resolve().parent.parent / "bundled"
_MAX_FILES: Final = 5_000
"""Files of one skill that a listing looks at."""
_WATCHED_FROM: Final = 32
"""Folders: to look at fewer costs a tenth of a millisecond, and a user has as few as 128 inotify queues."""

logger = logging.getLogger(__name__)


class _Last(NamedTuple):
    """The last scan: in one piece, for several registries may share a source."""

    folders: Sequence[FolderState]
    scan: Scan | None
    """None before the first, when another process saw the folders."""
    watch: "FolderWatch | None" = None
    """Of these folders and no others."""
    events: int | None = None
    """What the watch had counted when the look began that found the folders so; None: none did since."""
    watchable: bool = True
    """False after an attempt to watch these folders that failed."""


class DirectorySource:
    """A folder of skill folders, or a skill folder itself.

    A scan lists what has changed since the last one. On Linux, folders that stay as they are come to be
    watched; then a scan that finds no event looks at nothing but the root.
    """

    def __init__(
        self,
        folder: Path,
        label: str,
        *,
        trusted: bool = True,
        required: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Name a folder; `required` reports it when it is missing."""
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are kept as the user names them
        self.label = label
        self.trusted = trusted
        self._required = required
        self._clock = clock
        self._last = _Last((), None)
        self._confirming = Lock()

    @property
    def folders(self) -> Sequence[FolderState]:
        """Return what the last scan saw of each folder: the next one looks only at those that have changed.

        An index keeps this for the next process, which puts it here before its first scan.
        """
        return self._last.folders

    @folders.setter
    def folders(self, folders: Sequence[FolderState]) -> None:
        self._last = _Last(folders, None)

    def scan(self) -> Scan:
        """Find every SKILL.md beneath the folder, reading none: as it is now, watched or not."""
        last = self._last
        # Counted before the look: what happens during it is left for the next scan.
        events = None if last.watch is None else last.watch.events()
        if last.scan is not None and events is not None and events == last.events:
            return last.scan
        if last.folders and all(map(is_unchanged, last.folders)):
            scan = last.scan or scan_of(last.folders)
            self._confirm(last, scan, events)
            return scan
        walk = Walk(str(self.folder), self._clock(), last.folders)
        scan = walk.scan(required=self._required)
        self._last = _Last(walk.folders, scan)
        return scan

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a SKILL.md."""
        return read_beneath(self.folder, self._relative(path), limit)

    def fetch(self, path: str) -> Iterator[SkillFile]:
        """Yield every file of the skill's folder, its SKILL.md first."""
        yield SkillFile(SKILL_FILE, self.read(path, sys.maxsize))
        folder, name = os.path.split(path)
        for relative, _ in list_files(Path(folder), name):
            with FileIO(open_beneath(Path(folder), relative)) as file:
                mode = os.fstat(file.fileno()).st_mode
                yield SkillFile(relative, file.readall(), executable=bool(mode & stat.S_IXUSR))

    def root(self, path: str) -> Path | None:
        """Return the skill's folder."""
        self._relative(path)
        return Path(path).parent

    def claims(self, path: str) -> bool:
        """Return whether a path is in the folder."""
        return path.startswith(f"{self.folder}{os.sep}")

    def _confirm(self, last: _Last, scan: Scan, events: int | None) -> None:
        """Keep what a look has found unchanged; from the second look on, watch it."""
        # Another thread is at it, or was: it has kept the same. Not waited for: after a fork nobody lets go.
        if not self._confirming.acquire(blocking=False):
            return
        try:
            if self._last is not last:
                return
            if events is None and last.scan is not None and last.watchable:
                watch = _watch(last.folders)
                self._last = _Last(last.folders, scan, watch, watchable=watch is not None)
            else:
                self._last = last._replace(scan=scan, events=events)
        finally:
            self._confirming.release()

    def _relative(self, path: str) -> str:
        if not self.claims(path):
            raise OutsideRootError(path)
        return path.removeprefix(f"{self.folder}{os.sep}")


def standard_sources(
    project: Path, home: Path, configured: Sequence[Path] = (), *, bundled: bool = True
) -> list[DirectorySource]:
    """Return the sources from low to high precedence: bundled, user, project, configured.

    A folder that does not exist is an empty source; a configured one is reported as missing. A folder that
    is reached twice (the project is the home folder, or one is a link to the other) counts once, at its
    strongest. Skills of a project came with somebody's repository, so nobody vouches for them.
    """
    sources = [DirectorySource(BUNDLED_FOLDER, "bundled")] if bundled else []
    sources += [DirectorySource(home / folder, "user") for folder in STANDARD_FOLDERS]
    sources += [DirectorySource(project / folder, "project", trusted=False) for folder in STANDARD_FOLDERS]
    sources += [DirectorySource(folder, "configured", required=True) for folder in configured]
    strongest = {os.path.realpath(source.folder): source for source in sources}
    return [source for source in sources if strongest[os.path.realpath(source.folder)] is source]


def _watch(folders: Sequence[FolderState]) -> "FolderWatch | None":
    """Watch folders if that is possible here and worth it."""
    if sys.platform != "linux" or len(folders) < _WATCHED_FROM:
        return None
    # Imported only here: a process that looks once does without.
    from skills_agent.skills.sources.inotify import FolderWatch  # noqa: PLC0415

    try:
        return FolderWatch(folders)
    except OSError as error:
        root = folders[0].path
        logger.info("not watched, looked through each time: %s", root, extra={"cause": str(error)})
        return None


def list_files(folder: Path, skill_file: str) -> Iterator[tuple[str, int]]:
    """Yield path and size (bytes) of each file beside a SKILL.md; folders of other skills are left out."""
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
                if entry.name not in SKIPPED_FOLDERS and level < MAX_DEPTH:
                    inner.append((f"{relative}/", level + 1))
            elif relative != skill_file and entry.name not in NOISE and is_text(relative):
                size = _size_of(entry, folder)
                if size is not None:
                    yield relative, size
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
