"""The catalog: every skill that was found, at one moment, known by its digest."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from threading import Lock
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.format.rules import Finding, diagnostic, lookalikes_among
from skills_agent.skills.format.values import name_from_folder, safe_name
from skills_agent.skills.library.index import SkillReading
from skills_agent.skills.search.vectors import FusedIndex
from skills_agent.skills.search.words import SearchIndex
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.text import escape_markup, one_line

EntryStatus = Literal["shown", "shadowed", "skipped"]
_HASHED_AT_ONCE: Final = 256
_LISTINGS_KEPT: Final = 16
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_FRAME: Final = len("- : \n")
_NAME_ONLY: Final = 2
"""The last of the steps in which a skill is shown with less."""


class ListedSkill(NamedTuple):
    """A line of the catalog."""

    skill: SkillMetadata
    description: str | None
    """One line, not escaped; None where only the name is shown."""


class CatalogListing(NamedTuple):
    """The lines that fit, in the order given, and how many skills were left out."""

    lines: tuple[ListedSkill, ...]
    omitted: int
    total: int


class SearchHit(NamedTuple):
    """A skill that matches a query, and how well: higher is better."""

    skill: SkillMetadata
    score: float


@dataclass(frozen=True, slots=True)
class CatalogEntry:
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
        make_index: Callable[[Iterable[SkillMetadata]], SearchIndex | FusedIndex] | None = None,
    ) -> None:
        """Make a catalog of what was read, from low to high precedence, and of what sources reported besides.

        Of several skills with one name, the last is in effect. Without `make_index`, a search has no
        matches.
        """
        self._readings = _without_lookalikes(readings)
        self._passed_over = passed_over
        skills = [each.metadata for each in self._readings if each.metadata is not None]
        self._by_name = {skill.name: skill for skill in skills}
        self._shadowed = {
            (skill.name, skill.source): skill
            for skill in skills
            if self._by_name[skill.name].source != skill.source
        }
        self.skills = tuple(self._by_name[name] for name in sorted(self._by_name))
        self.sources = tuple(dict.fromkeys(sources))
        self.digest = _digest_of([*self.skills, *(self._shadowed[key] for key in sorted(self._shadowed))])
        self._whole = lru_cache(1)(self._whole_anew)
        self._listing = lru_cache(_LISTINGS_KEPT)(self._listing_anew)
        self._make_index = make_index
        self._index: SearchIndex | FusedIndex | None = None
        self._lock = Lock()

    @cached_property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """What became of every SKILL.md."""
        entries = [_entry(each, self._by_name) for each in self._readings]
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

    def find(self, name: str, source: str | None = None) -> SkillMetadata:
        """Return the skill of that name, or of `name@source`.

        Raises:
            UnknownSkillError: there is none; it carries the names that there are.
        """
        found = self._lookup(name, source)
        if found is None and source is None and "@" in name:
            plain, _, label = name.rpartition("@")
            found = self._lookup(plain, label)
        if found is None:
            wanted = name if source is None else f"{name}@{source}"
            raise UnknownSkillError(wanted, self._names_like(name))
        return found

    def listing(self, budget: int, pinned: Iterable[str] = (), request: str = "") -> CatalogListing:
        """Return what a prompt shows of the skills that a model may load, within a budget of characters.

        In name order while everything fits whole: then threads share their prompts, and a provider's
        cache. Otherwise what is pinned comes first, then what fits the request, best first, then the rest
        by name. Cached, because every model call of every thread asks.
        """
        return self._whole(budget) or self._listing(budget, frozenset(pinned), request)

    def is_whole(self, budget: int) -> bool:
        """Return whether all descriptions fit: then nothing depends on what is pinned or requested."""
        return self._whole(budget) is not None

    def search(self, query: str, limit: int = 5) -> list[SearchHit]:
        """Return the skills in effect that match any word of the query, best first.

        Names, descriptions and instructions count; the instructions are read when something is first
        searched. With an embedding model, names and descriptions that are like the query are found, too.
        """
        with self._lock:
            if self._index is None and self._make_index is not None:
                self._index = self._make_index(self.skills)
            index = self._index
        if index is None:
            return []
        return [SearchHit(self.skills[match.position], match.score) for match in index.search(query, limit)]

    @cached_property
    def _visible(self) -> list[SkillMetadata]:
        return [skill for skill in self.skills if skill.model_invocable]

    def _whole_anew(self, budget: int) -> CatalogListing | None:
        listing = fit(self._visible, budget)
        return listing if _is_whole(listing) else None

    def _listing_anew(self, budget: int, pinned: frozenset[str], request: str) -> CatalogListing:
        visible = self._visible
        listing = fit(visible, budget, pinned)
        if _is_whole(listing):
            return listing
        ranks = {hit.skill.name: rank for rank, hit in enumerate(self.search(request, len(self.skills)))}
        ordered = sorted(
            visible,
            key=lambda skill: (skill.name not in pinned, ranks.get(skill.name, len(ranks)), skill.name),
        )
        return fit(ordered, budget, pinned)

    def _names_like(self, name: str) -> list[str]:
        """Return the names of the skills in effect, those most like `name` first where they are many."""
        names = [skill.name for skill in self.skills]
        if len(names) <= UnknownSkillError.max_listed:
            return names
        # Only a wrong name among many needs it.
        from difflib import get_close_matches  # noqa: PLC0415

        return list(dict.fromkeys([*get_close_matches(name, names, n=10), *names]))

    def _lookup(self, name: str, source: str | None) -> SkillMetadata | None:
        for spelling in (name, safe_name(name)):
            found = self._by_name.get(spelling)
            if found is not None and source is not None and found.source != source:
                found = self._shadowed.get((spelling, source))
            if found is not None:
                return found
        return None


def _is_whole(listing: CatalogListing) -> bool:
    return not listing.omitted and all(
        line.description == one_line(line.skill.description) for line in listing.lines
    )


def _without_lookalikes(readings: Sequence[SkillReading]) -> list[SkillReading]:
    """Skip skills whose name only seems to be that of another one."""
    imitated = lookalikes_among(each.metadata.name for each in readings if each.metadata is not None)
    return [_refused(each, imitated) if imitated else each for each in readings]


def _refused(reading: SkillReading, imitated: Mapping[str, str]) -> SkillReading:
    if reading.metadata is None or reading.metadata.name not in imitated:
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


def _skipped(path: str, source: str, folder: str, diagnostics: tuple[Diagnostic, ...]) -> CatalogEntry:
    errors = [each.message for each in diagnostics if each.severity == "error"]
    reason = " ".join(errors or [each.message for each in diagnostics])
    return CatalogEntry(path, source, name_from_folder(folder), "skipped", reason, diagnostics)


def _digest_of(skills: Sequence[SkillMetadata]) -> str:
    """Hash what a prompt can show: the frontmatter covers every field but a name that the folder gave."""
    digest = hashlib.sha256()
    for start in range(0, len(skills), _HASHED_AT_ONCE):
        some = skills[start : start + _HASHED_AT_ONCE]
        digest.update("".join([f"{each.source}\0{each.name}\0{each.digest}\n" for each in some]).encode())
    return digest.hexdigest()


def fit(skills: Sequence[SkillMetadata], budget_chars: int, always: Collection[str] = ()) -> CatalogListing:
    """Fit skills into a budget of characters; the first in order are the last to lose anything.

    Descriptions go from whole to their first sentence, to nothing; only then are skills left out. Skills
    named in `always` (the loaded ones) are shown whole and cost nothing.
    """
    ladders = [_steps(skill) for skill in skills]
    paying = [ladder for skill, ladder in zip(skills, ladders, strict=True) if skill.name not in always]
    levels = iter(_levels(paying, budget_chars))
    lines: list[ListedSkill] = []
    for skill, ladder in zip(skills, ladders, strict=True):
        level = 0 if skill.name in always else next(levels)
        if level is not None:
            lines.append(ListedSkill(skill, ladder[level].text))
    return CatalogListing(tuple(lines), len(skills) - len(lines), len(skills))


class _Step(NamedTuple):
    """One way to show a skill, and the characters it takes."""

    text: str | None
    cost: int


_Steps = tuple[_Step, _Step, _Step]


def _steps(skill: SkillMetadata) -> _Steps:
    """Return a skill as shown whole, by its first sentence, and by its name."""
    name = len(escape_markup(skill.name)) + _FRAME
    whole = one_line(skill.description)
    first = first_sentence(whole)
    return (
        _Step(whole, name + len(escape_markup(whole))),
        _Step(first, name + len(escape_markup(first))),
        _Step(None, name),
    )


def _levels(ladders: Sequence[_Steps], budget: int) -> list[int | None]:
    """Choose a step for each skill: the richest that all can have, then better ones while budget is left."""
    costs = [sum(ladder[level].cost for ladder in ladders) for level in range(_NAME_ONLY + 1)]
    level = next((level for level, cost in enumerate(costs) if cost <= budget), None)
    shown = len(ladders) if level is not None else _names_that_fit(ladders, budget // 2)
    start = _NAME_ONLY if level is None else level
    left = budget - sum(ladder[start].cost for ladder in ladders[:shown])
    levels: list[int | None] = []
    for ladder in ladders[:shown]:
        better = next(
            level for level in range(start + 1) if ladder[level].cost - ladder[start].cost <= max(left, 0)
        )
        left -= ladder[better].cost - ladder[start].cost
        levels.append(better)
    return levels + [None] * (len(ladders) - shown)


def _names_that_fit(ladders: Sequence[_Steps], budget: int) -> int:
    """Count the first names that fit: half of the budget, so that the first can keep their descriptions."""
    return bisect_right(list(accumulate(ladder[_NAME_ONLY].cost for ladder in ladders)), budget)


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]
