"""Search by meaning beside words, where the host brings an embedding model.

The two rankings are fused by reciprocal rank (Cormack, Clarke and Büttcher, SIGIR 2009): BM25 scores and
cosines have no scale in common, and ranks need none.
"""

import logging
import math
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from threading import Lock
from time import monotonic
from typing import Final, Protocol, TypeAlias

from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.search.words import Match, SearchIndex, SearchText

RANK_CONSTANT: Final = 60
"""The paper's k: how little the first ranks count more than those after them."""
BATCH: Final = 64
"""Texts of one request to the model; some servers refuse more than a hundred."""
PAUSE_SECONDS: Final = 60.0
"""A model that failed is not called again for so long: searches should not wait for it one by one."""
_CANDIDATES: Final = 100
"""Of each ranking, at least."""
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

    def __init__(self, words: SearchIndex, texts: Sequence[SearchText], vectors: Vectors) -> None:
        self._words = words
        self._factors = [text.factor for text in texts]
        self._texts = [f"{text.name}: {text.description}"[:_TEXT_CHARACTERS] for text in texts]
        self._vectors = vectors

    def search(self, query: str, limit: int) -> list[Match]:
        """Return the best matches by words or by meaning, best first; by words alone if the model fails."""
        if not query.strip() or limit < 1:
            return []
        candidates = max(limit, _CANDIDATES)
        by_words = self._words.search(query, candidates)
        try:
            vectors = self._vectors.of_texts(self._texts)
            nearest = by_cosine(self._vectors.of_query(query[:_TEXT_CHARACTERS]), vectors, self._factors)
        except NoVectorsError:
            return by_words[:limit]
        return fuse([match.position for match in by_words], nearest[:candidates])[:limit]


def fuse(*rankings: Sequence[int]) -> list[Match]:
    """Score every position of the rankings with the sum of `1 / (RANK_CONSTANT + rank)`, best first.

    Of equal ones those of the first ranking come first.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, position in enumerate(ranking, start=1):
            scores[position] = scores.get(position, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted((Match(*each) for each in scores.items()), key=lambda match: -match.score)


def by_cosine(query: Vector, vectors: Sequence[Vector], factors: Sequence[float]) -> list[int]:
    """Return the positions of the vectors that point where the query does, nearest first.

    All are of one length. `factors` multiply the cosines.
    """
    cosines = [factor * sum(map(mul, query, vector)) for vector, factor in zip(vectors, factors, strict=True)]
    return sorted((at for at, cosine in enumerate(cosines) if cosine > 0), key=lambda at: -cosines[at])


def unit(numbers: Sequence[float]) -> Vector:
    """Return a vector of length one in the same direction; that of zeros stays. Raises NoVectorsError."""
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise NoVectorsError("a vector is empty or not of finite numbers")
    return array("f", (number / length for number in numbers) if length else numbers)
