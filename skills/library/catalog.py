"""The catalog: every skill that was found, at one moment, known by its digest."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.format.rules import Finding, diagnostic, lookalikes_among
from skills_agent.skills.format.values import name_from_folder, safe_name
from skills_agent.skills.library.index import SkillReading
from skills_agent.skills.library.listing import CatalogListing, fit
from skills_agent.skills.skill import Diagnostic, SkillMetadata

if TYPE_CHECKING:  # what only a search needs is imported by it: `skills list` must answer at once
    from skills_agent.skills.search.vectors import FusedIndex
    from skills_agent.skills.search.words import SearchIndex

EntryStatus = Literal["shown", "shadowed", "skipped"]


class CatalogEntry(msgspec.Struct, frozen=True):
    """What became of one SKILL.md."""

    path: str
    source: str
    name: str
    """Its own name, or that of its folder when it could not be read."""
    status: EntryStatus
    reason: str = ""
    """Why it is not shown."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Catalog:
    """The skills that are in effect, those that are not and why. Immutable, and shared by threads."""

    def __init__(
        self,
        readings: Sequence[SkillReading],
        passed_over: Mapping[tuple[str, str], Sequence[Diagnostic]] = MappingProxyType({}),
        sources: Sequence[str] = (),
        make_index: "Callable[[Iterable[SkillMetadata]], SearchIndex | FusedIndex] | None" = None,
    ) -> None:
        """Make a catalog of what was read, from low to high precedence, and of what sources reported besides.

        Of several skills with one name, the last is in effect.
        """
        self._readings = _without_lookalikes(readings)
        self._passed_over = passed_over
        self._by_name: dict[str, SkillMetadata] = {}
        self._by_source: dict[str, dict[str, SkillMetadata]] = {}
        for reading in self._readings:
            if (skill := reading.metadata) is not None:
                self._by_name[skill.name] = skill
                self._by_source.setdefault(skill.source, {})[skill.name] = skill
        self.skills = tuple([self._by_name[name] for name in sorted(self._by_name)])
        self.sources = tuple(dict.fromkeys(sources))
        self.digest = _digest_of(self.skills, self._hidden())
        self._make_index = make_index

    @cached_property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """What became of every SKILL.md."""
        entries = [_entry(reading, self._by_name) for reading in self._readings]
        for (source, path), reports in self._passed_over.items():
            if path.upper().endswith("/SKILL.MD") or any(found.severity == "error" for found in reports):
                folder = path.rpartition("/")[0].rpartition("/")[2]
                entries.append(_skipped(path, source, folder, tuple(reports)))
        return tuple(entries)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that was odd: about skills, then about what sources passed over."""
        about_skills = [found for entry in self.entries[: len(self._readings)] for found in entry.diagnostics]
        return (*about_skills, *(found for reports in self._passed_over.values() for found in reports))

    def find(
        self,
        name: str,
        source: str | None = None,
        is_told: Callable[[SkillMetadata], bool] = lambda _: True,
    ) -> SkillMetadata:
        """Return the skill of that name, or of `name@source`.

        Raises UnknownSkillError, which carries the names that there are and may be told.
        """
        if found := self.get(name, source):
            return found
        name, source = _name_and_source(name, source)
        wanted = name if source is None else f"{name}@{source}"
        known = [skill.name for skill in self.skills if is_told(skill)]
        if skipped := next((entry for entry in self.entries if _is_skipped(entry, name, source)), None):
            raise UnknownSkillError(wanted, known, skipped=skipped.reason)
        skills = {label: self.get(name, label) for label in self._by_source} if source is not None else {}
        sources = [label for label, skill in skills.items() if skill and is_told(skill)]
        raise UnknownSkillError(wanted, known, sources)

    def get(self, name: str, source: str | None = None) -> SkillMetadata | None:
        """Return the skill of that name, or of `name@source`; None where there is none to be used."""
        name, source = _name_and_source(name, source)
        skills = self._by_name if source is None else self._by_source.get(source, {})
        return skills.get(name) or skills.get(safe_name(name))

    def __contains__(self, name: object) -> bool:
        """Return whether there is a skill of that name, or of `name@source`."""
        return self.get(str(name)) is not None

    def hidden_by(self, name: str, source: str) -> tuple[str, ...]:
        """Return the weaker sources that have a skill of this name, too, the strongest first."""
        weaker = self.sources[: self.sources.index(source)] if source in self.sources else ()
        return tuple(label for label in reversed(weaker) if name in self._by_source.get(label, ()))

    def loadable(self, left_out: Collection[str] = ()) -> list[SkillMetadata]:
        """Return the skills that a model may load, by name, but for those that are left out."""
        return [skill for skill in self.skills if skill.model_invocable and skill.name not in left_out]

    def dormant(self, paths: Collection[str]) -> frozenset[str]:
        """Return the names of the skills that are for certain files, and for none of these."""
        return frozenset(
            skill.name
            for skill in self.skills
            if skill.paths and not any(_is_for(path, glob) for glob in skill.paths for path in paths)
        )

    def listing(self, budget: int, left_out: Collection[str] = ()) -> CatalogListing:
        """Return what a prompt shows of the skills that a model may load, within a budget of characters.

        It depends on nothing that is said in a thread: threads share their prompts, and a provider's cache.
        Where not all fits, skills of strong sources lose less than those of weak ones.
        """
        strength = {label: rank for rank, label in enumerate(self.sources)}
        return fit(sorted(self.loadable(left_out), key=lambda each: -strength.get(each.source, -1)), budget)

    def search(self, query: str, limit: int = 5) -> list[tuple[SkillMetadata, float]]:
        """Return the skills in effect that match any word of the query, best first, and how well each does.

        Names, descriptions and instructions count; the instructions are read when something is first
        searched. With an embedding model, names and descriptions that are like the query are found, too.
        """
        matches = self._index.search(query, limit) if self._index else []
        return [(self.skills[match.position], match.score) for match in matches]

    def fitting(self, query: str, left_out: Collection[str] = (), limit: int = 1) -> list[SkillMetadata]:
        """Return the skills that a model may load and that match best, but for those that match too little.

        Search nearly always finds something. This is for where a request may be for no skill at all.
        """
        if self._index is None:
            return []
        matches = ((self.skills[each.position], each) for each in self._index.search(query, len(self.skills)))
        open_to_models = (
            (skill, match) for skill, match in matches if skill.model_invocable and skill.name not in left_out
        )
        return [skill for skill, match in islice(open_to_models, limit) if self._index.fits(query, match)]

    @cached_property
    def _index(self) -> "SearchIndex | FusedIndex | None":
        return self._make_index(self.skills) if self._make_index else None

    def _hidden(self) -> list[SkillMetadata]:
        """Return the skills that one of their name in a stronger source hides."""
        every = [skill for skills in self._by_source.values() for skill in skills.values()]
        hidden = [skill for skill in every if self._by_name[skill.name] is not skill]
        return sorted(hidden, key=attrgetter("name", "source"))


def _is_for(path: str, glob: str) -> bool:
    """Return whether a glob takes a path in: `*` any part of it, as `**/` does, which may be nothing."""
    return fnmatchcase(path.removeprefix("./"), glob.removeprefix("./").replace("**/", "*"))


def _name_and_source(name: str, source: str | None) -> tuple[str, str | None]:
    """Split `name@source`; a source that is given is stronger."""
    if "@" not in name:
        return name, source
    name, _, own = name.rpartition("@")
    return name, own if source is None else source


def _is_skipped(entry: CatalogEntry, name: str, source: str | None) -> bool:
    return entry.status == "skipped" and entry.name == name and source in (None, entry.source)


def _without_lookalikes(readings: Sequence[SkillReading]) -> Sequence[SkillReading]:
    imitated = lookalikes_among([reading.metadata.name for reading in readings if reading.metadata])
    return [_refused(reading, imitated) for reading in readings]


def _refused(reading: SkillReading, imitated: Mapping[str, str]) -> SkillReading:
    if not reading.metadata or reading.metadata.name not in imitated:
        return reading
    message = f"The name only looks like `{imitated[reading.metadata.name]}`, in letters of another script."
    refusal = diagnostic(Finding("name-lookalike", message), reading.entry.path)
    return replace(reading, metadata=None, diagnostics=(*reading.diagnostics, refusal))


def _entry(reading: SkillReading, effective: Mapping[str, SkillMetadata]) -> CatalogEntry:
    skill, diagnostics = reading.metadata, reading.diagnostics
    if skill is None:
        return _skipped(reading.entry.path, reading.source, reading.entry.folder, diagnostics)
    winner = effective[skill.name]
    if winner is skill:
        return CatalogEntry(skill.path, skill.source, skill.name, "shown", "", diagnostics)
    message = f"`{skill.name}` of {winner.source} ({winner.path}) is used instead."
    diagnostics = (*diagnostics, diagnostic(Finding("shadowed", message), skill.path))
    return CatalogEntry(skill.path, skill.source, skill.name, "shadowed", message, diagnostics)


def in_place_text(name: str, source: str, hidden: Sequence[str]) -> str:
    """Say that an untrusted skill hides those of other sources, and how to ask for them."""
    others = " or ".join(f"{name}@{label}" for label in hidden)
    return (
        f"{name} of {source} (untrusted) hides {name} of {' and '.join(hidden)}: "
        f"write {others} to use that one."
    )


def _skipped(path: str, source: str, folder: str, diagnostics: tuple[Diagnostic, ...]) -> CatalogEntry:
    errors = [each.message for each in diagnostics if each.severity == "error"]
    reason = " ".join(errors or [each.message for each in diagnostics])
    return CatalogEntry(path, source, name_from_folder(folder), "skipped", reason, diagnostics)


def _digest_of(skills: Sequence[SkillMetadata], hidden: Sequence[SkillMetadata]) -> str:
    """Hash what a prompt can show: the frontmatter covers every field but a name that the folder gave.

    Nothing need stand between the two: the first hidden skill is the first that is out of the order of names.
    """
    digest = hashlib.sha256()
    for each in (*skills, *hidden):
        digest.update(f"{each.source}\0{each.name}\0{each.digest}\n".encode())
    return digest.hexdigest()
