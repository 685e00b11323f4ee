"""The catalog: every skill that was found, at one moment, known by its digest."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.format.rules import Finding, diagnostic, lookalikes_among
from skills_agent.skills.format.values import name_from_folder, safe_name
from skills_agent.skills.library.discovery import SkillReading, SourceReport
from skills_agent.skills.search.tables import TextTables
from skills_agent.skills.search.vectors import FusedIndex, Vectors
from skills_agent.skills.search.words import SearchIndex, SearchText
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.text import escape_markup, one_line

EntryStatus = Literal["shown", "shadowed", "skipped"]
_HASHED_AT_ONCE: Final = 256
_LISTINGS_KEPT: Final = 16
UNTRUSTED_FACTOR: Final = 0.9
"""Where scores are close, a skill that the operator vouches for comes before one of a stranger."""


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


def search_text_of(skill: SkillMetadata) -> SearchText:
    """Return what can be found of a skill without its instructions."""
    description = f"{skill.description} {skill.when_to_use}" if skill.when_to_use else skill.description
    return SearchText(skill.name, description, factor=1.0 if skill.trusted else UNTRUSTED_FACTOR)


class SearchSetup(NamedTuple):
    """How the skills of a catalog are searched."""

    text: Callable[[SkillMetadata], SearchText] = search_text_of
    tables: TextTables | None = None
    """None: tables of its own."""
    vectors: Vectors | None = None
    """None: by words alone."""

    def index_of(self, skills: Iterable[SkillMetadata]) -> SearchIndex | FusedIndex:
        """Return an index of skills; nothing is read before it is searched."""
        texts = [self.text(skill) for skill in skills]
        words = SearchIndex(texts, self.tables)
        return FusedIndex(words, texts, self.vectors) if self.vectors else words


class Catalog:
    """The skills that are in effect, those that are not and why. Immutable, and shared by threads."""

    def __init__(
        self,
        seen: Sequence[SkillReading],
        reported: Sequence[SourceReport] = (),
        sources: Sequence[str] = (),
        searched: SearchSetup = SearchSetup(),  # noqa: B008 - an immutable value
    ) -> None:
        """Make a catalog of what was read, from low to high precedence, and of what sources reported.

        Of several skills with one name, the last is in effect.
        """
        reports: dict[tuple[str, str], list[Diagnostic]] = {}
        for source, found in reported:
            reports.setdefault((source, found.path), []).append(found)
        if reports:
            seen = [_with_reports(each, reports.pop((each.source, each.entry.path), [])) for each in seen]
        self._seen = _without_lookalikes(seen)
        self._passed_over = reports
        skills = [each.metadata for each in self._seen if each.metadata is not None]
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
        self._searched = searched
        self._index: SearchIndex | FusedIndex | None = None
        self._lock = Lock()

    @cached_property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """What became of every SKILL.md."""
        entries = [_entry(each, self._by_name) for each in self._seen]
        for (source, path), reports in self._passed_over.items():
            if path.upper().endswith("/SKILL.MD") or any(found.severity == "error" for found in reports):
                name = name_from_folder(path.rpartition("/")[0].rpartition("/")[2])
                reason = " ".join(found.message for found in reports)
                entries.append(CatalogEntry(path, source, name, "skipped", reason, tuple(reports)))
        return tuple(entries)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that was odd: about skills, then about what sources passed over."""
        about_skills = [found for entry in self.entries[: len(self._seen)] for found in entry.diagnostics]
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
            if self._index is None:
                self._index = self._searched.index_of(self.skills)
            index = self._index
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


def _with_reports(seen: SkillReading, reported: Sequence[Diagnostic]) -> SkillReading:
    return replace(seen, diagnostics=(*reported, *seen.diagnostics)) if reported else seen


def _without_lookalikes(seen: Sequence[SkillReading]) -> list[SkillReading]:
    """Skip skills whose name only seems to be that of another one."""
    imitated = lookalikes_among(each.metadata.name for each in seen if each.metadata is not None)
    if not imitated:
        return list(seen)
    judged = []
    for each in seen:
        if each.metadata is None or each.metadata.name not in imitated:
            judged.append(each)
            continue
        message = f"The name only looks like `{imitated[each.metadata.name]}`, in letters of another script."
        refused = diagnostic(Finding("name-lookalike", message), each.entry.path)
        judged.append(replace(each, metadata=None, diagnostics=(*each.diagnostics, refused)))
    return judged


def _entry(seen: SkillReading, effective: Mapping[str, SkillMetadata]) -> CatalogEntry:
    skill = seen.metadata
    if skill is None:
        reason = " ".join(found.message for found in seen.diagnostics if found.severity == "error")
        name = name_from_folder(seen.entry.folder)
        return CatalogEntry(seen.entry.path, seen.source, name, "skipped", reason, seen.diagnostics)
    winner = effective[skill.name]
    if winner is skill:
        return CatalogEntry(skill.path, skill.source, skill.name, "shown", "", seen.diagnostics)
    message = f"`{skill.name}` of {winner.source} ({winner.path}) is used instead."
    shadowed = diagnostic(Finding("shadowed", message), skill.path)
    return CatalogEntry(
        skill.path, skill.source, skill.name, "shadowed", message, (*seen.diagnostics, shadowed)
    )


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
    for number, ladder in enumerate(ladders):
        budget -= ladder[_NAME_ONLY].cost
        if budget < 0:
            return number
    return len(ladders)


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]
