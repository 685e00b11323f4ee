"""A run of evals as one page."""

from collections.abc import Iterator, Sequence
from typing import Final, TextIO
from xml.etree.ElementTree import Element

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import CaseRow, Summary
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.report import view
from skills_agent.evals.report.figures import GOOD, percent
from skills_agent.evals.report.view import Figures
from skills_agent.graph.audit.events import call_text
from skills_agent.pages.html import element, facts, html_page
from skills_agent.pages.markdown import markdown
from skills_agent.skills.text import cut, one_line

_YES, _NO = "\u2713", "\u2717"
"""How a cell begins that says whether an expectation holds."""
_SIDES: Final = {"with": "with the skill", "before": "before", "without": "without the skill"}
_LONG: Final = 1_000
"""Characters of a request and of an answer."""
_SHORT: Final = 240
"""Of a check, its evidence, and the arguments and the result of a call."""


def write_page(file: TextIO, summary: Summary) -> None:
    """Write the page of a run."""
    title, asked = view.title(summary), {case.id: case for case in summary.head.cases}
    rows = sorted(summary.cases, key=lambda row: row.rates.get("with", 1.0))
    page = html_page(
        title,
        element("h1", title),
        *(element("p", sentence, class_=f"answer {tone}") for tone, sentence in view.answers(summary)),
        element("ul", *(element("li", note) for note in view.notes(summary)), class_="notes"),
        *(each for table in view.tables(summary) for each in (element("h2", table.title), _table(table))),
        *([element("h2", "Cases, those that pass least often first")] if rows else []),
        *(_case(row, asked[row.case], view.name(row, summary)) for row in rows),
        facts(view.facts(summary)),
    )
    file.write(page)


def _table(table: Figures) -> Element:
    """Return a table; on a phone the cells of a row stand below what it is of, each with its column."""
    rows = [
        element("tr", element("th", row[0], scope="row"), *map(_cell, row[1:], table.header[1:]))
        for row in table.rows
    ]
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in table.header)))
    return element("table", head, element("tbody", *rows), class_="figures")


def _cell(text: str, column: str) -> Element:
    kind = {_YES: "passed", _NO: "failed"}.get(text[:1], text)
    is_known = kind in {"passed", "failed", "better", "worse"}
    return element("td", text, data_column=column, class_=kind if is_known else "")


def _case(row: CaseRow, case: EvalCase, name: str) -> Element:
    sides = [side for side in _SIDES if side in row.runs]
    worst = {side: _worst(row.runs[side]) for side in sides}
    mark = "flaky" if row.flaky else worst[sides[0]].outcome
    rates = ", ".join(f"{_SIDES[side]} {percent(row.rates[side])}" for side in sides if side in row.rates)
    texts = dict.fromkeys(check.text for one in worst.values() for check in one.checks)
    rows = [
        (cut(text, _SHORT), *(_outcome(text, row.runs[side], worst[side]) for side in sides))
        for text in texts
    ]
    return element(
        "details",
        element(
            "summary",
            element("b", mark, class_=f"chip {mark}"),
            f" {case.name or row.case} ",
            element("small", rates),
        ),
        element("p", element("small", name)),
        *(element("pre", cut(request, _LONG)) for request in case.turns),
        _table(Figures("", ("expected", *(_SIDES[side] for side in sides)), rows)),
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
    number = f" (run {one.repeat + 1} of {runs})" if runs > 1 else ""
    yield element("h3", f"{_SIDES[side].capitalize()}: {one.outcome}{number}")
    yield element("p", cut(one.error, _LONG))
    yield element("ol", *(element("li", element("code", each)) for each in map(_call, one.trajectory.calls)))
    yield markdown(cut(one.trajectory.answer, _LONG))
    if one.thread:
        yield element("p", element("code", f"skills-agent threads show {one.thread}"))


def _call(call: MadeCall) -> str:
    said = "" if call.status == "ok" else f" {call.status}: {one_line(call.result, _SHORT)}"
    return call_text(call.tool, call.args, _SHORT) + said
