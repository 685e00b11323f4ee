"""Measure search on requests labelled by the authors of 16 repositories, and choose its setting.

    python benchmarks/search_triggers.py            figures of the default setting
    python benchmarks/search_triggers.py --choose   leave-one-repository-out cross-validation over a grid
    python benchmarks/search_triggers.py --embeddings MODULE:NAME   words, and words fused with a model

`own`: the catalog is that of the repository the request comes from; `pooled`: the skills of all of them.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.tables import TextTables
from skills_agent.skills.search.vectors import FusedIndex, Vectors
from skills_agent.skills.search.words import SearchIndex, SearchSetting, SearchText
from skills_agent.skills.sources import DirectorySource

PROJECT = Path(__file__).resolve().parent.parent
TRIGGERS = PROJECT.parent / "shared" / "corpus" / "triggers"
RANKS = 10
"""How far down a skill is looked for."""
DESCRIPTIONS = SearchSetting(instructions=0.0, instruction_characters=0)
GRID = [
    SearchSetting(name, 1.0, instructions, characters, skip)
    for name, instructions, characters, skip in product(
        (1.0, 2.0, 4.0, 8.0), (0.25, 0.5, 1.0, 1.5), (4_000, 16_000, 64_000), (True, False)
    )
]


class Request(NamedTuple):
    """A request, and the place in its catalog of the skill that it should find."""

    query: str
    target: int


class Repository(NamedTuple):
    """A catalog and the requests made for it."""

    name: str
    texts: list[SearchText]
    requests: list[Request]


class Ranks(NamedTuple):
    """Of each request, the rank of its skill from 1; 0 where it is not among the first."""

    found: list[int]

    def hit(self, rank: int) -> float:
        """Return the share of requests whose skill is among the first `rank`."""
        return fmean(0 < each <= rank for each in self.found)

    def reciprocal(self) -> float:
        """Return the mean of 1 / rank."""
        return fmean(1 / each if each else 0.0 for each in self.found)


def repositories(folder: Path) -> Iterator[Repository]:
    """Read the catalogs and the requests that should trigger a skill of theirs."""
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    for place in sorted((folder / "catalogs").iterdir()):
        registry = Registry([DirectorySource(place, place.name)])
        skills = registry.refresh().skills
        texts = [
            SearchText(skill.name, skill.description, registry.load(skill.ref).instructions)
            for skill in skills
        ]
        places = {skill.folder: number for number, skill in enumerate(skills)}
        places |= {skill.name: number for number, skill in enumerate(skills)}
        wanted = [
            (row["query"], row["expected_skills"][0])
            for row in rows
            if row["repo"].replace("/", "__") == place.name and row["expected_skills"]
        ]
        requests = [Request(query, places[name]) for query, name in wanted if name in places]
        yield Repository(place.name, texts, requests)


def rank(index: SearchIndex | FusedIndex, requests: Iterable[Request], offset: int = 0) -> Ranks:
    """Search for each request; `offset` is where its catalog begins in the index."""
    found = []
    for request in requests:
        places = [match.position - offset for match in index.search(request.query, RANKS)]
        found.append(places.index(request.target) + 1 if request.target in places else 0)
    return Ranks(found)


def in_own(repository: Repository, setting: SearchSetting) -> Ranks:
    """Rank each request of a repository within its own catalog."""
    return rank(SearchIndex(repository.texts, setting=setting), repository.requests)


def in_all(every: Sequence[Repository], setting: SearchSetting) -> dict[str, Ranks]:
    """Rank each request among the skills of all repositories."""
    index = SearchIndex([text for repository in every for text in repository.texts], setting=setting)
    ranks = {}
    offset = 0
    for repository in every:
        ranks[repository.name] = rank(index, repository.requests, offset)
        offset += len(repository.texts)
    return ranks


def print_figures(every: Sequence[Repository]) -> None:
    """Print hit@1 and hit@3 of each repository and of all, with and without instructions."""
    settings = (DESCRIPTIONS, SearchSetting())
    pooled = [in_all(every, setting) for setting in settings]
    print(f"{'':44}{'descriptions only':^28}{'with instructions':^28}")
    print(
        f"{'repository':30}{'skills':>6}{'asked':>8}"
        + f"{'own @1':>7}{'@3':>6}{'pooled @1':>10}{'@3':>5}" * 2
    )
    owns: list[list[int]] = [[], []]
    for repository in every:
        own = [in_own(repository, setting) for setting in settings]
        for found, ranks in zip(owns, own, strict=True):
            found.extend(ranks.found)
        line = f"{repository.name[:29]:30}{len(repository.texts):>6}{len(repository.requests):>8}"
        print(line + figures(own, [ranks[repository.name] for ranks in pooled]))
    everywhere = [Ranks([each for ranks in found.values() for each in ranks.found]) for found in pooled]
    texts = sum(len(repository.texts) for repository in every)
    print(f"{'all':30}{texts:>6}{len(owns[0]):>8}" + figures([Ranks(found) for found in owns], everywhere))


def figures(own: Sequence[Ranks], pooled: Sequence[Ranks]) -> str:
    """Return one line of the table."""
    return "".join(
        f"{mine.hit(1):>7.2f}{mine.hit(3):>6.2f}{all_.hit(1):>10.2f}{all_.hit(3):>5.2f}"
        for mine, all_ in zip(own, pooled, strict=True)
    )


def print_fused(every: Sequence[Repository], vectors: Vectors) -> None:
    """Print hit@1 and hit@3 over all requests, by words alone and fused with an embedding model."""
    for label, model in (("by words", None), ("and by meaning", vectors)):
        own = [place for each in every for place in rank(indexed(each.texts, model), each.requests).found]
        index = indexed([text for repository in every for text in repository.texts], model)
        pooled = []
        offset = 0
        for repository in every:
            pooled += rank(index, repository.requests, offset).found
            offset += len(repository.texts)
        print(f"{label:16} own @1 @3, pooled @1 @3:{figures([Ranks(own)], [Ranks(pooled)])}")


def indexed(texts: Sequence[SearchText], vectors: Vectors | None) -> SearchIndex | FusedIndex:
    """Return an index by words, or one that also goes by vectors."""
    words = SearchIndex(texts)
    return FusedIndex(words, texts, vectors) if vectors else words


def choose(every: Sequence[Repository]) -> None:
    """Choose for each repository by the others, and print what that choice reaches on it."""
    choosable = [repository for repository in every if len(repository.texts) > 1]
    results = {repository.name: dict(zip(GRID, graded(repository), strict=True)) for repository in choosable}
    left_out: list[int] = []
    for repository in choosable:
        others = {name: ranks for name, ranks in results.items() if name != repository.name}
        chosen = best(others)
        left_out += results[repository.name][chosen].found
        print(f"{repository.name[:43]:44} without it: {described(chosen)}")
    only = Ranks([each for repository in choosable for each in in_own(repository, DESCRIPTIONS).found])
    validated = Ranks(left_out)
    print(f"descriptions only: hit@1 {only.hit(1):.3f}, hit@3 {only.hit(3):.3f}")
    print(f"cross-validated:   hit@1 {validated.hit(1):.3f}, hit@3 {validated.hit(3):.3f}")
    print(f"chosen on all:     {described(best(results))}")
    print(f"the default:       {described(SearchSetting())}")


def graded(repository: Repository) -> Iterator[Ranks]:
    """Rank a repository's requests with every setting of the grid."""
    tables = {setting.instruction_characters: TextTables() for setting in GRID}
    for setting in GRID:
        shared = tables[setting.instruction_characters]
        yield rank(SearchIndex(repository.texts, shared, setting), repository.requests)


