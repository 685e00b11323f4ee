"""Skills in a folder on disk, and the standard folders: which of two skills of one name wins."""

import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Final, NoReturn

from skills_agent.skills.confined import OutsideRootError, is_beneath, open_beneath, read_beneath
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.sources.plugin import Plugin, plugin_above
from skills_agent.skills.sources.protocol import NOISE, FolderState, Scan, SkillFile
from skills_agent.skills.sources.walk import (
    MAX_DEPTH,
    OWN_FOLDERS,
    SKILL_FILE,
    SKIPPED_FOLDERS,
    Walk,
    is_unchanged,
    scan_of,
)
from skills_agent.skills.text import readable, texts_among
from skills_agent.skills.trees import walk

STANDARD_FOLDERS: Final = (".claude/skills", ".agents/skills", ".agent/skills")
"""Low to high precedence."""
BUNDLED_FOLDER: Final = Path(__file__).resolve().parent.parent / "bundled"
_ABOVE: Final = 2
"""Folders above a configured one that may be a plugin: it may be the last one of PLUGIN/skills/NAME."""
_NOTHING: Final = Scan(())
_MAX_FILES: Final = 5_000
"""Files of one skill that a listing looks at."""

logger = logging.getLogger(__name__)


class DirectorySource:
    """A folder of skill folders, or a skill folder itself."""

    def __init__(
        self,
        folder: Path,
        label: str,
        *,
        trusted: bool = True,
        required: bool = False,
        within: Path | None = None,
        own: Sequence[Path] = (),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Name a folder; `required` reports it when it is missing.

        `within` is a folder that no link on the way to this one may lead out of: then it is reported, and
        nothing in it is used; the plugin of a skill may be anywhere in it. Elsewhere it is in this folder or,
        where a person's `own` folders are given (the workspace first), at most two above it. None of these is
        in a plugin that is copied.
        """
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are kept as the user names them
        self._prefix = f"{self.folder}{os.sep}"
        self.label = label
        self.trusted = trusted
        self._required = required
        self._within = within
        self._above = _ABOVE if own else 0
        self._own = own or ([within] if within else [])
        self._clock = clock
        self.folders: Sequence[FolderState] = ()
        """What the last scan saw of each folder: the next one looks only at those that have changed.

        An index keeps this for the next process, which puts it here before its first scan.
        """
        self._lock = Lock()
        self._scan: Scan | None = None

    def scan(self) -> Scan:
        """Find every SKILL.md beneath the folder, reading none: as it is now."""
        if self.leads_out:
            message = "The folder is a link, or reached by one, that leads out of the workspace."
            return Scan((), (diagnostic(Finding("link-outside", message), readable(str(self.folder))),))
        if not self._required and not self._is_there():  # nearly always
            self.folders = ()
            return _NOTHING
        with self._lock:
            if not self.folders or not all(map(is_unchanged, self.folders)):
                walk = Walk(str(self.folder), self._clock(), self.folders)
                self._scan = walk.scan(required=self._required)
                self.folders = walk.folders
            elif self._scan is None:
                self._scan = scan_of(self.folders)
            return self._scan

    def _is_there(self) -> bool:
        """Return whether the folder may be there: what cannot be looked at is reported by the walk."""
        try:
            return bool(self.folder.lstat())
        except OSError as error:
            return not isinstance(error, FileNotFoundError)

    @property
    def leads_out(self) -> bool:
        """Return whether a link leads to this folder out of the one that it belongs to."""
        return self._within is not None and not is_beneath(self._within, self.folder)

    def read(self, path: str, limit: int) -> bytes:
        return read_beneath(self.folder, self._relative(path), limit)

    def fetch(self, path: str) -> Iterator[SkillFile]:
        yield SkillFile(SKILL_FILE, self.read(path, sys.maxsize))
        folder, name = os.path.split(path)
        for relative, _ in list_files(Path(folder), name):
            with FileIO(open_beneath(Path(folder), relative)) as file:
                mode = os.fstat(file.fileno()).st_mode
                yield SkillFile(relative, file.readall(), executable=bool(mode & stat.S_IXUSR))

    def root(self, path: str) -> Path | None:
        self._relative(path)
        return Path(path).parent

    def plugin(self, path: str) -> Plugin | None:
        if self._within is None and not self.trusted:
            return None
        top = self._within or (self.folder, *self.folder.parents)[: self._above + 1][-1]
        folder, same_trust = Path(path).parent, self._within is not None
        return plugin_above(folder, self.folder, top=top, own=self._own, same_trust=same_trust)

    @property
    def plugin_folder(self) -> Path | None:
        """Return the folder of the plugin that these skills are in, where that is copied with them."""
        plugin = self.plugin(str(self.folder / SKILL_FILE))
        return plugin.folder if plugin is not None and plugin.state == "apart" else None

    def claims(self, path: str) -> bool:
        return path.startswith(self._prefix)

    def _relative(self, path: str) -> str:
        if not path.startswith(self._prefix):
            raise OutsideRootError(path)
        return path.removeprefix(self._prefix)


def standard_sources(
    project: Path,
    home: Path,
    configured: Sequence[Path] = (),
    *,
    bundled: bool = True,
    offered: Collection[Path] = (),
) -> list[DirectorySource]:
    """Return the sources from low to high precedence: bundled, user, project, configured.

    A folder that does not exist is an empty source; a configured one is reported as missing. A folder that
    is reached twice (the project is the home folder, or one is a link to the other) counts once, at its
    strongest. A project is a repository: folders above the one that the agent works in are sources, too, and
    the nearer one is the stronger. Skills of a project came with somebody's repository, so nobody vouches for
    them; neither for those in configured folders that a project's file of settings named (`offered`). A link
    of a project that leads out of it stands in for no other folder.
    """
    sources = [DirectorySource(BUNDLED_FOLDER, "bundled")] if bundled else []
    sources += [DirectorySource(home / folder, "user") for folder in STANDARD_FOLDERS]
    for place in (*_above(project, home), project):
        sources += [project_source(place, place / folder, "project") for folder in STANDARD_FOLDERS]
    sources += [
        project_source(project, folder, "configured", required=True)
        if folder in offered
        else DirectorySource(folder, "configured", required=True, own=(project, home))
        for folder in configured
    ]
    strongest = {_place(source): source for source in sources}
    return [source for source in sources if source in strongest.values()]


def _above(project: Path, home: Path) -> list[Path]:
    """Return the folders above a project, from that of its repository down.

    As for git, a repository that is another user's is none: its folder may be one where anybody writes.
    """
    folders = (project, *project.parents)
    top = next((at for at, folder in enumerate(folders) if _is_own(folder / ".git")), 0)
    return [folder for folder in reversed(folders[1 : top + 1]) if folder != home]


def _is_own(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except OSError:
        return False


def project_source(project: Path, folder: Path, label: str, *, required: bool = False) -> DirectorySource:
    """Return a folder of skills that came with a project: of one that is in it, no link leads out."""
    within = project if folder.is_relative_to(project) else None
    return DirectorySource(folder, label, trusted=False, required=required, within=within)


def _place(source: DirectorySource) -> str:
    return str(source.folder) if source.leads_out else os.path.realpath(source.folder)


def list_files(folder: Path, skill_file: str) -> list[tuple[str, int]]:
    """Return path and size (bytes) of each file beside a SKILL.md; folders of other skills are left out."""
    files: list[tuple[str, int]] = []
    looked = 0
    for place, inner, names in walk(folder, onerror=_raise):
        prefix = "" if place == str(folder) else f"{os.path.relpath(place, folder)}/"
        is_other = SKILL_FILE in names and prefix and prefix.partition("/")[0] not in OWN_FOLDERS
        if is_other or looked > _MAX_FILES:
            inner.clear()
            continue
        looked += len(inner) + len(names)
        is_deep = prefix.count("/") >= MAX_DEPTH
        texts = {*texts_among([*inner, *names])}
        inner[:] = [] if is_deep else sorted(texts.intersection(inner) - SKIPPED_FOLDERS)
        for name in sorted(texts.intersection(names) - NOISE):
            relative = prefix + name
            size = None if relative == skill_file else _size_of(folder, folder / relative)
            if size is not None:
                files.append((relative, size))
    return files


def _raise(error: OSError) -> NoReturn:
    raise error


def _size_of(folder: Path, path: Path) -> int | None:
    """Return the size of a regular file that is in the folder, links resolved; None for anything else."""
    try:
        status = path.stat()
        outside = path.is_symlink() and not is_beneath(folder, path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and not outside else None
