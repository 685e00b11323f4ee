"""Where skills come from: the one protocol that every source keeps, and what a scan returns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.plugin import Plugin

NOISE: Final = frozenset({".DS_Store", "Thumbs.db"})
"""Files that belong to no skill."""


class SkillEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A SKILL.md that a scan has seen and not read.

    There are thousands of these: a struct that the garbage collector passes over.
    """

    path: str
    """As the source names it; unique within the source."""
    folder: str
    """Name of the folder that holds it."""
    stamp: tuple[int, ...]
    """Differs when the file may have changed."""
    size: int
    """Bytes."""
    settled: bool = True
    """False for a file that changed a moment ago: another change might leave the stamp as it is."""


class Scan(NamedTuple):
    """Every SKILL.md of a source, in path order, and what was passed over."""

    skills: tuple[SkillEntry, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


class FolderState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a scan has seen of one folder, for the next one."""

    path: str
    changed: int = 0
    """When the folder last changed (ns); 0 where that does not tell whether the rest still holds."""
    entries: int = 0
    inner: tuple[str, ...] = ()
    """Paths of the folders in it that are searched."""
    skill: SkillEntry | None = None


class SkillFile(NamedTuple):
    """A file of a skill, whole."""

    path: str
    """Relative to the skill's folder, with `/`."""
    content: bytes
    executable: bool = False


class Source(Protocol):
    """A place that holds skills.

    Paths that a source takes are those of its last scans. `read` and `fetch` raise OSError: FileNotFoundError
    for what is not there, ConfinedError (skills/confined.py) for what is refused. A place that lists
    frontmatter apart from files has a method `head(path)`, too: it returns the frontmatter with its fences,
    and the catalog needs no file then. Skills of a source that does not say otherwise are in no folder.
    """

    label: str
    """bundled, user, project, configured, ...: the `source` of its skills."""
    trusted: bool
    """Whether the operator vouches for what is in it."""

    def scan(self) -> Scan:
        """Find every SKILL.md, reading none. Never raises for what it finds: it reports."""

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a SKILL.md."""

    def fetch(self, path: str) -> Iterator[SkillFile]:
        """Yield every file of a skill: its SKILL.md first; folders of other skills and links out left out."""

    def root(self, path: str) -> Path | None:  # noqa: ARG002 - a source says otherwise
        """Return the skill's folder on this machine; None where there is none."""
        return None

    def plugin(self, path: str) -> Plugin | None:  # noqa: ARG002 - a source says otherwise
        """Return the plugin on this machine that a skill belongs to; None where there is none."""
        return None

    def claims(self, path: str) -> bool:
        """Return whether a SKILL.md of this path would be one of this source, also when it is gone."""