def best(results: Mapping[str, Mapping[SearchSetting, Ranks]]) -> SearchSetting:
    """Return the setting with the best mean reciprocal rank; repositories count like their square root.

    Neither does one with 6 requests weigh as much as one with 297, nor do three large ones decide alone.
    """
    weights = {name: len(next(iter(ranks.values())).found) ** 0.5 for name, ranks in results.items()}
    return max(
        GRID,
        key=lambda setting: sum(
            weight * results[name][setting].reciprocal() for name, weight in weights.items()
        ),
    )


def described(setting: SearchSetting) -> str:
    """Say a setting in one line."""
    return (
        f"name {setting.name:g}, description {setting.description:g}, instructions {setting.instructions:g}"
        f" of {setting.instruction_characters:,} characters, function words"
        f" {'skipped' if setting.skip_function_words else 'kept'}"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--choose", action="store_true", help="cross-validate over a grid of settings")
    parser.add_argument("--embeddings", metavar="MODULE:NAME", help="makes the embedding model when called")
    parser.add_argument("--triggers", type=Path, default=TRIGGERS, help="folder of the labelled requests")
    arguments = parser.parse_args()
    every = list(repositories(arguments.triggers))
    if arguments.choose:
        choose(every)
    elif arguments.embeddings:
        module, _, name = arguments.embeddings.partition(":")
        print_fused(every, Vectors(getattr(import_module(module), name)()))
    else:
        print_figures(every)


if __name__ == "__main__":
    main()
