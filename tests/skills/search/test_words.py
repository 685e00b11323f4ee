"""Finding skills by words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.match import SearchText
from skills_agent.skills.search.tokens import read_query
from skills_agent.skills.search.words import SearchIndex, TextTables, search_texts
from skills_agent.skills.sources import MemorySource
from tests.examples import trying

ENTRIES = [
    ("csv-report", "Profile any CSV file: rows, columns, totals."),
    ("release-notes", "Write release notes from the git history."),
    ("invoice", "Make an invoice as PDF from a CSV of items."),
]


def names(query: str, entries: list[tuple[str, str]] = ENTRIES, limit: int = 5) -> list[str]:
    return [name for name, _ in search_texts(entries, query, limit)]


def found(catalog: Catalog, query: str) -> list[str]:
    return [skill.name for skill, _ in catalog.search(query)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("csv", ["csv-report", "invoice"]),  # the name counts more than the description
        ("profiling the columns of a file", ["csv-report"]),
        ("INVOICES", ["invoice"]),
        *((query, []) for query in ("", "?! ...", "zebra")),
        *((query, ["csv-report"]) for query in ('csv" OR "x', "csv AND NOT", "name:csv", "csv*", "(csv")),
        *((query, ["csv-report"]) for query in ("NEAR(csv git)", "csv-report", "^csv")),
    ],
)
def test_words_are_found_in_other_forms_and_operators_are_only_words(query: str, first: list[str]) -> None:
    assert names(query)[: len(first)] == first
    assert bool(names(query)) == bool(first)
    assert names(query, limit=0) == []


def test_a_query_is_the_first_words_that_say_something_of_a_task_if_there_are_any() -> None:
    assert read_query("Please can you profile this").words == ("profile",)
    assert read_query("what is it").words == ("what", "is", "it")
    assert len(read_query(" ".join(f"word{number}" for number in range(100_000))).words) == 64


@pytest.mark.parametrize(
    ("query", "name"),
    [("先週の議事録が欲しい", "notes"), ("デプロイして", "deploy"), ("帮我做预算", "budget")],
)
def test_chinese_and_japanese_are_found_without_blanks_between_words(query: str, name: str) -> None:
    entries = [
        ("notes", "会議の議事録を作成する"),
        ("deploy", "サーバーをデプロイする"),
        ("budget", "编制年度预算报告"),
    ]
    assert names(query, entries, 1) == [name]


# What counts


def test_a_word_that_most_skills_have_counts() -> None:
    entries = [
        ("invoice", "Makes one."),
        ("payments", "Pays an invoice."),
        ("archive", "Files an invoice."),
        ("tables", "Draws a table of contents."),
    ]

    ((name, score),) = search_texts(entries, "an invoice", 1)
    assert name == "invoice"
    assert score > 0.1 * search_texts(entries, "a table", 1)[0][1]


def test_words_that_stand_side_by_side_in_the_request_and_in_the_text_count_more() -> None:
    entries = [
        ("a", "Answers a request of a customer, and helps to pull a cart."),
        ("b", "Answers a customer of a cart, and helps with a pull request."),
        ("c", "Does something else."),
    ]
    assert names("my pull request", entries) == ["b", "a"]


def test_instructions_are_searched_far_down_and_do_not_hide_the_description() -> None:
    far = skill("Does something.", "filler " * 9_000 + "quarterly ledger")
    catalog = Registry([MemorySource({"a": far, "b": skill("Does more.")})]).refresh()
    assert found(catalog, "ledger") == ["a"]
    long = skill("Makes an invoice.", "Background reading about everything under the sun. " * 300)
    other = skill("Files things.", "One invoice.")
    catalog = Registry([MemorySource({"invoice": long, "other": other})]).refresh()
    assert found(catalog, "invoice")[0] == "invoice"


def test_a_word_in_a_name_counts_as_much_however_long_the_description_is() -> None:
    others = [("ledger", "Sums up."), ("other", "Does more.")]
    filler = " ".join(f"word{number}" for number in range(200))

    short = search_texts([("invoice", "Does it."), *others], "an invoice", 1)
    assert search_texts([("invoice", filler), *others], "an invoice", 1) == short


def test_a_word_that_no_text_has_counts_where_one_begins_with_it() -> None:
    entries = [("tables", "Tunes PostgreSQL."), ("posts", "Writes posts."), ("art", "Draws.")]

    assert names("postgres", entries) == ["tables"]
    index = SearchIndex(SearchText(*entry) for entry in entries)
    assert [term.fields for term in index.terms("postgres", 0)] == [("description",)]


def test_a_sentence_that_names_another_skill_counts_for_that_one() -> None:
    skills = {
        "branch-review": skill("Reviews a branch. For pull requests of strangers use fork-review instead."),
        "fork-review": skill("Reviews what others send."),
        "other": skill("Does something else."),
    }
    catalog = Registry([MemorySource(skills)]).refresh()

    assert found(catalog, "pull requests of strangers") == ["fork-review"]
    del skills["branch-review"]
    assert Registry([MemorySource(skills)]).refresh().search("pull requests of strangers") == []


# What fits

BIRDS = [
    SearchText("heron-count", "Counts herons in a marsh.", "Write down the number of nests of grey herons."),
    SearchText("lark-song", "Records the song of larks.", "Use the microphone in the morning."),
    SearchText("owl-box", "Builds a nesting box.", "Wood of two centimetres, no paint."),
    SearchText("swan-map", "Draws a map.", "One dot a pair."),
]


OF_BIRDS = SearchIndex(BIRDS)


def fitting(request: str) -> list[str]:
    best = OF_BIRDS.search(request, 1)
    return [BIRDS[match.position].name for match in best if OF_BIRDS.fits(request, match)]


@pytest.mark.parametrize(
    ("request_text", "names"),
    [
        ("count the grey herons in the marsh near my house", ["heron-count"]),
        ("record larks", ["lark-song"]),
        ("larks", ["lark-song"]),
        ("write down a poem about the sea, with a rhyme at the end of each line", []),
    ],
)
def test_a_request_fits_the_skill_that_has_half_of_its_words_or_more(
    request_text: str, names: list[str]
) -> None:
    assert OF_BIRDS.search(request_text, 1)
    assert fitting(request_text) == names


@given(st.text(max_size=60))
def test_any_request_is_answered_and_fit_is_the_score_of_a_search_by_words(request: str) -> None:
    assert all(0 < match.fit == match.score for match in OF_BIRDS.search(request, 5))


def test_the_skill_that_fits_is_one_that_a_model_may_load() -> None:
    manual = skill("Counts herons.\ndisable-model-invocation: true")
    registry = Registry([MemorySource({"heron-count": manual, "marsh": skill("Counts herons in a marsh.")})])
    assert [fit.name for fit in registry.refresh().fitting("count the herons")] == ["marsh"]


# Instructions, trust, and what is indexed


def skill(description: str, instructions: str = "") -> dict[str, str | bytes]:
    return {"SKILL.md": f"---\ndescription: {description}\n---\n{instructions}\n"}


def test_only_a_changed_skill_is_indexed_again() -> None:
    reads: list[str] = []

    class Counting(MemorySource):
        def read(self, path: str, limit: int) -> bytes:
            reads.append(path)
            return super().read(path, limit)

    skills = {name: skill("Does it.", f"Words of {name}.") for name in ("a", "b", "c")}
    registry = Registry([Counting(skills)])
    catalog = registry.refresh()
    discovered = len(reads)
    for query in ("words", "others"):
        catalog.search(query)
    assert (discovered, len(reads)) == (3, 6)  # the instructions with the first search
    reads.clear()
    skills["b"] = skill("Does it.", "Herons.")
    del skills["c"]
    catalog = registry.refresh()

    assert found(catalog, "herons") == ["b"]
    assert found(catalog, "words") == ["a"]
    assert reads == ["memory:b/SKILL.md"] * 2  # its frontmatter, its instructions


def test_an_older_catalog_is_searched_as_it_was_and_what_vanished_since_is_no_fault() -> None:
    class Vanishing(MemorySource):
        there = True

        def read(self, path: str, limit: int) -> bytes:
            if not self.there:
                raise FileNotFoundError(path)
            return super().read(path, limit)

    skills = {name: skill(f"Does {name}.") for name in ("herons", "larks")}
    source = Vanishing(skills)
    registry = Registry([source])
    before = registry.refresh()
    del skills["larks"]
    after = registry.refresh()
    source.there = False
    assert found(after, "larks") == []
    assert found(before, "larks") == ["larks"]
    assert found(after, "larks herons") == ["herons"]


def test_a_much_better_match_comes_first_wherever_it_is_from() -> None:
    strangers = MemorySource({"heron-count": skill("Counts herons.")}, "project", trusted=False)
    own = MemorySource({"b": skill("Feeds larks, finches, and once in a while herons.")}, "user")
    catalog = Registry([own, strangers, MemorySource({"c": skill("Does it.")})]).refresh()

    assert found(catalog, "herons") == ["heron-count", "b"]


texts = st.lists(st.builds(SearchText, st.text(max_size=8), st.text(max_size=30), st.text(max_size=30)))


@pytest.mark.slow
@trying(30)
@given(texts, texts, st.text(max_size=20))
def test_shared_tables_answer_like_those_of_one_index(
    one: list[SearchText], other: list[SearchText], query: str
) -> None:
    one, other = ([text._replace(key="|".join(map(str, text[:3]))) for text in each] for each in (one, other))
    shared = TextTables()
    for each in (one, other, one):
        assert SearchIndex(each, shared).search(query, 9) == SearchIndex(each).search(query, 9)
