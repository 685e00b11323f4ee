"""Skills that a request names come before those that it is only like."""

import pytest

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.match import SearchText
from skills_agent.skills.search.naming import Names, Naming
from skills_agent.skills.search.vectors import Vectors
from skills_agent.skills.search.words import SearchIndex, search_texts
from skills_agent.skills.sources import MemorySource

ALIKE = "Make a report of a CSV file. Use when a report of a CSV file is wanted."
TWINS = [("csv-report", ALIKE), ("rain-report", ALIKE)]
NAMES = ("csv-report", "rain-report", "rain-report-daily", "review", "天气报告", "data:sum_up", "the")


@pytest.mark.parametrize(
    "request_",
    [
        "Use rain-report on the CSV file",
        "use rain-report",
        "Make a rain report of the CSV file, a report of csv",
        "the RAIN-REPORT, please, of this csv",
        "a report of a csv file: with `rain-report`, not with csv-report",
        "用rain-report处理 csv report",
    ],
)
def test_of_two_that_are_described_alike_the_named_one_is_found(request_: str) -> None:
    (first, best), (second, next_best) = search_texts(TWINS, request_, 2)

    assert (first, second) == ("rain-report", "csv-report")
    assert best >= next_best


def test_a_name_as_it_is_written_comes_before_a_better_match_and_its_words_do_not() -> None:
    texts = [
        SearchText("marsh", "Counts herons, larks and finches at dawn."),
        SearchText("bird-corp", "Odd."),
    ]
    index = SearchIndex(texts)
    request = "count herons, larks and finches at dawn with bird-corp"
    best = index.search(request, 1)[0]
    assert best.position == 1
    assert index.fits(request, best)
    assert index.search("count herons, larks and finches at dawn with the bird corp", 1)[0].position == 0


def test_the_words_of_a_name_bring_no_skill_before_one_that_is_trusted_more() -> None:
    strangers = MemorySource(
        {"total-amount": {"SKILL.md": f"---\ndescription: {ALIKE}\n---\n"}}, "project", trusted=False
    )
    own = MemorySource({"csv-report": {"SKILL.md": f"---\ndescription: {ALIKE} Rows.\n---\n"}}, "user")
    catalog = Registry([own, strangers]).refresh()

    assert catalog.search("report the total amount of a CSV file")[0][0].name == "csv-report"
    assert catalog.search("report with total-amount on a CSV file")[0][0].name == "total-amount"


def test_the_named_one_comes_first_by_meaning_too() -> None:
    class Near:
        """A model that finds the first text like every query."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0, 0.0] if text.startswith("csv") else [0.0, 1.0] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [1.0, 0.0]

    skills = {name: {"SKILL.md": f"---\ndescription: {text}\n---\n"} for name, text in TWINS}
    catalog = Registry([MemorySource(skills)], vectors=Vectors(Near())).refresh()

    assert catalog.search("a csv report, by rain-report")[0][0].name == "rain-report"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("use rain-report", {"rain-report": "written"}),
        ("make rain report of this", {"rain-report": "words"}),
        ("the rain report skill", {"rain-report": "written"}),
        ("rain-report-daily for all of it", {"rain-report-daily": "written"}),
        ("a rain-report, then csv-report", {"rain-report": "written", "csv-report": "written"}),
        ("a csv report, and rain-report here", {"rain-report": "written", "csv-report": "words"}),
        ("请使用天气报告处理数据 now", {"天气报告": "words"}),
        ("do data:sum_up of it", {"data:sum_up": "written"}),
        ("review", {"review": "written"}),
        ("review my code", {}),
        ("in data/rain-report/x and rain-report.csv and rain-report/", {}),
        ("my-rain-report of today", {}),
        ("rain. report the news", {}),
        ("", {}),
    ],
)
def test_what_a_request_names(request_: str, expected: dict[str, Naming]) -> None:
    found = Names(NAMES).in_request(request_)
    assert [(NAMES[position], how) for position, how in found.items()] == [*expected.items()]
