"""The registry: the sources of a process, the catalog of what is in them, and reading from it."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from skills_agent.skills.catalog import Catalog, Reported, SeenSkill, build_catalog
from skills_agent.skills.confined import NotRegularFileError, OutsideRootError
from skills_agent.skills.errors import (
    ResourceNotFoundError,
    ResourceNotTextError,
    ResourceOutsideError,
    ResourceTooLargeError,
    ResourceUnreadableError,
    SkillInvalidError,
    SkillUnreadableError,
)
from skills_agent.skills.frontmatter import HEAD_BYTES
from skills_agent.skills.reading import Place, ReadMetadata, read_metadata, read_skill
from skills_agent.skills.resources import list_resources, relative_to
from skills_agent.skills.rules import Finding, diagnostic
from skills_agent.skills.skill import ResourceListing, Skill, SkillRef
from skills_agent.skills.sources.protocol import FoundSkill, Scan, SkillFile, Source
from skills_agent.skills.text import clean_text, normalize_line_ends

MAX_SKILL_BYTES: Final = 10 * 1024 * 1024
MAX_RESOURCE_BYTES: Final = 1_000_000
_CATALOGS_KEPT: Final = 8
_FILES_NAMED: Final = 50
"""In the error for a resource that is not there."""

logger = logging.getLogger(__name__)


class _Read(NamedTuple):
    """A SKILL.md as a scan found it, and what was read of it then."""

    found: FoundSkill
    read: ReadMetadata


class _Owned(NamedTuple):
    """A SKILL.md and the source that has it."""

    source: Source
    found: FoundSkill


class Registry:
    """Sources, and one catalog of them that every thread of the process shares.

    `refresh` costs one `stat` for each file that has not changed, and reads the first bytes of the others.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        max_skill_bytes: int = MAX_SKILL_BYTES,
        block_angle_brackets: bool = False,
    ) -> None:
        """Take sources from low to high precedence."""
        self.sources = tuple(sources)
        self._max_skill_bytes = max_skill_bytes
        self._block_angle_brackets = block_angle_brackets
        self._lock = Lock()
        self._scans: list[Scan] = []
        self._read: list[dict[str, _Read]] = [{} for _ in self.sources]
        """What is known of the files of each source, by path."""
        self._latest: Catalog | None = None
        self._lately: dict[str, Catalog] = {}
        self._again = False
        """Whether a file could not be read: its stamp says nothing about the next try."""

    def with_source(self, source: Source) -> "Registry":
        """Return a registry over the same sources and one stronger one, with the same options."""
        return Registry(
            (*self.sources, source),
            max_skill_bytes=self._max_skill_bytes,
            block_angle_brackets=self._block_angle_brackets,
        )

    def refresh(self) -> Catalog:
        """Return the catalog of what is there now: the same object when nothing has changed."""
        with self._lock:
            scans = [source.scan() for source in self.sources]
            if self._latest is not None and not self._again and scans == self._scans:
                return self._latest
            seen = list(self._see(scans))
            self._scans = scans
            self._latest = build_catalog(
                seen,
                [
                    Reported(source.label, found)
                    for source, scan in zip(self.sources, scans, strict=True)
                    for found in scan.diagnostics
                ],
                [source.label for source in self.sources],
            )
            self._lately.pop(self._latest.digest, None)
            self._lately[self._latest.digest] = self._latest
            if len(self._lately) > _CATALOGS_KEPT:
                del self._lately[next(iter(self._lately))]
            catalog = self._latest
        logger.info(
            "discovered %d skills from %d sources",
            len(catalog.skills),
            len(self.sources),
            extra={"skills": len(catalog.skills), "sources": len(self.sources), "digest": catalog.digest},
        )
        return catalog

    def get(self, digest: str) -> Catalog | None:
        """Return a catalog that this process has made lately."""
        with self._lock:
            return self._lately.get(digest)

    def load(self, ref: SkillRef) -> Skill:
        """Read a whole skill.

        Raises:
            SkillUnreadableError: it is gone, or cannot be read.
            SkillTooLargeError, SkillUndecodableError, SkillInvalidError: what it holds is refused.
        """
        source, found = self._owner(ref)
        try:
            raw = source.read(ref.path, self._max_skill_bytes + 1)
        except OSError as error:
            cause = _cause(error)
            logger.error("SKILL.md unreadable: %s", ref.path, extra={"skill": ref.name, "cause": cause})  # noqa: TRY400 - the path and the cause say all, a traceback adds nothing
            raise SkillUnreadableError(ref.path, cause) from error
        skill = read_skill(
            raw,
            Place(source.label, ref.path, found.folder),
            source.root(ref.path),
            self._max_skill_bytes,
            block_angle_brackets=self._block_angle_brackets,
        )
        if skill.metadata.name != ref.name:
            raise SkillInvalidError(ref.path, f"it is named {skill.metadata.name!r} now, not {ref.name!r}.")
        return skill

    def resources(self, ref: SkillRef) -> ResourceListing:
        """List the files of a skill other than its SKILL.md, reading none.

        Raises:
            SkillUnreadableError: the skill is gone, or its folder cannot be listed.
        """
        source, _ = self._owner(ref)
        try:
            return list_resources(source.files(ref.path))
        except OSError as error:
            cause = _cause(error)
            logger.warning("resource listing failed: %s", ref.path, extra={"skill": ref.name, "cause": cause})
            raise SkillUnreadableError(ref.path, cause) from error

    def read_resource(self, ref: SkillRef, path: str, limit: int = MAX_RESOURCE_BYTES) -> str:
        """Return a text file of a skill: line ends normalised, invisible characters removed.

        Raises:
            SkillUnreadableError: the skill is gone.
            ResourceError: not there, outside the folder, unreadable, over `limit` bytes, or no text.
        """
        source, _ = self._owner(ref)
        relative = relative_to(source.root(ref.path), path)
        try:
            raw = source.read_file(ref.path, relative, limit + 1)
        except OutsideRootError as error:
            raise ResourceOutsideError(ref.name, path) from error
        except (FileNotFoundError, NotADirectoryError, NotRegularFileError) as error:
            known = [resource.path for resource in self.resources(ref).resources[:_FILES_NAMED]]
            raise ResourceNotFoundError(ref.name, path, known) from error
        except OSError as error:
            raise ResourceUnreadableError(ref.name, path, _cause(error)) from error
        if len(raw) > limit:
            size = _size_of(source.files(ref.path), relative, at_least=len(raw))
            raise ResourceTooLargeError(ref.name, path, size, limit)
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ResourceNotTextError(ref.name, path, len(raw)) from error
        if "\0" in text:
            raise ResourceNotTextError(ref.name, path, len(raw))
        return clean_text(normalize_line_ends(text)).text

    def root(self, ref: SkillRef) -> Path | None:
        """Return the folder of a skill on this machine; None where its source is no file system.

        Raises:
            SkillUnreadableError: the skill is gone.
        """
        return self._owner(ref).source.root(ref.path)

    def trusts(self, ref: SkillRef) -> bool:
        """Tell whether somebody vouches for the skill's source. Raises SkillUnreadableError without one."""
        return self._owner(ref).source.trusted

    def _owner(self, ref: SkillRef) -> _Owned:
        """Return the source of a skill: only what a scan found is read, for a ref may come from anywhere."""
        owned = self._lookup(ref)
        if owned is None:
            self.refresh()
            owned = self._lookup(ref)
        if owned is None:
            raise SkillUnreadableError(ref.path, "no source has it")
        return owned

    def _lookup(self, ref: SkillRef) -> _Owned | None:
        for source, known in zip(self.sources, self._read, strict=True):
            if source.label == ref.source and ref.path in known:
                return _Owned(source, known[ref.path].found)
        return None

    def _see(self, scans: Sequence[Scan]) -> Iterator[SeenSkill]:
        """Read what has changed, from low to high precedence.

        Of two skills with one name in one source the one nearer to the root, then the first by path, wins.
        """
        self._again = False
        known: list[dict[str, _Read]] = []
        for source, scan, before in zip(self.sources, scans, self._read, strict=True):
            now: dict[str, _Read] = {}
            for found in sorted(scan.found, key=_nearness, reverse=True):
                cached = before.get(found.path)
                if cached is None or cached.found != found or cached.read.metadata is None:
                    cached = _Read(found, self._read_metadata(source, found))
                now[found.path] = cached
                metadata, diagnostics = cached.read
                yield SeenSkill(found.path, source.label, found.folder, metadata, diagnostics)
            known.append(now)
        self._read = known

    def _read_metadata(self, source: Source, found: FoundSkill) -> ReadMetadata:
        if found.size > self._max_skill_bytes:
            message = f"The file is {found.size:,} bytes, over the limit of {self._max_skill_bytes:,}."
            return ReadMetadata(None, (diagnostic(Finding("skill-too-large", message), found.path),))
        try:
            head = source.read(found.path, HEAD_BYTES)
        except OSError as error:
            cause = _cause(error)
            logger.error("SKILL.md unreadable: %s", found.path, extra={"cause": cause})  # noqa: TRY400 - as above
            self._again = True
            finding = Finding("skill-unreadable", f"The file cannot be read: {cause}.")
            return ReadMetadata(None, (diagnostic(finding, found.path),))
        place = Place(source.label, found.path, found.folder)
        return read_metadata(head, place, block_angle_brackets=self._block_angle_brackets)


def _nearness(found: FoundSkill) -> tuple[int, str]:
    return found.path.count("/"), found.path


def _cause(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _size_of(files: Iterator[SkillFile], relative: str, at_least: int) -> int:
    return next((file.size for file in files if file.path == relative), at_least)
