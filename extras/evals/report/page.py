"""A run as one page: a file that loads nothing and runs nothing, in light and dark, also for paper."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final
from xml.etree.ElementTree import Element, tostring

from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import CaseRow
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.report.figures import GOOD, percent
from skills_agent.evals.report.view import Figures, View
from skills_agent.graph.cli.printing import shown
from skills_agent.skills.text import count, cut, one_line

_YES, _NO = "\u2713", "\u2717"
"""How a cell begins that says whether an expectation holds."""
_LONG: Final = 1_000
"""Characters of a request and of an answer."""
_SHORT: Final = 240
"""Of a check, its evidence, and the arguments and the result of a call."""
_MOST: Final = 40
"""Checks and calls of a case."""


def element(tag: str, /, *children: str | Element, **attributes: object) -> Element:
    """Return an element, its texts with marks in place of what cannot be seen.

    `class_` stands for `class`, `http_equiv` for `http-equiv`.
    """
    named = {
        key.rstrip("_").replace("_", "-"): shown(str(value), "prose") for key, value in attributes.items()
    }
    made = Element(tag, named)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + shown(child, "prose")
        else:
            made.text = (made.text or "") + shown(child, "prose")
    return made


def html_page(view: View) -> str:
    """Return the page. Texts of cases, models and repositories are in it as texts, never as markup."""
    style = (files("skills_agent.evals.report") / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Markup that got through all the same would run nothing, load nothing and send nothing.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    styled = Element("style")
    styled.text = style
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", view.title),
        styled,
    )
    facts = [part for name, value in view.facts.items() for part in _fact(name, value)]
    body = element(
        "body",
        element("h1", view.title),
        *(element("p", each.sentence, class_=f"answer {each.tone}") for each in view.answers),
        element("ul", *(element("li", note) for note in view.notes)),
        *(element("div", _table(table), class_="wide") for table in view.tables),
        *([element("h2", "Cases, those that pass least often first")] if view.cases else []),
        *(_case(row, view.name(row), view.requests.get(row.case, ())) for row in view.cases),
        element("dl", *facts),
    )
    page = tostring(element("html", head, body, lang="en"), encoding="unicode", method="html")
    return f"<!doctype html>\n{page}\n"


def _fact(name: str, value: str) -> tuple[Element, Element]:
    return element("dt", name), element("dd", value)


def _table(table: Figures) -> Element:
    rows = [element("tr", element("th", row[0], scope="row"), *map(_cell, row[1:])) for row in table.rows]
    return element(
        "table",
        element("caption", table.title),
        element("thead", element("tr", *(element("th", each, scope="col") for each in table.header))),
        element("tbody", *rows),
    )


def _cell(text: str) -> Element:
    kind = {_YES: "passed", _NO: "failed"}.get(text[:1], text)
    return (
        element("td", text, class_=kind)
        if kind in {"passed", "failed", "better", "worse"}
        else element("td", text)
    )


def _case(row: CaseRow, name: str, requests: Sequence[str]) -> Element:
    sides = [side for side in ("with", "before", "without") if side in row.runs]
    worst = {side: _worst(row.runs[side]) for side in sides}
    marks = [*dict.fromkeys(each.outcome for each in row.runs.get("with", ()))]
    rates = ", ".join(f"{side} {percent(row.rates[side])}" for side in sides if side in row.rates)
    texts = dict.fromkeys(check.text for one in worst.values() for check in one.checks)
    rows = [
        (cut(text, _SHORT), *(_outcome(text, row.runs[side], worst[side]) for side in sides))
        for text in texts
    ]
    # Of many, those that do not hold are surely shown.
    rows.sort(key=lambda cells: len(rows) > _MOST and not cells[1].startswith(_NO))
    return element(
        "details",
        element(
            "summary",
            *(element("b", f"{mark} ", class_=mark) for mark in [*marks, *(["flaky"] if row.flaky else [])]),
            name,
            element("small", f" {rates}"),
        ),
        *(element("pre", cut(request, _LONG)) for request in requests),
        element("div", _table(Figures("", ("expected", *sides), rows[:_MOST])), class_="wide"),
        element(
            "div",
            *(element("section", *_attempt(side, worst[side], len(row.runs[side]))) for side in sides),
            class_="columns",
        ),
    )


def _worst(runs: Sequence[EvalResult]) -> EvalResult:
    """Return the run that is shown whole: the first that failed, else that broke off, else the first."""
    return min(runs, key=lambda one: (one.outcome != "failed", one.outcome in GOOD, one.repeat))


def _outcome(text: str, runs: Sequence[EvalResult], worst: EvalResult) -> str:
    """Return what came of one expectation in one column: a sign, how often, and the evidence."""
    held = [check.passed for one in runs for check in one.checks if check.text == text]
    if not held:
        return "-"
    times = f" {sum(held)} of {len(held)}" if len(held) > 1 else ""
    failed = (check.evidence for check in worst.checks if check.text == text and not check.passed)
    return f"{_YES if all(held) else _NO}{times} {cut(next(failed, ''), _SHORT)}".rstrip()


def _attempt(side: str, one: EvalResult, runs: int) -> Iterator[Element]:
    """Yield what the agent did in one run of a case."""
    calls = one.trajectory.calls
    title = f"{side}, run {one.repeat + 1}" if runs > 1 else side
    yield element("h3", f"{title}: {one.outcome}")
    if one.error:
        yield element("p", cut(one.error, _LONG))
    more = [f"and {count(len(calls) - _MOST, 'call')} more"] if len(calls) > _MOST else []
    yield element(
        "ol", *(element("li", element("code", each)) for each in [*map(_call, calls[:_MOST]), *more])
    )
    if one.trajectory.answer:
        yield element("pre", cut(one.trajectory.answer, _LONG))
    if one.thread:
        yield element("p", element("code", f"skills-agent threads show {one.thread}"))


def _call(call: MadeCall) -> str:
    args = json.dumps(call.args, ensure_ascii=False, separators=(",", ":"), default=str) if call.args else ""
    said = "" if call.status == "ok" else f" {call.status}: {one_line(call.result, _SHORT)}"
    return f"{call.tool} {one_line(args, _SHORT)}".rstrip() + said
