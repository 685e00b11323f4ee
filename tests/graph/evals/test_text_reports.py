"""Reports for terminals, pull requests and CI: the answer first, and nothing hostile gets through."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from skills_agent.graph.evals.report.junit import junit
from skills_agent.graph.evals.report.markdown import LONGEST, escaped, markdown
from skills_agent.graph.evals.report.terminal import MOST, lines
from skills_agent.graph.evals.report.wording import headline
from skills_agent.skills.evals.result import RunHead
from skills_agent.skills.evals.summary import Summary
from tests.graph.evals.summaries import HOSTILE, result, summary


def test_the_answer_comes_first() -> None:
    said = list(lines(summary(40)))
    assert said[0] == headline(summary(40))
    assert said[0].startswith(
        "The skill: better: +25 points (95 %: +5 to +45) over 40 cases (8 better, 1 worse"
    )
    assert any("threads show eval-r1-csv-report-0-with" in line for line in said)
    assert "note: Four cases are few." in said
    assert any("What is the total per region?: text-stats, and not csv-report" in line for line in said)


def test_a_run_without_deltas_says_what_passed() -> None:
    plain = structs.replace(summary(4), deltas=())
    assert headline(plain) == "3 of 4 runs passed: 75 % (50 to 90) of 4 cases."
    assert headline(Summary(head=RunHead(id="r", at=""), arms=(), deltas=(), cases=())) == "Nothing was run."


def test_a_long_list_of_failures_says_how_many_more() -> None:
    said = "\n".join(lines(summary(200)))
    assert said.count("threads show") == MOST
    assert "and 30 more" in said


def test_markdown_of_a_large_run_fits_into_a_comment() -> None:
    assert len(markdown(summary(400, text=HOSTILE * 3))) <= LONGEST


@given(st.text())
def test_no_text_is_markup_in_markdown(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)[|<`*\[]", shown)
    assert not re.search(r"[@#](?!\u200b)\S|://|www\.", shown)


def test_hostile_texts_stay_texts_in_markdown() -> None:
    shown = markdown(summary(4, text=HOSTILE))
    assert "<script" not in shown.replace("\\<", "")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "@octocat" not in shown


def test_every_run_is_a_test_case_of_junit() -> None:
    root = ET.fromstring(junit(summary(8, text=HOSTILE)))
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    assert [each.get("name") for each in suites] == ["offline (with)", "offline (without)"]
    for suite in suites:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases)) == "8"
        for tag in ("failure", "error", "skipped"):
            attribute = {"failure": "failures", "error": "errors"}.get(tag, tag)
            assert suite.get(attribute) == str(len(suite.findall(f"testcase/{tag}")))
    assert suites[0].findall("testcase/error") or suites[0].findall("testcase/failure")


@pytest.mark.parametrize(
    ("outcome", "tag"),
    [
        ("failed", "failure"),
        ("error", "error"),
        ("timeout", "error"),
        ("refused", "error"),
        ("ungraded", "skipped"),
    ],
)
def test_each_outcome_has_its_element(outcome: str, tag: str) -> None:
    whole = summary(1)
    row = structs.replace(whole.cases[0], runs={"with": (result("a/0", outcome, error="why\x00\ud800"),)})
    root = ET.fromstring(junit(structs.replace(whole, cases=(row,))))
    fault = root.find(f".//testcase/{tag}")
    assert fault is not None
    assert "why" in str(fault.get("message"))


@given(st.text())
def test_any_text_is_valid_xml(text: str) -> None:
    whole = summary(1)
    row = structs.replace(whole.cases[0], runs={"with": (result(text, "error", error=text, thread=text),)})
    ET.fromstring(junit(structs.replace(whole, cases=(row,))))
