"""The persisted index: what was read of the skills of each source, in files of the user's cache.

Concurrent processes share the files, which are replaced whole. They are a cache: whatever is wrong with one,
the skills are read again.
"""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import msgspec.msgpack

from skills_agent.skills.confined import write_own_file
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.protocol import FolderState, SkillEntry, Source

_FILES: Final = {".skills": 64, ".sqlite": 8}
"""How many files of a kind stay: readings of a source, and search tables of a catalog."""

logger = logging.getLogger(__name__)


class Strictness(NamedTuple):
    """What an operator refuses beyond the rules, or lets pass."""

    max_skill_bytes: int = 10_000_000
    block_angle_brackets: bool = False
    each_note: bool = False
    """Whether notes for an author are findings by themselves, and not one for each skill."""


class SkillReading(msgspec.Struct, frozen=True, gc=False):
    """One SKILL.md that a source has, and what reading it gave."""

    entry: SkillEntry
    source: str
    metadata: SkillMetadata | None
    """None when it is skipped."""
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_unreadable(self) -> bool:
        """Whether reading failed: the next attempt may not, though the file looks the same."""
        return self.metadata is None and any(
            diagnostic.code == "skill-unreadable" for diagnostic in self.diagnostics
        )


Readings = Mapping[str, SkillReading]
"""What was read of the files of one source, by path."""


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_DECODER: Final = msgspec.msgpack.Decoder(tuple[list[FolderState], list[SkillReading]])
"""What is known of a source: the folders that were searched, and what was read of the skills in them."""


class SkillIndex:
    """The files of an index in one folder. Skips sources that are no folders on disk."""

    def __init__(self, folder: Path, strictness: Strictness) -> None:
        self._folder = folder
        self._version = f"{_release()} {tuple(strictness)}"

    def read(self, source: Source) -> Readings:
        """Return what an earlier process read of a source, and hand it its folders."""
        if not isinstance(source, DirectorySource):
            return {}
        file = self._file([source], ".skills")
        try:
            folders, readings = _DECODER.decode(file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, ValueError, TypeError) as error:
            logger.warning("index damaged, skills read again: %s", error, extra={"path": str(file)})
            return {}
        source.folders = folders
        return {reading.entry.path: reading for reading in readings}

    def write(self, source: Source, readings: Readings) -> None:
        """Keep what is known of a source for the next process."""
        if not isinstance(source, DirectorySource):
            return
        try:
            known = _ENCODER.encode(([*source.folders], [*readings.values()]))
            write_own_file(self._file([source], ".skills"), known)
            self._remove_old()
        except OSError as error:
            logger.warning("index not used: %s", error, extra={"path": str(self._folder)})

    def tables_file(self, sources: Sequence[Source]) -> Path | None:
        """Return the file of the search tables of a catalog; None if not all sources are folders."""
        folders = [source for source in sources if isinstance(source, DirectorySource)]
        return self._file(folders, ".sqlite") if len(folders) == len(sources) else None

    def _file(self, sources: Sequence[DirectorySource], kind: str) -> Path:
        keys = [f"{source.label} {source.trusted} {source.folder}" for source in sources]
        name = hashlib.sha256("\n".join([self._version, *keys]).encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{name[:32]}{kind}"

    def _remove_old(self) -> None:
        for kind, number in _FILES.items():
            files = sorted(self._folder.glob(f"*{kind}"), key=os.path.getmtime, reverse=True)
            for file in files[number:]:
                file.unlink(missing_ok=True)


def open_index(folder: Path, strictness: Strictness) -> SkillIndex | None:
    """Return the index in a folder, which is made if it is missing; None where that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        logger.warning("index not used: %s", error, extra={"path": str(folder)})
        return None
    return SkillIndex(folder, strictness)


def _release() -> str:
    """Return what differs from another release of this code, which may read the same file differently."""
    stamps = []
    for folder in ("", "format", "library", "policy", "search", "sources"):
        with os.scandir(Path(__file__).parent.parent / folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".py")]
        stamps += sorted((name, status.st_mtime_ns, status.st_size) for name, status in files)
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
