"""A run as one page: a file that loads nothing and runs nothing, in light and dark, also for paper."""

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import Delta
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.report.figures import GOOD, percent
from skills_agent.evals.report.view import Case, Figures, ShownAnswer, View
from skills_agent.graph.cli.printing import shown
from skills_agent.skills.text import count, cut, one_line

_VOID: Final = frozenset({"meta"})
"""Without an end tag."""
_WIDTH, _HEIGHT = 280, 34
_YES, _NO = "\u2713", "\u2717"
"""How a cell begins that says whether an expectation holds."""
_LONG: Final = 1_000
"""Characters of a request and of an answer."""
_SHORT: Final = 240
"""Of a check, its evidence, and the arguments and the result of a call."""
_MOST: Final = 40
"""Checks and calls of a case."""


class Html(str):
    """Markup; a plain text is none."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: object) -> Html:
    """Return an element. A text in it is escaped, with marks in place of what cannot be seen.

    `class_` stands for `class`, `http_equiv` for `http-equiv`.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    start = "".join([tag, *(f' {key}="{_escaped(str(value))}"' for key, value in named.items())])
    content = "".join(child if isinstance(child, Html) else _escaped(child) for child in children)
    return Html(f"<{start}>" if tag in _VOID else f"<{start}>{content}</{tag}>")


def html_page(view: View) -> str:
    """Return the page. Texts of cases, models and repositories are in it as texts, never as markup."""
    style = (files("skills_agent.evals.report") / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Markup that got through all the same would run nothing, load nothing and send nothing.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", view.title),
        element("style", Html(style)),
    )
    facts = [part for name, value in view.facts.items() for part in _fact(name, value)]
    body = element(
        "body",
        element("h1", view.title),
        *map(_answer, view.answers),
        element("ul", *(element("li", note) for note in view.notes)),
        *(element("div", _table(table), class_="wide") for table in view.tables),
        *([element("h2", "Cases, those that pass least often first")] if view.cases else []),
        *map(_case, view.cases),
        element("dl", *facts),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _escaped(text: str) -> str:
    return html.escape(shown(text, "prose"))


def _fact(name: str, value: str) -> tuple[Html, Html]:
    return element("dt", name), element("dd", value)


def _answer(answer: ShownAnswer) -> Html:
    chart = [_chart(answer.delta, answer.tone)] if answer.delta else []
    return element("div", element("p", answer.sentence), *chart, class_=f"answer {answer.tone}")


def _chart(delta: Delta, tone: str) -> Html:
    """Return a difference of shares as a point with its interval around a line at zero.

    The scale is that of the difference, at least a fifth on each side, so that a small one can be seen.
    """
    most = max(0.2, math.ceil(10 * max(abs(delta.low), abs(delta.high))) / 10)
    x, low, high = (
        round(_WIDTH * (0.5 + 0.48 * each / most), 1) for each in (delta.value, delta.low, delta.high)
    )
    ends = ((0, "start", f"-{100 * most:.0f}"), (_WIDTH, "end", f"+{100 * most:.0f} points"))
    return element(
        "svg",
        element("line", x1=_WIDTH / 2, x2=_WIDTH / 2, y1=0, y2=20, class_="zero"),
        element("line", x1=low, x2=high, y1=10, y2=10),
        element("circle", cx=x, cy=10, r=5, class_=tone),
        *(element("text", text, x=at, y=_HEIGHT - 2, text_anchor=anchor) for at, anchor, text in ends),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        aria_hidden="true",
    )


def _table(table: Figures) -> Html:
    rows = [element("tr", element("th", row[0], scope="row"), *map(_cell, row[1:])) for row in table.rows]
    return element(
        "table",
        element("caption", table.title),
        element("thead", element("tr", *(element("th", each, scope="col") for each in table.header))),
        element("tbody", *rows),
    )


def _cell(text: str) -> Html:
    kind = {_YES: "passed", _NO: "failed"}.get(text[:1], text)
    return (
        element("td", text, class_=kind)
        if kind in {"passed", "failed", "better", "worse"}
        else element("td", text)
    )


def _case(case: Case) -> Html:
    row = case.row
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
            case.name,
            element("small", f" {rates}"),
        ),
        *(element("pre", cut(request, _LONG)) for request in case.requests),
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


def _attempt(side: str, one: EvalResult, runs: int) -> Iterator[Html]:
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
