"""Discovery: what is in the sources now, reading only what has changed since the last scan."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import Place, ReadMetadata, read_metadata
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import Diagnostic, SkillMetadata, SkillRef
from skills_agent.skills.sources.protocol import Scan, SkillEntry, Source

_UNREADABLE: Final = "skill-unreadable"

logger = logging.getLogger(__name__)


class Strictness(NamedTuple):
    """What an operator refuses beyond the rules."""

    max_skill_bytes: int
    block_angle_brackets: bool


class SkillReading(msgspec.Struct, frozen=True, gc=False):
    """One SKILL.md that a source has, and what reading it gave."""

    entry: SkillEntry
    source: str
    metadata: SkillMetadata | None
    """None when it is skipped."""
    diagnostics: tuple[Diagnostic, ...]


class SourceReport(NamedTuple):
    """What a source reported of what it passed over."""

    source: str
    diagnostic: Diagnostic


class SourceContents(NamedTuple):
    """Everything that the sources had at one moment, from low to high precedence."""

    seen: tuple[SkillReading, ...]
    reported: tuple[SourceReport, ...]


class SourceSkill(NamedTuple):
    """A SKILL.md and the source that has it."""

    source: Source
    entry: SkillEntry


SkillsByPath = Mapping[str, SkillReading]
"""What is known of the files of one source, by path."""


class Memory(Protocol):
    """What outlives the process."""

    def recall(self) -> list[SkillsByPath]:
        """Return what was known of each source."""
        ...

    def remember(self, known: Sequence[SkillsByPath]) -> None:
        """Keep what is known of each source."""
        ...


class Discovery:
    """What is known of the files of some sources. Not to be used by two threads at once."""

    def __init__(self, sources: Sequence[Source], strictness: Strictness, memory: Memory | None) -> None:
        self._sources = tuple(sources)
        self._strictness = strictness
        self._memory = memory
        self._known: list[SkillsByPath] = [{} for _ in self._sources]
        self._scans: tuple[Scan, ...] = ()
        self._contents: SourceContents | None = None
        self._again = False
        """Whether a file has to be read again though it looks the same."""

    def scan(self) -> SourceContents:
        """Return what is there now: the same object when nothing has changed."""
        if self._contents is None and self._memory is not None:
            self._known = self._memory.recall()
        scans = tuple([source.scan() for source in self._sources])
        if self._contents is not None and not self._again and scans == self._scans:
            return self._contents
        self._again = False
        self._scans = scans
        self._known = [
            self._read_changed(source, scan, before)
            for source, scan, before in zip(self._sources, scans, self._known, strict=True)
        ]
        if self._memory is not None:
            self._memory.remember(self._known)
        contents = self._compose()
        if self._contents is None or not _is_same(contents, self._contents):
            self._contents = contents
        return self._contents

    def owner(self, ref: SkillRef) -> SourceSkill | None:
        """Return the source of a skill that was seen."""
        for source, known in zip(self._sources, self._known, strict=True):
            if source.label == ref.source and ref.path in known:
                return SourceSkill(source, known[ref.path].entry)
        return None

    def _compose(self) -> SourceContents:
        reported = [
            SourceReport(source.label, report)
            for source, scan in zip(self._sources, self._scans, strict=True)
            for report in scan.diagnostics
        ]
        return SourceContents(
            tuple([seen for known in self._known for seen in known.values()]), tuple(reported)
        )

    def _read_changed(self, source: Source, scan: Scan, before: SkillsByPath) -> SkillsByPath:
        """Read the files that have changed, those last that win over others of their name.

        These are the ones nearer to the root, then the first by path.
        """
        known: dict[str, SkillReading] = {}
        for entry in sorted(reversed(scan.skills), key=_depth, reverse=True):  # noqa: C414 - sorting is stable
            seen = before.get(entry.path)
            if seen is None or seen.entry != entry or not entry.settled or is_unreadable(seen):
                metadata, diagnostics = self._read(source, entry)
                seen = SkillReading(entry, source.label, metadata, diagnostics)
                self._again = self._again or not entry.settled or is_unreadable(seen)
            known[entry.path] = seen
        return known

    def _read(self, source: Source, entry: SkillEntry) -> ReadMetadata:
        limit = self._strictness.max_skill_bytes
        if entry.size > limit:
            message = f"The file is {entry.size:,} bytes, over the limit of {limit:,}."
            return ReadMetadata(None, (diagnostic(Finding("skill-too-large", message), entry.path),))
        try:
            head = source.read(entry.path, HEAD_BYTES)
        except OSError as error:
            cause = cause_of(error)
            logger.error("SKILL.md unreadable: %s", entry.path, extra={"cause": cause})  # noqa: TRY400 - the path and the cause say all, a traceback adds nothing
            finding = Finding(_UNREADABLE, f"The file cannot be read: {cause}.")
            return ReadMetadata(None, (diagnostic(finding, entry.path),))
        place = Place(source.label, entry.path, entry.folder, source.trusted)
        return read_metadata(head, place, block_angle_brackets=self._strictness.block_angle_brackets)


def cause_of(error: OSError) -> str:
    """Return in a few words why the operating system refused."""
    return error.strerror or str(error) or type(error).__name__


def is_unreadable(seen: SkillReading) -> bool:
    """Return whether reading failed: the next attempt may not, though the file looks the same."""
    return seen.metadata is None and any(report.code == _UNREADABLE for report in seen.diagnostics)


def _depth(entry: SkillEntry) -> int:
    return entry.path.count("/")


def _is_same(one: SourceContents, other: SourceContents) -> bool:
    """Return whether two scans found the same; a file that has only grown older is the same."""
    if len(one.seen) != len(other.seen) or one.reported != other.reported:
        return False
    return all(
        mine is theirs or mine == replace(theirs, entry=replace(theirs.entry, settled=mine.entry.settled))
        for mine, theirs in zip(one.seen, other.seen, strict=True)
    )
