"""The folders of a run outside of the workspace: its HOME, its temporary folder, the scratch of its thread.

What a script writes there is kept, and listed with the path that it has on this machine: a script that says
`exported to /tmp/out.csv` shall not lose it. Without a scratch folder to move it into it is lost, and listed.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NamedTuple

from skills_agent.skills.scripts.report import files_since
from skills_agent.skills.scripts.runner import ScriptRequest, WrittenFile
from skills_agent.skills.trees import remove_tree, walk

_PREFIX: Final = "skills-agent-"
_TEMPORARY: Final = "tmp"
_HOME: Final = "home"
"""In the temporary folder, where nothing is kept for a skill."""
_NOT_LISTED: Final = frozenset({".cache", ".npm"})
"""Of a home: programs fill them with thousands of files that nobody asked for. They are kept all the same."""
_LONGEST_TICK: Final = 0.05
"""Seconds that the clock of files is waited for; it ticks every 1 to 10 ms."""

BLOCK_BYTES: Final = 512
"""The unit of st_blocks, everywhere."""


class DiskUse(NamedTuple):
    """What was written: bytes on the disk; files, folders and links."""

    bytes: int
    files: int


@dataclass(frozen=True)
class RunFolders:
    """The folders of one run, as they are on this machine."""

    home: Path
    temporary: Path
    """Empty when the run begins; it ends with the run."""
    scratch: Path | None
    moment: int
    """What changed since is the run's (st_ctime_ns)."""
    is_home_kept: bool

    @property
    def copy(self) -> Path:
        """Return where a copy of the skill's folder may lie for the time of the run."""
        return self.temporary.parent / "skill"

    @property
    def kept(self) -> list[Path]:
        """Return the folders that outlive the run."""
        return [*([self.home] if self.is_home_kept else []), *([self.scratch] if self.scratch else [])]

    def collect(
        self, inside: Path, elsewhere: Iterable[Path] = ()
    ) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """Return what the run wrote in these folders: what is kept, and what is lost.

        What would end with the run is moved into the scratch. What there was nowhere to keep is lost, and has
        the path that the script saw.

        `inside` is where the script saw its temporary folder; `elsewhere` it could write, too.
        """
        kept: list[WrittenFile] = []
        for folder in (*self.kept, *elsewhere):
            kept += (file.beneath(folder) for file in files_since(folder, self.moment, _NOT_LISTED))
        left = [file for file in files_since(self.temporary, self.moment, _NOT_LISTED) if file.size]
        place, moved = self._move_into_scratch({file.path.partition("/")[0] for file in left})
        beside = files_since(self.copy, self.moment, by="st_mtime_ns")  # that of what is copied is older
        lost = [file.beneath(self.copy) for file in beside]
        for file in left:
            seen = file.beneath(inside)
            if file.path.partition("/")[0] in moved:
                kept.append(file.beneath(place)._replace(seen_as=seen.path))
            else:
                lost.append(seen)
        return sorted(kept), sorted(lost)

    def _move_into_scratch(self, names: Collection[str]) -> tuple[str, set[str]]:
        """Move these entries of the temporary folder; return where to, and which could be moved."""
        moved: set[str] = set()
        if not names or self.scratch is None:
            return "", moved
        place = mkdtemp(prefix=f"{_TEMPORARY}-", dir=self.scratch)
        for name in names:
            with suppress(OSError):  # a folder that the script took its own rights from
                (self.temporary / name).rename(f"{place}/{name}")
                moved.add(name)
        return place, moved


@contextmanager
def run_folders(request: ScriptRequest) -> Iterator[RunFolders]:
    """Make the folders that end with a run, for its time.

    They are beside the scratch folder: what is left in them is moved there by a rename.
    """
    above = request.scratch.parent if request.scratch else None
    private = Path(mkdtemp(prefix=_PREFIX, dir=above))
    try:
        temporary = private / _TEMPORARY
        temporary.mkdir(0o700)
        home = request.home or temporary / _HOME
        if request.home is None:
            home.mkdir(0o700)
        moment = next_tick(temporary)
        yield RunFolders(home, temporary, request.scratch, moment, is_home_kept=request.home is not None)
    finally:
        remove_tree(private)


def next_tick(folder: Path) -> int:
    """Return a change time (st_ctime_ns) that nothing has which was written before the call.

    The clock of files stands still for some milliseconds. What a person wrote in the tick in which a run
    begins would be taken for the run's. A file system that counts in seconds is not waited for.
    """
    first = now = folder.stat().st_ctime_ns
    deadline = time.monotonic() + _LONGEST_TICK
    while now == first and time.monotonic() < deadline:
        time.sleep(0.001)
        os.utime(folder)
        now = folder.stat().st_ctime_ns
    return now


def weigh(folder: Path) -> DiskUse:
    """Return what a folder holds on the disk, following no link; what cannot be listed is left out."""
    size = count = 0
    for path, folders, files in walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):  # gone, or a path too long for the system
                size += os.lstat(f"{path}/{name}").st_blocks * BLOCK_BYTES
                count += 1
    return DiskUse(size, count)
