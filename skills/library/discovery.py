"""Discovery: what is in the sources now, reading only what has changed since the last scan."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from skills_agent.skills.errors import SkillUnreadableError
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import ReadMetadata, SkillPath, read_instructions, read_metadata
from skills_agent.skills.format.rules import Finding, diagnostic, one_note
from skills_agent.skills.library.index import Readings, SkillIndex, SkillReading, Strictness
from skills_agent.skills.search.match import INSTRUCTION_CHARACTERS, SearchText
from skills_agent.skills.skill import Diagnostic, SkillMetadata, SkillRef
from skills_agent.skills.sources.protocol import Scan, SkillEntry, Source
from skills_agent.skills.text import cause_of

UNTRUSTED_FACTOR: Final = 0.9
"""Where scores are close, a skill that the operator vouches for comes before one of a stranger."""
_SEARCHED_BYTES: Final = HEAD_BYTES + 4 * INSTRUCTION_CHARACTERS

logger = logging.getLogger(__name__)


SourceSkill = tuple[Source, SkillEntry]
"""A SKILL.md and the source that has it."""


class Discovery:
    """What is known of the files of some sources. Not to be used by two threads at once."""

    def __init__(self, sources: Sequence[Source], strictness: Strictness, index: SkillIndex | None) -> None:
        self._sources = sources
        self._strictness = strictness
        self._index = index
        self._readings: list[Readings] = [{} for _ in self._sources]
        self._scans: list[Scan] | None = None
        self.readings: tuple[SkillReading, ...] = ()
        """Every SKILL.md that the last scan saw, from low to high precedence."""
        self.passed_over: Mapping[tuple[str, str], Sequence[Diagnostic]] = {}
        """What it reported of paths that are no SKILL.md in the sources, by source and path."""
        self._again = False
        """Whether a file has to be read again though it looks the same."""

    def scan(self) -> bool:
        """Look at what is there now; return whether that is other than it was, as at the first scan."""
        is_first = self._scans is None
        if is_first and self._index is not None:
            self._readings = [self._index.read(source) for source in self._sources]
        folders = [getattr(source, "folders", None) for source in self._sources]
        scans = [source.scan() for source in self._sources]
        if not self._again and scans == self._scans:
            return False
        self._again = False
        for place, source in enumerate(self._sources):
            before = self._readings[place]
            now = self._readings[place] = self._read_changed(source, scans[place], before)
            is_same = now == before and getattr(source, "folders", None) == folders[place]
            if self._index and not is_same:
                self._index.write(source, now)
        before_all = (self.readings, self.passed_over)
        self._compose(scans)
        self._scans = scans  # not before: what is raised while files are read is raised by the next scan, too
        return is_first or before_all != (self.readings, self.passed_over)

    def find(self, ref: SkillRef) -> SourceSkill | None:
        """Return a skill of the last scan and the source that has it."""
        for source, readings in zip(self._sources, self._readings, strict=True):
            if source.label == ref.source and ref.path in readings:
                return source, readings[ref.path].entry
        return None

    def search_text(self, skill: SkillMetadata) -> SearchText:
        """Return the texts by which a skill is found; its instructions are read when they are asked for."""
        text = SearchText(skill.name, skill.described, factor=1.0 if skill.trusted else UNTRUSTED_FACTOR)
        owned = self.find(skill.ref)
        if owned is None:  # gone since the catalog was made
            return text
        key = f"{skill.source} {skill.path} {owned[1].stamp} {owned[1].settled}"
        return text._replace(instructions=lambda: _instructions(owned), key=key)

    def _compose(self, scans: Sequence[Scan]) -> None:
        every: list[SkillReading] = []
        reports: dict[tuple[str, str], list[Diagnostic]] = {}
        for source, scan, readings in zip(self._sources, scans, self._readings, strict=True):
            for report in scan.diagnostics:
                reports.setdefault((source.label, report.path), []).append(report)
            for path, reading in readings.items():
                about = reports.pop((source.label, path), ())
                if about or not reading.entry.settled:
                    # A file that has only grown older is the same.
                    entry = replace(reading.entry, settled=True)
                    reading = replace(reading, entry=entry, diagnostics=(*about, *reading.diagnostics))  # noqa: PLW2901
                every.append(reading)
        self.readings, self.passed_over = tuple(every), reports

    def _read_changed(self, source: Source, scan: Scan, before: Readings) -> Readings:
        """Read the files that have changed, those last that win over others of their name.

        These are the ones in a folder of their own name, then those nearer to the root, then the first by
        path.
        """
        entries = sorted(reversed(scan.skills), key=lambda entry: entry.path.count("/"), reverse=True)  # noqa: C414 - sorting is stable
        readings = []
        for entry in entries:
            reading = before.get(entry.path)
            if reading is None or not entry.settled or reading.entry != entry or reading.is_unreadable:
                metadata, diagnostics = self._read(source, entry)
                reading = SkillReading(entry, source.label, metadata, diagnostics)
                self._again = self._again or not entry.settled or reading.is_unreadable
            readings.append(reading)
        readings.sort(key=_is_named_like_its_folder)
        return {reading.entry.path: reading for reading in readings}

    def _read(self, source: Source, entry: SkillEntry) -> ReadMetadata:
        limit = self._strictness.max_skill_bytes
        if entry.size > limit:
            message = f"The file is {entry.size:,} bytes, over the limit of {limit:,}."
            return ReadMetadata(None, (diagnostic(Finding("skill-too-large", message), entry.path),))
        try:
            head = read_head(source, entry.path, HEAD_BYTES)
        except SkillUnreadableError as error:
            finding = Finding("skill-unreadable", f"The file cannot be read: {error.cause}.")
            return ReadMetadata(None, (diagnostic(finding, entry.path),))
        place = SkillPath(source.label, entry.path, entry.folder, source.trusted)
        read = read_metadata(head, place, block_angle_brackets=self._strictness.block_angle_brackets)
        return read if self._strictness.each_note else read._replace(diagnostics=one_note(read.diagnostics))


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


def _is_named_like_its_folder(reading: SkillReading) -> bool:
    return reading.metadata is not None and reading.metadata.name == reading.entry.folder


def _instructions(owned: SourceSkill) -> str:
    source, entry = owned
    try:
        return read_instructions(read_head(source, entry.path, _SEARCHED_BYTES))
    except SkillUnreadableError:
        return ""
