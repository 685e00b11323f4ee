"""Measure search on requests labelled by the authors of 16 repositories.

    python benchmarks/search_triggers.py            by descriptions alone, and as it is
    python benchmarks/search_triggers.py --none     requests that no skill fits: are they left alone?
    python benchmarks/search_triggers.py --embeddings MODULE:NAME   words, and words fused with a model

`own`: the catalog is that of the repository the request comes from; `pooled`: the skills of all of them.
A request is hard where it shares no rare word with the name or description of its skill.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import compress
from math import fsum, log
from operator import mul
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.match import Match, SearchText
from skills_agent.skills.search.vectors import FusedIndex, Vectors
from skills_agent.skills.search.words import ENOUGH, SearchIndex
from skills_agent.skills.sources import DirectorySource

PROJECT = Path(__file__).resolve().parent.parent
TRIGGERS = PROJECT.parent / "shared" / "corpus" / "triggers"
EVERYDAY = Path(__file__).with_name("everyday_requests.txt")
"""Small talk, general knowledge and the like: for no skill of any repository."""
FOREIGN = 80
"""Requests made for other repositories that each repository is asked."""
RARE = 0.05
"""Of all names and descriptions; a word that so many have, or fewer, is rare."""
GOAL, GOAL_WITH_MODEL = 0.69, 0.76
"""Of recall@5 for hard requests, each in its own catalog."""
RANKS = 10
"""How far down a skill is looked for."""
LABELS = ("descriptions only", "with instructions")
THRESHOLDS = [tenths / 10 for tenths in range(5, 25)]


class Request(NamedTuple):
    """A request, and the place in its catalog of the skill that it should find."""

    query: str
    target: int


class Repository(NamedTuple):
    """A catalog and the requests made for it."""

    name: str
    texts: list[SearchText]
    requests: list[Request]
    unfit: list[str]
    """Requests that its authors say are for none of the skills."""


class Answers(NamedTuple):
    """How well the best match fits, for requests of a kind; a right one is for that skill, or for none."""

    fits: list[float]
    """Infinite where name and description alone have enough of the request."""
    right: list[bool]
    """Whether the best match is the skill that is asked for."""

    def taken(self, threshold: float) -> float:
        """Return the share of requests that are for the best match and get it."""
        return fmean(each >= threshold for each, right in zip(*self, strict=True) if right)

    def left(self, threshold: float) -> float:
        """Return the share of requests that get no skill."""
        return fmean(each < threshold for each in self.fits)


class Ranks(NamedTuple):
    """Of each request, the rank of its skill from 1; 0 where it is not among the first."""

    found: list[int]

    def hit(self, rank: int) -> float:
        """Return the share of requests whose skill is among the first `rank`."""
        return fmean(0 < each <= rank for each in self.found)


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
        # Most labels say only that a request is not for one certain skill, and another may fit it.
        unfit = [
            row["query"]
            for row in rows
            if row["repo"].replace("/", "__") == place.name
            and not (row["expected_skills"] or row["should_trigger"])
            and (row["target_skill"] is None or len(texts) == 1)
        ]
        yield Repository(place.name, texts, requests, unfit)


def rank(index: SearchIndex | FusedIndex, requests: Iterable[Request], offset: int = 0) -> Ranks:
    """Search for each request; `offset` is where its catalog begins in the index."""
    found = []
    for request in requests:
        places = [match.position - offset for match in index.search(request.query, RANKS)]
        found.append(places.index(request.target) + 1 if request.target in places else 0)
    return Ranks(found)


def without_instructions(every: Sequence[Repository]) -> list[Repository]:
    """Return repositories of which only names and descriptions are searched."""
    return [each._replace(texts=[text._replace(instructions="") for text in each.texts]) for each in every]


def in_all(every: Sequence[Repository]) -> dict[str, Ranks]:
    """Rank each request among the skills of all repositories."""
    index = SearchIndex([text for repository in every for text in repository.texts])
    ranks = {}
    offset = 0
    for repository in every:
        ranks[repository.name] = rank(index, repository.requests, offset)
        offset += len(repository.texts)
    return ranks


def hard(every: Sequence[Repository]) -> list[bool]:
    """Return for each request whether it shares no rare word with the name or description of its skill."""
    texts = [text for repository in without_instructions(every) for text in repository.texts]
    index = SearchIndex(texts)
    few = RARE * len(texts)
    least = log(1 + (len(texts) - few + 0.5) / (few + 0.5))
    found = []
    offset = 0
    for repository in every:
        for request in repository.requests:
            terms = index.terms(request.query, offset + request.target)
            shared = [term for term in terms if term.fields]
            found.append(all(term.rarity < least for term in shared))
        offset += len(repository.texts)
    return found


def print_hard(every: Sequence[Repository], own: Sequence[int], pooled: Sequence[int], goal: float) -> None:
    """Print recall@5 of hard requests; where a catalog has one skill, no request for it is hard."""
    has_choice = [len(repository.texts) > 1 for repository in every for _ in repository.requests]
    asked = [one and other for one, other in zip(hard(every), has_choice, strict=True)]
    recalls = [Ranks([*compress(found, asked)]).hit(5) for found in (own, pooled)]
    print(f"{sum(asked)} hard requests: recall@5 own {recalls[0]:.2f} (goal {goal}), pooled {recalls[1]:.2f}")


def print_figures(every: Sequence[Repository]) -> None:
    """Print hit@1 and hit@5 of each repository and of all, for each kind of search."""
    kinds = [without_instructions(every), every]
    pooled = [in_all(kind) for kind in kinds]
    print(f"{'':44}" + "".join(f"{label:^28}" for label in LABELS))
    columns = f"{'own @1':>7}{'@5':>6}{'pooled @1':>10}{'@5':>5}"
    print(f"{'repository':30}{'skills':>6}{'asked':>8}" + columns * len(kinds))
    owns: list[list[int]] = [[] for _ in kinds]
    for repository, *same in zip(every, *kinds, strict=True):
        own = [rank(SearchIndex(each.texts), each.requests) for each in same]
        for found, ranks in zip(owns, own, strict=True):
            found.extend(ranks.found)
        line = f"{repository.name[:29]:30}{len(repository.texts):>6}{len(repository.requests):>8}"
        print(line + figures(own, [ranks[repository.name] for ranks in pooled]))
    everywhere = [Ranks([each for ranks in found.values() for each in ranks.found]) for found in pooled]
    texts = sum(len(repository.texts) for repository in every)
    print(f"{'all':30}{texts:>6}{len(owns[0]):>8}" + figures([Ranks(found) for found in owns], everywhere))
    for label, own_ranks, ranks_in_all in zip(LABELS, owns, everywhere, strict=True):
        print(f"{label:20}", end=" ")
        print_hard(every, own_ranks, ranks_in_all.found, GOAL)


def figures(own: Sequence[Ranks], pooled: Sequence[Ranks]) -> str:
    """Return one line of the table."""
    return "".join(
        f"{mine.hit(1):>7.2f}{mine.hit(5):>6.2f}{all_.hit(1):>10.2f}{all_.hit(5):>5.2f}"
        for mine, all_ in zip(own, pooled, strict=True)
    )


def print_none(every: Sequence[Repository]) -> None:
    """Print how many requests that are for no skill get none, and how many of the others keep theirs.

    The threshold is that of the code, and for each repository the lowest one that leaves four of five such
    requests of the *others* alone.
    """
    drawn = random.Random(7)
    kinds: dict[str, dict[str, Answers]] = {"labelled": {}, "foreign": {}, "everyday": {}}
    asked: dict[str, Answers] = {}
    for repository in every:
        others = [each.query for other in every if other is not repository for each in other.requests]
        requests = {
            "labelled": repository.unfit,
            "foreign": drawn.sample(others, FOREIGN),
            "everyday": EVERYDAY.read_text(encoding="utf-8").splitlines(),
        }
        index = SearchIndex(repository.texts)
        asked[repository.name] = answers(index, repository.requests)
        for kind, queries in requests.items():
            kinds[kind][repository.name] = answers(index, [Request(query, -1) for query in queries])
    chosen = {name: lowest(kinds, name) for name in asked}
    for label, thresholds in (("chosen", dict.fromkeys(asked, ENOUGH)), ("cross-validated", chosen)):
        print(f"{label}: from {min(thresholds.values())} to {max(thresholds.values())}")
        print(f"    right skill taken {pooled_share(asked, thresholds, Answers.taken):.3f}")
        for kind, by_name in kinds.items():
            count = sum(len(each.fits) for each in by_name.values())
            print(f"    none for {kind} ({count}) {pooled_share(by_name, thresholds, Answers.left):.3f}")


def answers(index: SearchIndex, requests: Iterable[Request]) -> Answers:
    """Return how well the best match of each request fits."""
    found = Answers([], [])
    for request in requests:
        match = next(iter(index.search(request.query, 1)), Match(-1, 0.0))
        is_said = match.position >= 0 and index.fits(request.query, match._replace(fit=0.0))
        found.fits.append(float("inf") if is_said else match.fit)
        found.right.append(match.position == request.target >= 0)
    return found


def lowest(kinds: Mapping[str, Mapping[str, Answers]], left_out: str) -> float:
    """Return the lowest threshold that leaves four of five of each kind alone, one repository aside."""
    for threshold in THRESHOLDS:
        thresholds = {name: threshold for name in kinds["foreign"] if name != left_out}
        if all(
            pooled_share(kinds[kind], thresholds, Answers.left) >= 0.8 for kind in ("labelled", "foreign")
        ):
            return threshold
    return THRESHOLDS[-1]


def pooled_share(
    by_name: Mapping[str, Answers], thresholds: Mapping[str, float], share: Callable[[Answers, float], float]
) -> float:
    """Return a share of all requests, each repository judged by its threshold."""
    counted = [(by_name[name], threshold) for name, threshold in thresholds.items()]
    counts = [len(each.fits) if share is Answers.left else sum(each.right) for each, _ in counted]
    shares = [share(*each) if count else 0.0 for each, count in zip(counted, counts, strict=True)]
    return fsum(map(mul, shares, counts)) / sum(counts)


def print_fused(every: Sequence[Repository], vectors: Vectors) -> None:
    """Print hit@1 and hit@5 over all requests, by words alone and fused with an embedding model."""
    for label, model in (("by words", None), ("and by meaning", vectors)):
        own = [place for each in every for place in rank(indexed(each.texts, model), each.requests).found]
        index = indexed([text for repository in every for text in repository.texts], model)
        pooled = []
        offset = 0
        for repository in every:
            pooled += rank(index, repository.requests, offset).found
            offset += len(repository.texts)
        print(f"{label:16} own @1 @5, pooled @1 @5:{figures([Ranks(own)], [Ranks(pooled)])}", end="; ")
        print_hard(every, own, pooled, GOAL_WITH_MODEL if model else GOAL)


def indexed(texts: Sequence[SearchText], vectors: Vectors | None) -> SearchIndex | FusedIndex:
    """Return an index by words, or one that also goes by vectors."""
    words = SearchIndex(texts)
    return FusedIndex(words, texts, vectors) if vectors else words


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--none", action="store_true", help="requests that no skill fits")
    parser.add_argument("--embeddings", metavar="MODULE:NAME", help="makes the embedding model when called")
    parser.add_argument("--triggers", type=Path, default=TRIGGERS, help="folder of the labelled requests")
    arguments = parser.parse_args()
    every = list(repositories(arguments.triggers))
    if arguments.none:
        print_none(every)
    elif arguments.embeddings:
        module, _, name = arguments.embeddings.partition(":")
        print_fused(every, Vectors(getattr(import_module(module), name)()))
    else:
        print_figures(every)


if __name__ == "__main__":
    main()
