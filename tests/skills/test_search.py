"""Finding skills by words."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.registry import Registry
from skills_agent.skills.search import SearchIndex, SearchText, search_texts
from skills_agent.skills.sources import MemorySource

ENTRIES = [
    ("csv-report", "Profile any CSV file: rows, columns, totals."),
    ("release-notes", "Write release notes from the git history."),
    ("invoice", "Make an invoice as PDF from a CSV of items."),
]


def names(query: str, limit: int = 5) -> list[str]:
    return [name for name, _ in search_texts(ENTRIES, query, limit)]


def test_a_word_in_the_name_counts_more_than_one_in_the_description() -> None:
    assert names("csv") == ["csv-report", "invoice"]


def test_words_are_found_in_other_forms() -> None:
    assert names("profiling the columns of a file")[0] == "csv-report"
    assert names("INVOICES")[0] == "invoice"


def test_the_best_come_first_and_only_so_many() -> None:
    hits = search_texts(ENTRIES, "csv report of git", 2)

    assert len(hits) == 2
    assert hits[0][1] >= hits[1][1] > 0


def test_a_query_without_words_finds_nothing() -> None:
    assert names("") == names("?! ...") == names("zebra") == names("csv", limit=0) == []


def test_operators_of_the_index_are_only_words() -> None:
    for query in (
        'csv" OR "x',
        "csv AND NOT",
        "name:csv",
        "csv*",
        "NEAR(csv git)",
        "csv-report",
        "(csv",
        "^csv",
    ):
        assert "csv-report" in names(query)


@given(st.text(max_size=60))
def test_any_query_is_answered(query: str) -> None:
    assert all(score > 0 for _, score in search_texts(ENTRIES, query, 5))


def test_instructions_count_when_they_are_indexed() -> None:
    index = SearchIndex([SearchText("a", "does a"), SearchText("b", "does b", "uses the quarterly ledger")])

    assert [match.position for match in index.search("quarterly ledger", 5)] == [1]


def test_a_catalog_finds_its_skills_from_any_thread() -> None:
    skills = {name: {"SKILL.md": f"---\nname: {name}\ndescription: {text}\n---\n"} for name, text in
              (("csv-report", "Profiles CSV files."), ("notes", "Writes release notes."))}  # fmt: skip
    catalog = Registry([MemorySource(skills)]).refresh()
    found: list[str] = []

    threads = [
        threading.Thread(target=lambda: found.append(catalog.search("csv")[0].skill.name)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == ["csv-report"] * 4
