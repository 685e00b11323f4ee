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

from extras.evals.tests.summaries import HOSTILE, result, summary
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.cases.trajectory import MadeCall, Trajectory
from skills_agent.evals.pages.charts import Point, difference, scatter
from skills_agent.evals.pages.elements import element, text
from skills_agent.evals.report.html import html_page

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
    whole = summary(12)
    head = structs.replace(
        whole.head,
        id=HOSTILE,
        command=HOSTILE,
        models=(HOSTILE, "b"),
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


@pytest.mark.slow
def test_long_texts_are_cut_shorter_where_the_page_would_be_too_large() -> None:
    whole = summary(200)
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


def with_runs(**runs: Any) -> Summary:
    """Return a run whose one case has these runs by side."""
    whole = summary(1)
    rates = {side: sum(one.score for one in found) / len(found) for side, found in runs.items()}
    row = structs.replace(whole.cases[0], runs=runs, rates=rates)
    return structs.replace(whole, cases=(row,))


def answered(answer: str, outcome: str = "passed", **fields: Any) -> EvalResult:
    return result("csv-report/0", outcome, trajectory=Trajectory(answers=(answer,)), **fields)


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
