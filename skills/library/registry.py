"""The registry: the sources of a process, the catalog of what is in them, and reading from it."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from skills_agent.skills.errors import (
    ResourceNotFoundError,
    ResourceNotTextError,
    ResourceOutsideError,
    ResourceTooLargeError,
    ResourceUnreadableError,
    SkillInvalidError,
    SkillUnreadableError,
)
from skills_agent.skills.files import NotRegularFileError, OutsideRootError
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import Place, read_instructions, read_skill
from skills_agent.skills.library.catalog import Catalog, Searched, described
from skills_agent.skills.library.discovery import Discovery, Owned, Sight, Strictness, cause_of
from skills_agent.skills.library.resources import list_resources, relative_to
from skills_agent.skills.search.tables import TemporaryTables
from skills_agent.skills.search.vectors import Vectors
from skills_agent.skills.search.words import SearchSetting, SearchText
from skills_agent.skills.skill import ResourceListing, Skill, SkillMetadata, SkillRef
from skills_agent.skills.sources.protocol import SkillFile, Source
from skills_agent.skills.text import clean_text, normalize_line_ends

if TYPE_CHECKING:
    from skills_agent.skills.library.indexed_memory import IndexedMemory

MAX_SKILL_BYTES: Final = 10_000_000
MAX_RESOURCE_BYTES: Final = 1_000_000
_SEARCHED_BYTES: Final = HEAD_BYTES + 4 * SearchSetting().instruction_characters
_CATALOGS_KEPT: Final = 8
_FILES_NAMED: Final = 50
"""In the error for a resource that is not there."""

logger = logging.getLogger(__name__)


class Registry:
    """Sources, and one catalog of them that every thread of the process shares.

    `refresh` reads the first bytes of each file that has changed; what has not costs one `stat` a file, and
    nothing where its source is watched.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        max_skill_bytes: int = MAX_SKILL_BYTES,
        block_angle_brackets: bool = False,
        index: Path | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        """Take sources from low to high precedence.

        `index` is a file that makes the next process fast; with `vectors`, search is by meaning, too.
        """
        self.sources = tuple(sources)
        self._strictness = Strictness(max_skill_bytes, block_angle_brackets)
        self._index = index
        memory = None if index is None else self._memory(index)
        self._discovery = Discovery(self.sources, self._strictness, memory)
        tables = TemporaryTables() if memory is None else memory.tables
        self._searched = Searched(self._search_text, tables, vectors)
        self._lock = Lock()
        self._sight: Sight | None = None
        self._latest = Catalog(())
        self._lately: dict[str, Catalog] = {}

    def with_source(self, source: Source) -> "Registry":
        """Return a registry over the same sources and one stronger one, with the same options."""
        return Registry(
            (*self.sources, source),
            max_skill_bytes=self._strictness.max_skill_bytes,
            block_angle_brackets=self._strictness.block_angle_brackets,
            index=self._index,
            vectors=self._searched.vectors,
        )

    def refresh(self) -> Catalog:
        """Return the catalog of what is there now: the same object when nothing has changed."""
        with self._lock:
            sight = self._discovery.look()
            if sight is self._sight:
                return self._latest
            labels = [source.label for source in self.sources]
            catalog = Catalog(sight.seen, sight.reported, labels, self._searched)
            self._sight, self._latest = sight, catalog
            self._lately.pop(catalog.digest, None)
            self._lately[catalog.digest] = catalog
            if len(self._lately) > _CATALOGS_KEPT:
                del self._lately[next(iter(self._lately))]
        logger.info(
            "discovered %d skills from %d sources",
            len(catalog.skills),
            len(self.sources),
            extra={"skills": len(catalog.skills), "sources": len(self.sources), "digest": catalog.digest},
        )
        return catalog

    def get(self, digest: str) -> Catalog | None:
        """Return a catalog that this process has made lately. Waits for nothing, not even for a scan."""
        return self._lately.get(digest)

    def load(self, ref: SkillRef) -> Skill:
        """Read a whole skill.

        Raises:
            SkillUnreadableError: it is gone, or cannot be read.
            SkillTooLargeError, SkillUndecodableError, SkillInvalidError: what it holds is refused.
        """
        source, found = self._owner(ref)
        try:
            raw = source.read(ref.path, self._strictness.max_skill_bytes + 1)
        except OSError as error:
            cause = cause_of(error)
            logger.error("SKILL.md unreadable: %s", ref.path, extra={"skill": ref.name, "cause": cause})  # noqa: TRY400 - the path and the cause say all, a traceback adds nothing
            raise SkillUnreadableError(ref.path, cause) from error
        skill = read_skill(
            raw,
            Place(source.label, ref.path, found.folder, source.trusted),
            source.root(ref.path),
            self._strictness.max_skill_bytes,
            block_angle_brackets=self._strictness.block_angle_brackets,
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
            cause = cause_of(error)
            logger.warning("resource listing failed: %s", ref.path, extra={"skill": ref.name, "cause": cause})
            raise SkillUnreadableError(ref.path, cause) from error

    def read_resource(self, ref: SkillRef, path: str, limit: int = MAX_RESOURCE_BYTES) -> str:
        """Return a text file of a skill: line ends normalised, invisible characters removed.

        Raises:
            SkillUnreadableError: the skill is gone.
            ResourceError: not there, outside the folder, unreadable, over `limit` bytes, or no text.
        """
        raw = self.read_bytes(ref, path, limit)
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ResourceNotTextError(ref.name, path, len(raw)) from error
        if "\0" in text:
            raise ResourceNotTextError(ref.name, path, len(raw))
        return clean_text(normalize_line_ends(text)).text

    def read_bytes(self, ref: SkillRef, path: str, limit: int = MAX_RESOURCE_BYTES) -> bytes:
        """Return a file of a skill as it is.

        Raises:
            SkillUnreadableError: the skill is gone.
            ResourceError: not there, outside the folder, unreadable, or over `limit` bytes.
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
            raise ResourceUnreadableError(ref.name, path, cause_of(error)) from error
        if len(raw) > limit:
            size = _size_of(source.files(ref.path), relative, at_least=len(raw))
            raise ResourceTooLargeError(ref.name, path, size, limit)
        return raw

    def root(self, ref: SkillRef) -> Path | None:
        """Return the folder of a skill on this machine; None where its source is no file system.

        Raises:
            SkillUnreadableError: the skill is gone.
        """
        return self._owner(ref).source.root(ref.path)

    def _memory(self, index: Path) -> "IndexedMemory":
        # SQLite and msgspec are imported only where there is an index.
        from skills_agent.skills.library.index_file import IndexFile  # noqa: PLC0415
        from skills_agent.skills.library.indexed_memory import IndexedMemory  # noqa: PLC0415

        return IndexedMemory(IndexFile(index), self.sources, self._strictness)

    def is_vouched_for(self, ref: SkillRef) -> bool:
        """Tell whether the operator trusts the source of a skill.

        Raises:
            SkillUnreadableError: the skill is gone.
        """
        return self._owner(ref).source.trusted

    def _owner(self, ref: SkillRef) -> Owned:
        """Return the source of a skill: only what a scan found is read, for a ref may come from anywhere."""
        owned = self._discovery.owner(ref)
        if owned is None:
            self.refresh()
            owned = self._discovery.owner(ref)
        if owned is None:
            raise SkillUnreadableError(ref.path, "no source has it")
        return owned

    def _search_text(self, skill: SkillMetadata) -> SearchText:
        owned = self._discovery.owner(skill.ref)
        if owned is None:  # gone since the catalog was made
            return described(skill)
        key = f"{skill.source} {skill.path} {owned.found.stamp} {owned.found.settled}"
        return described(skill)._replace(instructions=lambda: _instructions(owned), key=key)


def _instructions(owned: Owned) -> str:
    try:
        return read_instructions(owned.source.read(owned.found.path, _SEARCHED_BYTES))
    except OSError as error:
        logger.warning("not searched: %s", owned.found.path, extra={"cause": cause_of(error)})
        return ""


def _size_of(files: Iterator[SkillFile], relative: str, at_least: int) -> int:
    return next((file.size for file in files if file.path == relative), at_least)
