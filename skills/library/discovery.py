"""Discovery: what is in the sources now, reading only what has changed since the last scan."""

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from skills_agent.skills.errors import SkillUnreadableError
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import Place, ReadMetadata, SkillHead, read_each_metadata
from skills_agent.skills.format.rules import Finding, diagnostic, one_note
from skills_agent.skills.library.index import Readings, SkillIndex, SkillReading, Strictness
from skills_agent.skills.skill import Diagnostic, SkillRef
from skills_agent.skills.sources.protocol import Scan, SkillEntry, Source

_READ_TOGETHER: Final = 64
"""Files whose first bytes are in memory at a time: at most a megabyte."""

logger = logging.getLogger(__name__)


class SourceContents(NamedTuple):
    """Everything that the sources had at one moment, from low to high precedence."""

    readings: tuple[SkillReading, ...]
    passed_over: Mapping[tuple[str, str], Sequence[Diagnostic]]
    """What the scans reported of paths that are no SKILL.md in them, by source and path."""


class SourceSkill(NamedTuple):
    """A SKILL.md and the source that has it."""

    source: Source
    entry: SkillEntry


class Discovery:
    """What is known of the files of some sources. Not to be used by two threads at once."""

    def __init__(self, sources: Sequence[Source], strictness: Strictness, index: SkillIndex | None) -> None:
        self._sources = sources
        self._strictness = strictness
        self._index = index
        self._readings: list[Readings] = [{} for _ in self._sources]
        self._scans: list[Scan] = []
        self._contents: SourceContents | None = None
        self._again = False
        """Whether a file has to be read again though it looks the same."""

    def scan(self) -> SourceContents:
        """Return what is there now: the same object when nothing has changed."""
        if self._contents is None and self._index is not None:
            self._readings = [self._index.read(source) for source in self._sources]
        folders = [getattr(source, "folders", None) for source in self._sources]
        scans = [source.scan() for source in self._sources]
        if self._contents is not None and not self._again and scans == self._scans:
            return self._contents
        self._again = False
        self._scans = scans
        for place, source in enumerate(self._sources):
            before = self._readings[place]
            now = self._readings[place] = self._read_changed(source, scans[place], before)
            is_same = (now is before or now == before) and getattr(source, "folders", None) == folders[place]
            if self._index and not is_same:
                self._index.write(source, now)
        contents = self._compose()
        if contents != self._contents:
            self._contents = contents
        return self._contents

    def find(self, ref: SkillRef) -> SourceSkill | None:
        """Return a skill of the last scan and the source that has it."""
        for source, readings in zip(self._sources, self._readings, strict=True):
            if source.label == ref.source and ref.path in readings:
                return SourceSkill(source, readings[ref.path].entry)
        return None

    def _compose(self) -> SourceContents:
        every: list[SkillReading] = []
        reports: dict[tuple[str, str], list[Diagnostic]] = {}
        for source, scan, readings in zip(self._sources, self._scans, self._readings, strict=True):
            for report in scan.diagnostics:
                reports.setdefault((source.label, report.path), []).append(report)
            if not reports and not self._again:
                every += readings.values()
                continue
            for path, reading in readings.items():
                about = reports.pop((source.label, path), ())
                if about or not reading.entry.settled:
                    # A file that has only grown older is the same.
                    entry = replace(reading.entry, settled=True)
                    reading = replace(reading, entry=entry, diagnostics=(*about, *reading.diagnostics))  # noqa: PLW2901
                every.append(reading)
        return SourceContents(tuple(every), reports)

    def _read_changed(self, source: Source, scan: Scan, before: Readings) -> Readings:
        """Read the files that have changed, those last that win over others of their name.

        These are the ones in a folder of their own name, then those nearer to the root, then the first by
        path.
        """
        if _is_all_of(before, scan):
            return before
        entries = sorted(reversed(scan.skills), key=_depth, reverse=True)  # noqa: C414 - sorting is stable
        changed = iter([entry for entry in entries if not _is_known(before.get(entry.path), entry)])
        read: dict[str, SkillReading] = {}
        while block := list(islice(changed, _READ_TOGETHER)):
            for entry, (metadata, diagnostics) in zip(block, self._read(source, block), strict=True):
                reading = SkillReading(entry, source.label, metadata, diagnostics)
                self._again = self._again or not entry.settled or reading.is_unreadable
                read[entry.path] = reading
        readings = [(entry.path, read.get(entry.path) or before[entry.path]) for entry in entries]
        return dict(sorted(readings, key=_is_named_like_its_folder))

    def _read(self, source: Source, entries: Sequence[SkillEntry]) -> list[ReadMetadata]:
        heads = [self._head(source, entry) for entry in entries]
        read = iter(
            read_each_metadata(
                [each for each in heads if isinstance(each, SkillHead)],
                block_angle_brackets=self._strictness.block_angle_brackets,
            )
        )
        every = [next(read) if isinstance(each, SkillHead) else each for each in heads]
        if self._strictness.each_note:
            return every
        return [ReadMetadata(metadata, one_note(diagnostics)) for metadata, diagnostics in every]

    def _head(self, source: Source, entry: SkillEntry) -> SkillHead | ReadMetadata:
        limit = self._strictness.max_skill_bytes
        if entry.size > limit:
            message = f"The file is {entry.size:,} bytes, over the limit of {limit:,}."
            return ReadMetadata(None, (diagnostic(Finding("skill-too-large", message), entry.path),))
        try:
            head = read_head(source, entry.path, HEAD_BYTES)
        except SkillUnreadableError as error:
            finding = Finding("skill-unreadable", f"The file cannot be read: {error.cause}.")
            return ReadMetadata(None, (diagnostic(finding, entry.path),))
        return SkillHead(head, Place(source.label, entry.path, entry.folder, source.trusted))


def read_file(source: Source, path: str, limit: int) -> bytes:
    """Return the first bytes of a SKILL.md. Raises SkillUnreadableError, and logs it."""
    try:
        return source.read(path, limit)
    except OSError as error:
        cause = cause_of(error)
        logger.error("SKILL.md unreadable: %s", path, extra={"cause": cause})  # noqa: TRY400 - the path and the cause say all, a traceback adds nothing
        raise SkillUnreadableError(path, cause) from error


def read_head(source: Source, path: str, limit: int) -> bytes:
    """Return the first bytes of a SKILL.md; of a source that lists frontmatter this alone, fetching nothing.

    Raises SkillUnreadableError.
    """
    listed = getattr(source, "head", None)
    if listed is None:
        return read_file(source, path, limit)
    try:
        head: bytes = listed(path)
    except OSError as error:
        raise SkillUnreadableError(path, cause_of(error)) from error
    return head


def cause_of(error: OSError) -> str:
    """Return in a few words why the operating system refused."""
    return error.strerror or str(error) or type(error).__name__


def _is_all_of(readings: Readings, scan: Scan) -> bool:
    """Return whether these are of all that a scan has found, and nothing is to be read again."""
    return len(readings) == len(scan.skills) and all(
        _is_known(readings.get(entry.path), entry) for entry in scan.skills
    )


def _is_known(reading: SkillReading | None, entry: SkillEntry) -> bool:
    """Return whether a reading is of a file as it is now, and need not be repeated."""
    return (
        entry.settled
        and reading is not None
        and (reading.entry is entry or reading.entry == entry)
        and not reading.is_unreadable
    )


def _is_named_like_its_folder(item: tuple[str, SkillReading]) -> bool:
    _, reading = item
    return reading.metadata is not None and reading.metadata.name == reading.entry.folder


def _depth(entry: SkillEntry) -> int:
    return entry.path.count("/")
