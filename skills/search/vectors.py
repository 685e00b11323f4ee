"""Search by meaning beside words, where the host brings an embedding model.

BM25 scores and cosines have no scale in common, so each counts in standard deviations from its mean over all
texts. Ranks would need no scale, but give a weak model as much say as a text match that stands out.
"""

import logging
import math
from array import array
from collections.abc import Callable, Sequence
from operator import mul
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from skills_agent.skills.search.match import Match, SearchText
from skills_agent.skills.search.naming import named_first

if TYPE_CHECKING:
    from skills_agent.skills.search.words import SearchIndex

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


class Vectors:
    """The vectors of texts: each text is embedded once, whichever catalogs and threads ask for it.

    Where the model fails, one warning is logged until it answers again.
    """

    def __init__(self, embedder: Embedder, *, clock: Callable[[], float] = monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._vectors_by_text: dict[str, Vector] = {}
        self._embedding = Lock()
        self._paused_until = 0.0
        """Zero while the model answers."""

    def nearness(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return the cosine of each text with a query; None where the model fails, or failed a moment ago."""
        if self._clock() < self._paused_until:
            return None
        try:
            vector = _unit(self._embedder.embed_query(query))
            nearness = [math.fsum(map(mul, vector, other)) for other in self._of_texts(texts, len(vector))]
        except Exception as error:  # noqa: BLE001 - any model of any host: its failures have no class in common
            if not self._paused_until:
                logger.warning("embedding model failed, searching by words alone: %r", error)
            self._paused_until = self._clock() + PAUSE_SECONDS
            return None
        self._paused_until = 0.0
        return nearness

    def _of_texts(self, texts: Sequence[str], dimensions: int) -> list[Vector]:
        with self._embedding:
            known = self._vectors_by_text
            missing = list(dict.fromkeys(text for text in texts if len(known.get(text, ())) != dimensions))
            for start in range(0, len(missing), BATCH):
                if self._clock() < self._paused_until:
                    raise ValueError("it failed while this search waited for another one")
                batch = missing[start : start + BATCH]
                vectors = [_unit(numbers) for numbers in self._embedder.embed_documents(batch)]
                # Nothing of a wrong answer is kept: nobody knows which text a vector of it is of.
                if [len(vector) for vector in vectors] != [dimensions] * len(batch):
                    raise ValueError(f"{len(vectors)} vectors for {len(batch)} texts, or of other lengths")
                known.update(zip(batch, vectors, strict=True))
            of_texts = [known[text] for text in texts]
            while len(known) > _MAX_VECTORS:
                del known[next(iter(known))]
        return of_texts


class FusedIndex:
    """Texts that are searched by words and by meaning; they are embedded at the first search."""

    def __init__(self, words: "SearchIndex", texts: Sequence[SearchText], vectors: Vectors) -> None:
        self._words = words
        self._factors = [text.factor for text in texts]
        self._texts = [f"{text.name}: {text.description}"[:_TEXT_CHARACTERS] for text in texts]
        self._vectors = vectors

    def search(self, query: str, limit: int) -> list[Match]:
        """Return the best matches by words or by meaning, best first; by words alone if the model fails."""
        if not query.strip() or limit < 1:
            return []
        by_words = self._words.search(query, len(self._texts))
        cosines = self._vectors.nearness(query[:_TEXT_CHARACTERS], self._texts)
        if cosines is None:
            return by_words[:limit]
        matches = fuse(by_words, [*map(mul, cosines, self._factors)])
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


def _unit(numbers: Sequence[float]) -> Vector:
    """Return a vector of length one in the same direction; that of zeros stays."""
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise ValueError("a vector is empty or not of finite numbers")
    return array("f", (number / length for number in numbers) if length else numbers)
