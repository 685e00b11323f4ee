"""Reports for terminals, pull requests and CI: a plain answer, and nothing hostile gets through."""

import io
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console

from extras.evals.tests.summaries import HOSTILE, result, summary
from skills_agent.evals.cases.result import RunHead
from skills_agent.evals.cases.summary import NearMiss, Summary
from skills_agent.evals.report.junit import junit
from skills_agent.evals.report.markdown import LONGEST, escaped, markdown
from skills_agent.evals.report.terminal import print_summary
from skills_agent.evals.report.wording import answers


def printed(whole: Summary, *, width: int = 500, terminal: bool = False) -> str:
    file = io.StringIO()
    colours: dict[str, Any] = {"force_terminal": True, "color_system": "standard"} if terminal else {}
    print_summary(whole, Console(file=file, width=width, highlight=False, markup=False, **colours))
    return file.getvalue()


def test_a_run_without_deltas_says_what_passed() -> None:
    plain = structs.replace(summary(4), deltas=())
    assert answers(plain)[0].sentence == "3 of 4 runs passed: 75 % (50 to 90) of 4 cases."
    empty = Summary(head=RunHead(id="r", at=""), arms=(), deltas=(), cases=())
    assert answers(empty)[0].sentence == "Nothing was run."
    assert printed(empty)
    assert markdown(empty)
    assert ET.fromstring(junit(empty)).get("tests") == "0"


def hostile() -> Summary:
    """Return a summary whose names and texts are all hostile."""
    whole = summary(24, text=HOSTILE)
    choices = whole.arms[0].choices
    assert choices
    skills = tuple(structs.replace(each, skill=HOSTILE) for each in choices.skills)
    misses = tuple(
        structs.replace(each, expected=(HOSTILE,), chosen=(HOSTILE,)) for each in choices.near_misses
    )
    arm = structs.replace(
        whole.arms[0], model=HOSTILE, choices=structs.replace(choices, skills=skills, near_misses=misses)
    )
    cases = tuple(structs.replace(each, skill=HOSTILE) for each in whole.head.cases)
    head = structs.replace(
        whole.head,
        cases=cases,
        models=(HOSTILE, "b"),
        partial=HOSTILE,
        skipped=(HOSTILE,),
        skills={HOSTILE: "d"},
    )
    bad = result(HOSTILE, "error", error=HOSTILE, thread=HOSTILE, model=HOSTILE)
    row = structs.replace(whole.cases[0], case=HOSTILE, model=HOSTILE, runs={"with": (bad,)}, flaky=True)
    deltas = tuple(
        structs.replace(whole.deltas[0], model=HOSTILE, name=name)
        for name in ("with - without", f"now - {HOSTILE}")
    )
    return structs.replace(whole, head=head, arms=(arm,), cases=(row,), deltas=deltas, notes=(HOSTILE,))


@pytest.mark.parametrize("width", [40, 500])
def test_hostile_texts_cannot_steer_the_terminal(width: int) -> None:
    said = printed(hostile(), width=width, terminal=True)
    assert "octocat" in said
    assert "\x1b[2J" not in said
    assert "\u202e" not in said


def test_markdown_of_a_large_run_fits_into_a_comment() -> None:
    assert len(markdown(summary(400, text=HOSTILE * 3))) <= LONGEST


def test_markdown_that_is_cut_leaves_nothing_open() -> None:
    whole = summary(400)
    miss = NearMiss(case="a", request="word " * 90, expected=("csv-report",), chosen=(), rate=1)
    assert whole.arms[0].choices
    choices = structs.replace(whole.arms[0].choices, near_misses=(miss,) * 50)
    arms = tuple(
        structs.replace(whole.arms[0], model=f"model-{number}", choices=choices) for number in range(9)
    )
    said = markdown(structs.replace(whole, arms=arms))
    assert "The rest is left out" in said
    assert len(said) <= LONGEST
    assert said.count("<details>") == said.count("</details>")


@given(st.text())
def test_no_text_is_markup_in_markdown(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)[|<`*\[]", shown)
    assert not re.search(r"[@#](?!\u200b)\S|://|www\.", shown)


def test_hostile_texts_stay_texts_in_markdown() -> None:
    shown = markdown(hostile())
    assert "octocat" in shown
    assert "<script" not in shown.replace("\\<", "")
    assert not set(shown) & set("\x1b\u202e")
    assert "@octocat" not in shown
    assert "https://" not in shown


_SUITE = {"name", "timestamp", "tests", "failures", "errors", "skipped", "time"}
_CONTENT = {
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
    "system-out": set(),
}


def check_junit(text: str) -> ET.Element:
    """Hold a report against the rules of the schema that Jenkins publishes, and return it."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    assert set(root.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
    for suite in root:
        assert (suite.tag, set(suite.attrib)) == ("testsuite", _SUITE)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        assert [each.tag for each in suite] == ["properties", *["testcase"] * (len(suite) - 1)]
        assert all((each.tag, set(each.attrib)) == ("property", {"name", "value"}) for each in suite[0])
        for case in suite[1:]:
            assert set(case.attrib) == {"classname", "name", "time"}
            assert case.attrib["name"]
            assert float(case.attrib["time"]) >= 0
            for part in case:
                assert set(part.attrib) == _CONTENT[part.tag]
            assert len([part for part in case if part.tag != "system-out"]) <= 1
        counted = Counter(part.tag for case in suite[1:] for part in case)
        assert suite.get("tests") == str(len(suite) - 1)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert suite.get(name) == str(counted[tag])
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def test_hostile_texts_are_texts_in_junit() -> None:
    said = junit(hostile())
    check_junit(said)
    assert "octocat" in said
    assert "\x1b" not in said


def test_every_run_is_a_test_case_of_junit() -> None:
    root = check_junit(junit(summary(8, text=HOSTILE)))
    assert [each.get("name") for each in root] == ["offline (with)", "offline (without)"]
    assert [each.get("tests") for each in root] == ["8", "8"]
    assert root[0].findall("testcase/error") or root[0].findall("testcase/failure")


def test_a_case_that_only_passes_with_the_skill_is_no_failure_in_junit() -> None:
    with_it, without_it = check_junit(junit(summary(40)))
    assert int(with_it.attrib["failures"]) > 0
    assert int(without_it.attrib["skipped"]) > 0
    assert without_it.get("failures") == without_it.get("errors") == "0"


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
    root = check_junit(junit(structs.replace(whole, cases=(row,))))
    fault = root.find(f".//testcase/{tag}")
    assert fault is not None
    assert "why" in str(fault.get("message"))


@given(st.text())
def test_any_text_is_valid_xml(text: str) -> None:
    whole = summary(1)
    row = structs.replace(whole.cases[0], runs={"with": (result(text, "error", error=text, thread=text),)})
    ET.fromstring(junit(structs.replace(whole, cases=(row,))))
