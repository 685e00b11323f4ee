"""Finding skills by meaning beside words."""

import math
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.match import Match
from skills_agent.skills.search.vectors import PAUSE_SECONDS, Vectors, fuse
from skills_agent.skills.sources import MemorySource


class NGrams(Embeddings):
    """A small embedding model: counts of hashed runs of three letters. `fast` and `breakfast` are alike."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * 512
        for start in range(len(text) - 2):
            vector[zlib.crc32(text[start : start + 3].lower().encode()) % 512] += 1.0
        return vector


class Failing(NGrams):
    """A model whose server is down while `down` is set."""

    down = True
    asked = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += 1
        if self.down:
            raise ConnectionError("no route to the model")
        return super().embed_documents(texts)


SKILLS = {
    "spreadsheets": "Works on spreadsheets: totals, pivots.",
    "release-notes": "Writes release notes from the git history.",
    "invoices": "Makes invoices as PDF.",
}


def source(skills: dict[str, str], label: str = "memory", *, trusted: bool = True) -> MemorySource:
    files = {
        name: {"SKILL.md": f"---\nname: {name}\ndescription: {text!r}\n---\nDo it.\n"}
        for name, text in skills.items()
    }
    return MemorySource(files, label, trusted=trusted)


def catalog(model: Embeddings, skills: dict[str, str] | None = None) -> Catalog:
    return Registry([source(skills or SKILLS)], vectors=Vectors(model)).refresh()


def found(catalog: Catalog, query: str, limit: int = 5) -> list[str]:
    return [skill.name for skill, _ in catalog.search(query, limit)]


def test_a_text_is_embedded_when_something_is_searched_and_only_once_by_threads_at_once() -> None:
    model = NGrams()
    registry = Registry([source(SKILLS)], vectors=Vectors(model))
    shared = registry.refresh()
    assert found(shared, " ") == found(shared, "totals", limit=0) == model.embedded == []
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: found(shared, "totals"), range(4)))
    assert results == [results[0]] * 4
    registry.refresh().search("notes")
    registry.with_source(source({"mine": "Does it."}, "caller")).refresh().search("notes")
    assert sorted(text.partition(":")[0] for text in model.embedded) == sorted([*SKILLS, "mine"])


# A model that fails


def test_a_failed_model_is_asked_again_after_a_pause_and_words_are_searched_till_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, now = Failing(), [0.0]
    shared = Registry([source(SKILLS)], vectors=Vectors(model, clock=lambda: now[0])).refresh()
    for _ in range(3):
        assert found(shared, "git history") == ["release-notes"]
    model.down = False

    now[0] = PAUSE_SECONDS / 2
    assert found(shared, "a subspreadsheet") == []
    now[0] = PAUSE_SECONDS * 2
    assert found(shared, "a subspreadsheet")[0] == "spreadsheets"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no route to the model" in caplog.text


class Wrong(Embeddings):
    """A model that answers with something other than one vector of numbers a text."""

    def __init__(self, answer: Sequence[list[float]], query: Sequence[float] = (1.0, 0.0)) -> None:
        self.answer = list(answer)
        self.query = list(query)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.answer

    def embed_query(self, text: str) -> list[float]:
        return self.query


@pytest.mark.parametrize(
    "model",
    [
        Wrong([]),
        Wrong([[1.0, 0.0]]),
        Wrong([[1.0, 0.0], [1.0, 0.0], [1.0]]),
        Wrong([[]] * 3),
        Wrong([[math.nan, 1.0]] * 3),
        Wrong([[math.inf, 1.0]] * 3),
        Wrong([[1.0, 0.0, 0.0]] * 3),
        Wrong([[1.0, 0.0]] * 3, query=[]),
    ],
)
def test_an_answer_that_is_no_vectors_is_a_failure_of_which_nothing_is_kept(
    model: Wrong, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    shared = Registry([source(SKILLS)], vectors=Vectors(model, clock=lambda: now[0])).refresh()
    assert found(shared, "git history") == ["release-notes"]
    assert len(caplog.records) == 1

    model.answer, model.query, now[0] = [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1.0, 0.0], PAUSE_SECONDS * 2
    assert found(shared, "a subspreadsheet")[0] == "spreadsheets"


def test_a_model_that_failed_while_a_search_waited_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Failing()
    vectors = Vectors(model)

    def fail_meanwhile(text: str) -> list[float]:
        return (text == "one" and vectors.nearness("other", ["text"])) or [1.0]

    monkeypatch.setattr(model, "embed_query", fail_meanwhile)
    assert vectors.nearness("one", ["text"]) is None
    assert model.asked == 1


def test_of_two_that_are_equally_near_the_trusted_one_comes_first() -> None:
    strangers = source({"a": "Counting the heronries."}, "project", trusted=False)
    own = source({"b": "Counting the heronries."}, "user")
    registry = Registry([own, strangers], vectors=Vectors(NGrams()))

    assert found(registry.refresh(), "a heronry to count") == ["b", "a"]


def test_with_a_model_something_is_always_found_and_words_say_whether_it_fits() -> None:
    shared = catalog(NGrams())
    assert found(Registry([source(SKILLS)]).refresh(), "a subspreadsheet") == []
    assert found(shared, "a subspreadsheet")[0] == "spreadsheets"
    assert shared.fitting("a subspreadsheet") == []
    assert [fit.name for fit in shared.fitting("release notes from the history")] == ["release-notes"]
    assert found(catalog(Wrong([[0.0, 0.0]] * 3)), "git history") == [
        "release-notes"
    ]  # zeros are like nothing
    by_words = [Match(0, 9.0, 9.0), Match(1, 1.0, 1.0), Match(2, 0.9, 0.9)]  # the first stands out
    assert fuse(by_words, [0.1, 0.3, 0.2, 0.1])[0].position == 0


@given(st.lists(st.tuples(st.none() | st.floats(0.01, 1e6), st.floats(-1, 1)), max_size=30))
def test_fusion_has_what_words_or_meaning_find_once_and_best_first(
    texts: list[tuple[float | None, float]],
) -> None:
    by_words = [
        Match(position, score, score) for position, (score, _) in enumerate(texts) if score is not None
    ]
    fused = fuse(by_words, [near for _, near in texts])

    found = [position for position, (score, near) in enumerate(texts) if score is not None or near > 0]
    assert sorted(match.position for match in fused) == found
    assert all(before.score >= after.score for before, after in pairwise(fused))
    assert all(math.isfinite(match.score) for match in fused)
