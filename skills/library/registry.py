"""The registry: the sources of a process, the catalog of what is in them, and reading from it.

A skill is read from a snapshot of its folder: the one that a thread has loaded, or one of what is there now.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from skills_agent.skills.confined import is_beneath, read_beneath
from skills_agent.skills.errors import SkillError, SkillUnreadableError
from skills_agent.skills.format.reading import SkillPath, invalid, read_skill
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.discovery import Discovery, SourceSkill, read_file
from skills_agent.skills.library.index import Strictness, open_index
from skills_agent.skills.skill import Need, Skill, SkillMetadata, SkillRef
from skills_agent.skills.sources.plugin import Plugin, without_plugin
from skills_agent.skills.sources.protocol import SkillEntry, SkillFile, Source
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import cause_of

if TYPE_CHECKING:  # what only a load or a search needs is imported by it: `skills list` must answer at once
    from skills_agent.skills.library.snapshot import Snapshot, SnapshotPath
    from skills_agent.skills.library.snapshots import SnapshotStore
    from skills_agent.skills.machine import Needs
    from skills_agent.skills.search.vectors import FusedIndex, Vectors
    from skills_agent.skills.search.words import SearchIndex, TextTables

_CATALOGS_KEPT: Final = 8


logger = logging.getLogger(__name__)


class Registry:
    """Sources, and one catalog of them that every thread of the process shares."""

    def __init__(
        self,
        sources: Sequence[Source],
        strictness: Strictness = Strictness(),  # noqa: B008 - an immutable value
        *,
        index: Path | None = None,
        vectors: "Vectors | None" = None,
        snapshots: "Callable[[], SnapshotStore] | None" = None,
        needs: "Callable[[], Needs | None]" = lambda: None,
    ) -> None:
        """Read from sources, given from low to high precedence.

        `index` is a folder that makes the next process fast; with `vectors`, search is by meaning, too.
        `snapshots` opens the store of snapshots; without it, those of this registry end with the process.
        `needs` returns who reads what skills need; None: nobody does.
        """
        self.sources = tuple(sources)
        self._make_snapshots, self._needs = snapshots, needs
        self._fetched: dict[str, tuple[tuple[int, ...], str]] = {}
        self._strictness = strictness
        self._index = index
        skill_index = None if index is None else open_index(index, self._strictness)
        self._discovery = Discovery(self.sources, self._strictness, skill_index)
        self._tables_file = skill_index.tables_file(self.sources) if skill_index else None
        self._vectors = vectors
        self._lock = Lock()
        self._latest: Catalog | None = None
        self._recent: dict[str, Catalog] = {}

    def with_source(self, source: Source) -> "Registry":
        """Return a registry over the same sources and one stronger one, with the same options."""
        return Registry(
            (*self.sources, source),
            self._strictness,
            index=self._index,
            vectors=self._vectors,
            snapshots=lambda: self.snapshots,
            needs=self._needs,
        )

    @cached_property
    def snapshots(self) -> "SnapshotStore":
        """Return the store of snapshots; it is made with the first load."""
        from skills_agent.skills.library.snapshots import SnapshotStore  # noqa: PLC0415

        make = self._make_snapshots or SnapshotStore
        with self._lock:
            # Another thread may have made it meanwhile.
            made: SnapshotStore | None = self.__dict__.get("snapshots")
            return made or self.__dict__.setdefault("snapshots", make())

    def refresh(self) -> Catalog:
        """Return the catalog of what is there now: the same object when nothing has changed."""
        with self._lock:
            seen = self._discovery
            if not seen.scan() and self._latest:
                return self._latest
            labels = [source.label for source in self.sources]
            self._latest = catalog = Catalog(seen.readings, seen.passed_over, labels, self._index_of)
            self._recent.pop(catalog.digest, None)
            self._recent[catalog.digest] = catalog
            if len(self._recent) > _CATALOGS_KEPT:
                del self._recent[next(iter(self._recent))]
        facts = {"skills": len(catalog.skills), "sources": len(self.sources), "digest": catalog.digest}
        logger.info("discovered %(skills)d skills from %(sources)d sources", facts, extra=facts)
        return catalog

    def get(self, digest: str) -> Catalog | None:
        """Return a recent catalog of this process by its digest; nothing is scanned, nothing waited for."""
        return self._recent.get(digest)

    def load(self, ref: SkillRef) -> Skill:
        """Read a whole skill: the version of the ref, or what is there now.

        Raises as `snapshot` does, and SkillError where it is too large, no text or no skill.
        """
        snapshot = self.snapshot(ref)
        try:
            raw = read_beneath(snapshot.folder, file_name(ref), self._strictness.max_skill_bytes + 1)
        except OSError as error:
            raise SkillUnreadableError(ref.path, cause_of(error)) from error
        skill = self._parsed(raw, ref, self.place(ref), self._plugin_place(ref, snapshot))
        return replace(skill, digest=snapshot.digest)

    def digest(self, ref: SkillRef) -> str:
        """Return the digest of a skill as it is now, also where it was not copied. Raises as `load` does."""
        source, entry = self._owner(ref)
        raw = read_file(source, ref.path, self._strictness.max_skill_bytes + 1)
        self._parsed(raw, ref)
        root = _folder_of(source, ref)
        if root is None:
            return self._fetch(source, entry, ref).digest
        return self.snapshots.digest_of(root, source.plugin(ref.path))

    def snapshot(self, ref: SkillRef) -> "Snapshot":
        """Return the files of a skill: those of the version of the ref, or those that are there now.

        Raises SkillUnreadableError, SnapshotError or SkillError where that version is gone.
        """
        if not ref.digest:
            return self._take(ref)
        if self.source_of(ref.source, ref.path) is None:
            # The ledger may be that of another caller.
            raise SkillUnreadableError(ref.path, "no source has it")
        return self.snapshots.open(ref.digest) or self._take_again(ref)

    def place(self, ref: SkillRef) -> Path:
        """Return the path at which the files of a skill expect to be: its folder, also when that is gone."""
        path = Path(ref.path)
        return path.parent if path.is_absolute() else self.snapshot(ref).folder

    def plugin_of(self, ref: SkillRef) -> Plugin | None:
        """Return the plugin that a skill belongs to now."""
        source = self.source_of(ref.source, ref.path)
        return source.plugin(ref.path) if source else None

    def plugin_place(self, ref: SkillRef) -> Path:
        """Return the path at which a skill finds its plugin; that of its own folder where it has none.

        A plugin that is the workspace is found there, and no snapshot has it. Raises as `snapshot` does.
        """
        return self._plugin_place(ref, self.snapshot(ref))

    def _plugin_place(self, ref: SkillRef, snapshot: "Snapshot") -> Path:
        place, plugin = self.place(ref), self.plugin_of(ref)
        in_place = plugin.in_place if plugin else None
        return snapshot.plugin_at(place) or in_place or place

    def plugin_note(self, ref: SkillRef) -> str:
        """Say where the plugin is that a skill names, or why the skill is without; empty where it names none.

        Raises as `snapshot` does.
        """
        place, plugin = self.place(ref), self.plugin_of(ref)
        if plugin is None or plugin.folder == place:
            return ""
        snapshot = self.snapshot(ref)
        if copied := snapshot.plugin_at(place):
            return f"Its plugin is copied with it: {copied}."
        is_named = self.snapshots.names_plugin(snapshot.folder, place, plugin)
        return without_plugin(plugin, self.snapshots.refusal(plugin.folder)) if is_named else ""

    def needs(self, ref: SkillRef) -> tuple[Need, ...]:
        """Return what a skill needs of the machine, as it declares, and as its files and failed runs show it.

        Raises as `snapshot` does.
        """
        snapshot, reader = self.snapshot(ref), self._needs()
        if reader is None:
            return ()
        learned = self.snapshots.learned(snapshot.digest)
        return reader.gather(snapshot.folder, file_name(ref), snapshot.plugin, learned)

    def learn(self, ref: SkillRef, needs: Iterable[Need]) -> None:
        """Have `needs` return these, too, from now on. Raises as `snapshot` does."""
        self.snapshots.learn(self.snapshot(ref).digest, needs)

    def file_of(self, ref: SkillRef, path: str) -> "SnapshotPath":
        """Return where a path leads in a skill's snapshot. Raises as `snapshot` does."""
        return self.snapshot(ref).locate(path, self.place(ref))

    def source_of(self, label: str, path: str) -> Source | None:
        """Return the source that a SKILL.md is of, also when it is gone: several may have one label."""
        owners = (source for source in self.sources if source.label == label and source.claims(path))
        return next(owners, None)

    def is_vouched_for(self, ref: SkillRef) -> bool:
        """Return whether the operator trusts the source of a skill; False for a skill that is gone."""
        try:
            return self._owner(ref)[0].trusted
        except SkillUnreadableError:
            return False

    def hidden_by(self, ref: SkillRef) -> tuple[str, ...]:
        """Return the weaker sources that have a skill of this name, too, in the last catalog."""
        return self._latest.hidden_by(ref.name, ref.source) if self._latest else ()

    def _take(self, ref: SkillRef) -> "Snapshot":
        source, entry = self._owner(ref)
        read_file(source, ref.path, 1)
        root = _folder_of(source, ref)
        return self.snapshots.take(root, source.plugin(ref.path)) if root else self._fetch(source, entry, ref)

    def _take_again(self, ref: SkillRef) -> "Snapshot":
        with suppress(SkillUnreadableError):
            snapshot = self._take(ref)
            if snapshot.digest == ref.digest:
                return snapshot
        raise SkillError(
            f"The version of {ref.name} that was loaded ({ref.digest:.12}) is gone: it is not in the cache "
            "of snapshots, and the skill has changed since. Unload and load it to use what is there now.",
            code="skill-version-gone",
        )

    def _fetch(self, source: Source, entry: SkillEntry, ref: SkillRef) -> "Snapshot":
        """Return the snapshot of a skill that is in no folder; it is fetched again when its stamp changes."""
        stamp, digest = self._fetched.get(ref.path, ((), ""))
        if stamp == entry.stamp and (snapshot := self.snapshots.open(digest)):
            return snapshot
        snapshot = self.snapshots.put(_files_of(source, ref))
        self._fetched[ref.path] = (entry.stamp, snapshot.digest)
        return snapshot

    def _parsed(
        self, raw: bytes, ref: SkillRef, root: Path | None = None, plugin: Path | None = None
    ) -> Skill:
        """Return the skill of a whole SKILL.md, with what is known of its source, which any object may be."""
        owned = self._discovery.find(ref)
        folder = owned[1].folder if owned else ref.path.rpartition("/")[0].rpartition("/")[2]
        place = SkillPath(ref.source, ref.path, folder, owned is not None and owned[0].trusted)
        limit, no_brackets = self._strictness.max_skill_bytes, self._strictness.block_angle_brackets
        skill = read_skill(raw, place, root, limit, plugin=plugin, block_angle_brackets=no_brackets)
        if skill.metadata.name != ref.name:
            raise invalid(place, f"it is named {skill.metadata.name!r} now, not {ref.name!r}.")
        return skill

    def _owner(self, ref: SkillRef) -> SourceSkill:
        """Return the source of a skill: only what a scan found is read, for a ref may come from anywhere."""
        owned = self._discovery.find(ref)
        if owned is None:
            self.refresh()
            owned = self._discovery.find(ref)
        if owned is None:
            raise SkillUnreadableError(ref.path, "no source has it")
        return owned

    def _index_of(self, skills: Iterable[SkillMetadata]) -> "SearchIndex | FusedIndex":
        """Return an index of skills; no instructions are read before it is searched."""
        from skills_agent.skills.search.vectors import FusedIndex  # noqa: PLC0415
        from skills_agent.skills.search.words import SearchIndex  # noqa: PLC0415

        texts = [self._discovery.search_text(skill) for skill in skills]
        words = SearchIndex(texts, self._tables)
        return FusedIndex(words, texts, self._vectors) if self._vectors else words

    @cached_property
    def _tables(self) -> "TextTables":
        from skills_agent.skills.search.words import TextTables  # noqa: PLC0415

        return TextTables(self._tables_file)


def file_name(ref: SkillRef) -> str:
    """Return the name of a skill's SKILL.md in its snapshot; what is fetched always has the usual one."""
    return Path(ref.path).name if Path(ref.path).is_absolute() else SKILL_FILE


def _files_of(source: Source, ref: SkillRef) -> Iterator[SkillFile]:
    try:
        yield from source.fetch(ref.path)
    except OSError as error:
        raise SkillUnreadableError(ref.path, cause_of(error)) from error


def _folder_of(source: Source, ref: SkillRef) -> Path | None:
    """Return the folder of a skill that can be copied as it is: its SKILL.md must not be a link out of it."""
    root = source.root(ref.path)
    return root if root is not None and is_beneath(root, Path(ref.path)) else None
