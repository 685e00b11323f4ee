"""The page of a run: one file that loads nothing, small, and with every text escaped."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from skills_agent.graph.evals.report.html import html_page
from skills_agent.graph.evals.report.wording import answers
from skills_agent.graph.pages.charts import Point, difference, scatter
from skills_agent.graph.pages.elements import Html, element, text
from skills_agent.skills.evals.result import CheckResult, EvalResult, RunHead
from skills_agent.skills.evals.summary import Summary
from skills_agent.skills.evals.trajectory import MadeCall, Trajectory
from tests.graph.evals.large_runs import large_run
from tests.graph.evals.summaries import HOSTILE, result, summary

_TAGS = """
html head meta title style script body main div h1 h2 h3 p a b small code pre span del ins ul ol li dl dt dd
table caption thead tbody tr th td svg rect line circle text section details summary button label input select
option
"""
ALLOWED = frozenset(_TAGS.split())
TWO_MEGABYTES = 2_000_000


class Tags(HTMLParser):
    """Reads a page as a browser does: its tags, and what of them could load or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.attributes.update(found)
        if "href" in found:
            self.links.add(str(found["href"]))
        if "id" in found:
            self.ids.append(str(found["id"]))
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(found["content"])
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile() -> Summary:
    """Return a run in which every text that comes from elsewhere is hostile."""
    whole = large_run(12, models=(HOSTILE, "b"), baseline=True)
    head = structs.replace(
        whole.head,
        id=HOSTILE,
        command=HOSTILE,
        grader=HOSTILE,
        partial=HOSTILE,
        skipped=(HOSTILE,),
        skills={HOSTILE: HOSTILE},
        cases=tuple(
            structs.replace(
                case, turns=(HOSTILE,), tags=(HOSTILE,), file=HOSTILE, skill=HOSTILE, note=HOSTILE
            )
            for case in whole.head.cases
        ),
    )
    rows = tuple(
        structs.replace(
            row, runs={side: tuple(map(_hostile_result, runs)) for side, runs in row.runs.items()}
        )
        for row in whole.cases
    )
    return structs.replace(whole, head=head, cases=rows, notes=(HOSTILE,))


def _hostile_result(one: EvalResult) -> EvalResult:
    call = MadeCall(tool=HOSTILE, args={HOSTILE: HOSTILE}, result=HOSTILE, status="error")
    return structs.replace(
        one,
        error=HOSTILE,
        thread=HOSTILE,
        checks=tuple(
            structs.replace(each, text=HOSTILE, evidence=HOSTILE, passed=False) for each in one.checks
        ),
        trajectory=Trajectory(answers=(HOSTILE + one.arm,), calls=(call,), files={HOSTILE: "0"}),
    )


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = html_page(hostile())
    read = Tags(page)
    assert read.open == []
    assert set(read.tags) <= ALLOWED
    assert read.tags.count("script") == read.tags.count("style") == 1
    assert not {name for name in read.attributes if name.startswith("on")}
    assert not read.attributes & {"src", "srcset", "action", "style", "ping"}
    assert all(re.fullmatch(r"#case-\d+", link) and link[1:] in read.ids for link in read.links)
    assert len(set(read.ids)) == len(read.ids)
    assert not set(page) & set("\x1b\u202e")


