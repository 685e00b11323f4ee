"""Search by meaning beside words, where the host brings an embedding model.

BM25 scores and cosines have no scale in common, so each counts in standard deviations from its mean over all
texts. Ranks would need no scale, but give a weak model as much say as a text match that stands out.
"""

import logging
import math
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.search.match import Match
from skills_agent.skills.search.naming import named_first

if TYPE_CHECKING:
    from skills_agent.skills.search.words import SearchIndex, SearchText

MEANING_WEIGHT: Final = 0.5
"""What the model counts beside words. At 1 a small model makes search worse than words alone."""
BATCH: Final = 64
"""Texts of one request to the model; some servers refuse more than a hundred."""
PAUSE_SECONDS: Final = 60.0
"""A model that failed is not called again for so long: searches should not wait for it one by one."""
_TEXT_CHARACTERS: Final = 2_000
_MAX_VECTORS: Final = 20_000

Vector: TypeAlias = "array[float]"
"""Of length one (or zero), in single precision: 10,000 of 384 numbers take 15 MB."""

logger = logging.getLogger(__name__)


class Embedder(Protocol):
    """An embedding model: any `Embeddings` of LangChain is one. Called from any thread."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        ...


class NoVectorsError(SkillsAgentError):
    """The embedding model failed a moment ago, or its answer is not one vector for each text."""


class Vectors:
    """The vectors of texts: each text is embedded once, whichever catalogs and threads ask for it.

    Where the model fails, one warning is logged until it answers again.
    """

    def __init__(self, embedder: Embedder, *, clock: Callable[[], float] = monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._vectors_by_text: dict[str, Vector] = {}
        self._embedding = Lock()
        self._dimensions = 0
        self._paused_until = 0.0
        """Zero while the model answers."""

    def of_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text. Raises NoVectorsError."""
        with self._embedding:
            missing = list(dict.fromkeys(text for text in texts if text not in self._vectors_by_text))
            for start in range(0, len(missing), BATCH):
                batch = missing[start : start + BATCH]
                embed = partial(self._embedder.embed_documents, batch)
                self._vectors_by_text.update(zip(batch, self._call(embed, len(batch)), strict=True))
            vectors = [self._vectors_by_text[text] for text in texts]
            while len(self._vectors_by_text) > _MAX_VECTORS:
                del self._vectors_by_text[next(iter(self._vectors_by_text))]
        return vectors

    def of_query(self, query: str) -> Vector:
        """Return the vector of a query. Raises NoVectorsError."""
        return self._call(lambda: [self._embedder.embed_query(query)], 1)[0]

    def _call(self, embed: Callable[[], list[list[float]]], count: int) -> list[Vector]:
        if self._clock() < self._paused_until:
            raise NoVectorsError("it failed a moment ago")
        try:
            vectors = self._units(embed(), count)
        except Exception as error:  # any model of any host: its failures have no class in common
            if not self._paused_until:
                logger.warning("embedding model failed, searching by words alone: %r", error)
            self._paused_until = self._clock() + PAUSE_SECONDS
            raise NoVectorsError(str(error)) from error
        self._paused_until = 0.0
        return vectors

    def _units(self, answer: Sequence[Sequence[float]], count: int) -> list[Vector]:
        if len(answer) != count:
            raise NoVectorsError(f"{len(answer)} vectors for {count} texts")
        vectors = [unit(vector) for vector in answer]
        self._dimensions = self._dimensions or len(vectors[0])
        if any(len(vector) != self._dimensions for vector in vectors):
            raise NoVectorsError("vectors of different lengths")
        return vectors


class FusedIndex:
    """Texts that are searched by words and by meaning; they are embedded at the first search."""

    def __init__(self, words: "SearchIndex", texts: "Sequence[SearchText]", vectors: Vectors) -> None:
        self._words = words
        self._factors = [text.factor for text in texts]
        self._texts = [f"{text.name}: {text.description}"[:_TEXT_CHARACTERS] for text in texts]
        self._vectors = vectors

    def search(self, query: str, limit: int) -> list[Match]:
        """Return the best matches by words or by meaning, best first; by words alone if the model fails."""
        if not query.strip() or limit < 1:
            return []
        by_words = self._words.search(query, len(self._texts))
        try:
            vectors = self._vectors.of_texts(self._texts)
            vector = self._vectors.of_query(query[:_TEXT_CHARACTERS])
        except NoVectorsError:
            return by_words[:limit]
        matches = fuse(by_words, cosines(vector, vectors, self._factors))
        return named_first(matches, self._words.named(query), self._factors)[:limit]

    def fits(self, request: str, match: Match) -> bool:
        """Return whether a match is good enough to be taken: words alone say that."""
        return self._words.fits(request, match)


def fuse(by_words: Sequence[Match], nearness: Sequence[float]) -> list[Match]:
    """Return the texts that match by words, or are near, best first: the sum of both standard scores.

    `nearness` has a number for each text; one that is above 0 is near. Words say 0 of a text that they do not
    match. Of equal ones the better match by words comes first.
    """
    said = [0.0] * len(nearness)
    for match in by_words:
        said[match.position] = match.fit
    scores = [
        by_word + MEANING_WEIGHT * by_meaning
        for by_word, by_meaning in zip(standard_scores(said), standard_scores(nearness), strict=True)
    ]
    near = (position for position, each in enumerate(nearness) if each > 0)
    positions = dict.fromkeys([*(match.position for match in by_words), *near])
    return sorted(
        (Match(each, scores[each], said[each]) for each in positions), key=lambda match: -match.score
    )


def standard_scores(numbers: Sequence[float]) -> list[float]:
    """Return how many standard deviations each number is above the mean; zeros where all are the same."""
    if not numbers or min(numbers) == max(numbers):
        return [0.0] * len(numbers)
    mean = math.fsum(numbers) / len(numbers)
    deviation = math.hypot(*(number - mean for number in numbers)) / math.sqrt(len(numbers))
    return [(number - mean) / deviation if deviation else 0.0 for number in numbers]


def cosines(query: Vector, vectors: Sequence[Vector], factors: Sequence[float]) -> list[float]:
    """Return how near each vector is to the query, times its factor; all are of length one."""
    return [factor * sum(map(mul, query, vector)) for vector, factor in zip(vectors, factors, strict=True)]


def unit(numbers: Sequence[float]) -> Vector:
    """Return a vector of length one in the same direction; that of zeros stays. Raises NoVectorsError."""
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise NoVectorsError("a vector is empty or not of finite numbers")
    return array("f", (number / length for number in numbers) if length else numbers)