def test_only_our_own_script_and_style_may_run() -> None:
    page = html_page(summary(1))
    policy = Tags(page).policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert policy.endswith("; base-uri 'none'; form-action 'none'")
    for tag in ("script", "style"):
        source = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert source
        digest = base64.b64encode(hashlib.sha256(source[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_page_has_every_case() -> None:
    page = html_page(summary(200, text=HOSTILE))
    assert len(page.encode()) < TWO_MEGABYTES
    assert page.count('class="case"') == 200


@pytest.mark.slow
def test_the_page_of_two_hundred_real_cases_is_small() -> None:
    for whole in (large_run(), large_run(repeat=3)):
        page = html_page(whole)
        assert len(page.encode()) < TWO_MEGABYTES
        assert page.count('class="case"') == 200
    assert "eval --json has all" not in html_page(large_run())


@pytest.mark.slow
def test_long_texts_are_cut_shorter_where_the_page_would_be_too_large() -> None:
    whole = large_run()
    long = Trajectory(
        answers=("word & " * 20_000,),
        calls=tuple(
            MadeCall(tool="grep", args={"pattern": "x" * 9_000}, result="<y>" * 9_000) for _ in range(200)
        ),
    )
    rows = tuple(
        structs.replace(
            row,
            runs={
                side: tuple(structs.replace(one, trajectory=long) for one in runs)
                for side, runs in row.runs.items()
            },
        )
        for row in whole.cases
    )
    page = html_page(structs.replace(whole, cases=rows))
    assert len(page.encode()) < TWO_MEGABYTES
    assert page.count('class="case"') == 200
    assert "eval --json has all" in page


def test_the_page_begins_with_the_answers() -> None:
    page = html_page(large_run(80))
    said = re.findall(r'<div class="verdict ([^"]*)"><div><p>([^<]*)<', page)
    assert [tone for tone, _ in said] == ["better", "better more", "failed more"]
    assert [sentence for _, sentence in said] == [each.sentence for each in answers(large_run(80))]
    assert page.index("Your edit helped") < page.index("<h2>")


def test_each_case_says_what_was_expected_what_happened_and_where_its_thread_is() -> None:
    page = html_page(summary(4))
    for said in (
        'The answer contains "4".',
        "skills-agent threads show eval-r1-csv-report-0-with",
        '<b>load_skill</b> {"name":"csv-report"}',
        "<p>Skills: csv-report</p>",
        "evals.json#3: it is no object.",
        "csv-report <code>dddddddddddd</code>",
    ):
        assert said in page


def story(whole: Summary, case: str) -> str:
    page = html_page(whole)
    start = page.index(f'data-case="{case}"')
    end = page.find('<details class="case"', start)
    return page[start : end if end > 0 else None]


def with_runs(**runs: Any) -> Summary:
    """Return a run whose one case has these runs by side."""
    whole = summary(1)
    rates = {side: sum(one.score for one in found) / len(found) for side, found in runs.items()}
    row = structs.replace(whole.cases[0], runs=runs, rates=rates)
    return structs.replace(whole, cases=(row,))


def answered(answer: str, outcome: str = "passed", **fields: Any) -> EvalResult:
    return result("csv-report/0", outcome, trajectory=Trajectory(answers=(answer,)), **fields)


def test_answers_are_compared_with_those_before_and_without() -> None:
    same, other = "one\ntwo\nthree\nfour\nfive\nsix\n", "one\ntwo\nthree\nfour\nfive\nSIX\n"
    told = story(
        with_runs(**{"with": (answered(other),), "before": (answered(same),), "without": (answered(other),)}),
        "csv-report/0",
    )
    assert "<del>- six\n</del><ins>+ SIX\n</ins>" in told
    assert "Without: the same answer." in told
    assert "Compared with the answer before" in told


def test_lines_that_did_not_change_are_folded() -> None:
    lines = "\n".join(map(str, range(30)))
    told = story(
        with_runs(**{"with": (answered(f"{lines}\nx"),), "before": (answered(f"{lines}\ny"),)}),
        "csv-report/0",
    )
    assert "\u2026 26 lines are the same" in told


def test_of_long_answers_the_beginnings_are_compared() -> None:
    ours, theirs = ("\n".join(f"{sign}{number % 7}" for number in range(400)) for sign in "ab")
    told = story(with_runs(**{"with": (answered(ours),), "before": (answered(theirs),)}), "csv-report/0")
    assert told.count("\n- b") + told.count("<del>- b") == 80
    assert "\u2026 the first 80 lines are compared" in told


def test_of_many_runs_the_one_that_failed_is_told_and_each_has_its_thread() -> None:
    runs = tuple(
        answered("ok", "failed" if number == 1 else "passed", repeat=number, thread=f"t{number}")
        for number in range(3)
    )
    told = story(with_runs(**{"with": runs}), "csv-report/0")
    assert "What it did, run 2" in told
    assert [told.index(f"threads show t{number}") for number in (1, 0, 2)] == sorted(
        told.index(f"threads show t{number}") for number in range(3)
    )
    assert "\u2713 3 of 3" in told


def test_a_case_is_found_in_its_file_without_the_folders_of_one_machine() -> None:
    whole = summary(1)
    case = structs.replace(whole.head.cases[0], file="/home/me/skills/csv-report/evals/evals.json#0")
    for places, shown in ((("/home/me/skills",), "skills/csv-report/"), ((), "/home/me/skills/csv-report/")):
        head = structs.replace(whole.head, cases=(case,), places=places)
        assert f" {shown}evals/evals.json#0" in html_page(structs.replace(whole, head=head))


def test_an_error_is_no_failed_check() -> None:
    whole = with_runs(**{"with": (answered("", "timeout", error="It was given up.", checks=()),)})
    told = story(whole, "csv-report/0")
    assert '<p class="fault timeout">Timeout: It was given up.' in told
    assert 'data-marks="broken-off"' in html_page(whole)
    assert ">no answer 1</button>" in html_page(whole)


def test_the_worst_cases_come_first() -> None:
    page = html_page(large_run(80))
    marks = [each.split()[0] for each in re.findall(r'data-marks="([^"]+)"', page)]
    order = ["failed", "broken-off", "flaky", "lost", "gained", "ungraded", "passed"]
    assert marks == sorted(marks, key=order.index)


def test_a_request_that_went_wrong_leads_to_its_case() -> None:
    whole = large_run(80)
    page = html_page(whole)
    near = whole.arms[0].choices
    assert near
    place = next(place for place, row in enumerate(whole.cases) if row.case == near.near_misses[0].case)
    assert f'href="#case-{place}"' in page
    assert re.search(rf'id="case-{place}" data-case="{near.near_misses[0].case}"', page)


def test_a_chart_has_the_tone_of_the_verdict_and_not_of_the_interval() -> None:
    whole = summary(24)
    for verdict, tone in (("better", "better"), ("worse", "worse"), ("no difference shown", "open")):
        delta = structs.replace(whole.deltas[0], verdict=verdict)
        page = html_page(structs.replace(whole, deltas=(delta,)))
        assert set(re.findall(r'class="dot (\w+)"', page)) - {"hollow"} == {tone}


def test_many_skills_do_not_make_an_endless_confusion() -> None:
    whole = summary(4)
    many = 300
    names = (*(f"skill-{number}" for number in range(many)), "(none)")
    rows = [[3 * (column == row) for column in range(many + 1)] for row in range(many + 1)]
    rows[250][251] = 2  # what went wrong has to be among those shown
    assert whole.arms[0].choices
    choices = structs.replace(whole.arms[0].choices, names=names, confusion=tuple(map(tuple, rows)))
    arm = structs.replace(whole.arms[0], choices=choices)
    page = html_page(structs.replace(whole, arms=(arm,)))
    assert "Confusion, in runs (276 more skills)" in page
    assert '<th scope="row">skill-250</th>' in page
    assert '<th scope="row">skill-251</th>' in page
    assert '<td class="wrong shade-7">2</td>' in page


def test_a_case_with_very_much_in_it_is_told_in_part() -> None:
    checks = tuple(
        CheckResult(kind="answer", text=f"It says {number}.", passed=number != 99) for number in range(100)
    )
    whole = with_runs(**{"with": (answered("x", "failed", checks=checks),)})
    case = structs.replace(
        whole.head.cases[0],
        turns=tuple(map(str, range(100))),
        tags=tuple(f"tag {number}" for number in range(500)),
    )
    told = story(structs.replace(whole, head=structs.replace(whole.head, cases=(case,))), "csv-report/0")
    assert "It says 99." in told
    assert "It says 38." in told
    assert "and 60 more expectations" in told
    assert told.count('<th scope="row">') == 40
    assert "and 90 requests more" in told
    assert "tag 49" in told
    assert "tag 499" not in told


def test_what_nothing_can_write_is_marked() -> None:
    whole = with_runs(**{"with": (answered("a\ud800b", "error", error="\udcff"),)})
    call = MadeCall(tool="grep\ud800", args={"pattern": "\ud801", "more": [b"bytes", {1, 2}]})
    row = structs.replace(
        whole.cases[0],
        runs={
            "with": (structs.replace(whole.cases[0].runs["with"][0], trajectory=Trajectory(calls=(call,))),)
        },
    )
    for one in (whole, structs.replace(whole, cases=(row,))):
        page = html_page(structs.replace(one, head=structs.replace(one.head, command="eval \udcff")))
        assert "<U+DCFF>".replace("<", "&lt;").replace(">", "&gt;") in page
        assert page.encode()


def test_a_run_of_nothing_has_a_page() -> None:
    page = html_page(Summary(head=RunHead(id="r", at=""), arms=(), deltas=(), cases=()))
    assert "Nothing was run." in page
    assert Tags(page).open == []


def test_charts_hold_any_figures() -> None:
    points = [Point("a", 0.0, 0.0, 0.0, 1.0), Point("a" * 200, 0.0, 1.0, 0.0, 1.0, is_filled=False)]
    for chart in (
        scatter(points, "x", "y"),
        scatter([], "x", "y"),
        difference(-1.0, -1.0, 1.0, has_scale=True),
    ):
        assert "nan" not in chart
        assert Tags(chart).open == []


@given(st.text())
def test_any_text_stays_a_text(value: str) -> None:
    page = f"<p>{text(value)}</p>{element('a', value, title=value)}"
    read = Tags(page)
    assert read.tags == ["p", "a"]
    assert read.attributes == {"title"}


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "1 < 2"), None, [Html("<br>")]) == "<p><b>1 &lt; 2</b><br></p>"
    assert (
        element("input", disabled=True, hidden=False, data_x=1, for_="y")
        == '<input disabled data-x="1" for="y">'
    )
