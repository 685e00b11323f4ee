"""A run as one page: whether the edit, or the skill, helped; then where, and why."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from skills_agent.graph.evals.report.wording import (
    SHARES,
    answers,
    change,
    percent,
    share,
    spread,
)
from skills_agent.graph.pages.charts import Point, bar, difference, scatter
from skills_agent.graph.pages.elements import Child, Html, element, joined, table
from skills_agent.graph.pages.page import page
from skills_agent.skills.evals.case import EvalCase, Expected
from skills_agent.skills.evals.result import CheckResult, EvalResult
from skills_agent.skills.evals.summary import ArmSummary, CaseRow, Choices, Summary
from skills_agent.skills.evals.trajectory import MadeCall
from skills_agent.skills.text import count, cut, one_line

_ANSWER: Final = 1_500
_ARGUMENTS: Final = 200
_RESULT: Final = 160
_REQUEST: Final = 600
_CALLS: Final = 40
"""Characters, and calls, of a case: 200 cases are to fit into two megabytes."""
_DIGEST: Final = 12
_WAYS: Final = {"with": "with the skill", "without": "without it", "before": "before"}


def html_page(summary: Summary) -> str:
    """Return the page. Texts of cases, models and repositories are in it as texts, never as markup."""
    head = summary.head
    skills = sorted({case.skill for case in head.cases if case.skill})
    title = f"Evals: {', '.join(skills[:3]) or head.id}" + (" and others" if len(skills) > 3 else "")
    return page(
        title,
        element("h1", title),
        _facts(summary, skills),
        _verdict(summary),
        *_notes(summary),
        _arms(summary),
        *_deltas(summary),
        *(
            part
            for arm in summary.arms
            if arm.choices and arm.arm == "with"
            for part in _choices(arm, arm.choices)
        ),
        *_cases(summary),
    )


def _facts(summary: Summary, skills: Sequence[str]) -> Html:
    head = summary.head
    digests = [f"{name} {head.skills[name][:_DIGEST]}" for name in skills if name in head.skills]
    runs = count(head.repeat, "run") + " each" if head.repeat > 1 else ""
    parts = [
        f"{head.at.replace('T', ' ')[:16]} UTC" if head.at else "",
        f"run {head.id}",
        f"models {', '.join(head.models)}",
        count(len(head.cases), "case"),
        runs,
        f"graded by {head.grader}" if head.grader else "",
        f"seed {head.seed}",
        *digests[:5],
    ]
    lines = [element("p", " · ".join(filter(None, parts)), class_="soft")]
    if head.command:
        lines.append(element("p", element("code", head.command), class_="soft"))
    return joined(lines)


def _verdict(summary: Summary) -> Html:
    return joined(
        [
            element(
                "p",
                each.sentence,
                element("small", each.details) if each.details else None,
                class_=f"verdict {each.tone}",
            )
            for each in answers(summary)
        ]
    )


def _notes(summary: Summary) -> list[Html]:
    partial = summary.head.partial
    said = [f"This run is not whole: {partial}."] if partial else []
    return [
        element("p", one_line(each, 400), class_="note")
        for each in (*said, *summary.notes, *summary.head.skipped)
    ]


def _arms(summary: Summary) -> Html:
    header = [
        "model",
        "arm",
        "cases",
        "passed",
        "",
        "all of its runs",
        "calls",
        "tokens",
        "seconds",
        "USD",
        "outcomes",
    ]
    rows: list[list[Child]] = []
    for arm in summary.arms:
        outcomes = ", ".join(f"{many} {outcome}" for outcome, many in sorted(arm.outcomes.items()) if many)
        rows.append(
            [
                arm.model,
                _WAYS.get(arm.arm, arm.arm),
                arm.cases,
                bar(arm.passed.value, arm.passed.low, arm.passed.high),
                share(arm.passed),
                percent(arm.all_passed),
                spread(arm.calls),
                spread(arm.tokens),
                spread(arm.seconds),
                spread(arm.usd) if arm.usd else "not known",
                outcomes,
            ]
        )
    parts = [
        element("h2", "Results"),
        element(
            "div",
            table(header, rows, "Shares of the cases, with 95 % intervals; amounts as medians."),
            class_="wide",
        ),
    ]
    if len(summary.arms) > 1:
        points = [
            Point(
                f"{arm.model} {arm.arm}", arm.tokens.median, arm.passed.value, arm.passed.low, arm.passed.high
            )
            for arm in summary.arms
        ]
        parts += [element("h3", "Cost and quality"), scatter(points, "tokens of a run", "passed")]
    return joined(parts)


def _deltas(summary: Summary) -> list[Html]:
    if not summary.deltas:
        return []
    rows: list[list[Child]] = []
    for each in summary.deltas:
        chart = difference(each.value, each.low, each.high) if each.metric in SHARES else None
        moves = f"{each.wins} / {each.losses} / {each.ties}"
        p = "" if each.p is None else f"{each.p:.3f}"
        rows.append([each.model, each.name, each.metric, chart, change(each), moves, p, each.verdict])
    header = ["model", "compared", "metric", "", "difference", "better / worse / same", "p", "shows"]
    return [element("h2", "What changed"), element("div", table(header, rows), class_="wide")]


def _choices(arm: ArmSummary, choices: Choices) -> list[Html]:
    most = max((number for row in choices.confusion for number in row), default=0) or 1
    body = []
    for name, row in zip(choices.names, choices.confusion, strict=True):
        cells = []
        for other, number in zip(choices.names, row, strict=True):
            kind = "right" if other == name else "wrong"
            cells.append(
                element(
                    "td",
                    str(number) if number else "·",
                    class_=kind if number else None,
                    style=f"--share: {round(100 * number / most)}%" if number else None,
                )
            )
        body.append(element("tr", element("th", name, scope="row"), cells))
    head = element(
        "tr",
        element("th", "expected, and chosen", scope="col"),
        [element("th", each, scope="col") for each in choices.names],
    )
    confusion = element("table", element("thead", head), element("tbody", body), class_="confusion")
    rows: list[list[Child]] = [
        [
            each.skill,
            each.right,
            each.missed,
            each.wrong,
            share(each.precision),
            share(each.recall),
            "" if each.f1 is None else f"{each.f1:.2f}",
        ]
        for each in choices.skills
    ]
    header = ["skill", "right", "missed", "wrong", "precision", "recall", "F1"]
    misses: list[list[Child]] = [
        [
            one_line(each.request, 160),
            ", ".join(each.expected) or "none",
            ", ".join(each.chosen) or "none",
            percent(each.rate),
        ]
        for each in choices.near_misses[:100]
    ]
    parts = [
        element("h2", f"Which skill {arm.model} chose"),
        element("p", f"Right for {share(choices.accuracy)} of the requests."),
        element("div", confusion, class_="wide"),
        element("div", table(header, rows, class_="sortable"), class_="wide"),
    ]
    if misses:
        parts.append(element("h3", "Requests that went wrong"))
        head_of = ["request", "expected", "chosen", "of its runs"]
        parts.append(element("div", table(head_of, misses, class_="sortable"), class_="wide"))
    return parts


def _cases(summary: Summary) -> list[Html]:
    cases = {case.id: case for case in summary.head.cases}
    outcomes = sorted({each.outcome for row in summary.cases for runs in row.runs.values() for each in runs})
    options = [element("option", "every outcome", value="")] + [
        element("option", each, value=each) for each in (*outcomes, "flaky")
    ]
    orders = [
        ("place up", "as in the files"),
        ("rate up", "worst first"),
        ("delta up", "largest loss first"),
        ("delta down", "largest gain first"),
        ("tokens down", "most tokens first"),
        ("seconds down", "slowest first"),
    ]
    tools = element(
        "div",
        element("label", "Filter", for_="filter"),
        element("input", id="filter", type="search", placeholder="words of a request ( / )"),
        element("select", options, id="outcome", aria_label="Outcome"),
        element(
            "select",
            [element("option", label, value=key) for key, label in orders],
            id="order",
            aria_label="Order",
        ),
        element("button", "Open all", id="open", type="button", aria_pressed="false"),
        element("span", "", id="shown", class_="soft", role="status"),
        class_="bar-of-tools",
    )
    rows = [_case(row, cases.get(row.case), place) for place, row in enumerate(summary.cases)]
    return [element("h2", "Cases"), tools, element("div", rows, id="cases")]


def _case(row: CaseRow, case: EvalCase | None, place: int) -> Html:
    now = row.runs.get("with", ())
    request = case.turns[0] if case else row.case
    rate = row.rates.get("with", 0.0)
    other = next((name for name in ("before", "without") if name in row.rates), "")
    delta = rate - row.rates[other] if other else 0.0
    outcomes = list(dict.fromkeys(each.outcome for each in now))
    tokens = max((each.spent.tokens for each in now), default=0)
    seconds = max((each.spent.seconds for each in now), default=0.0)
    marks = [*outcomes, *(["flaky"] if row.flaky else [])]
    rates = " · ".join(
        f"{_WAYS[name]} {percent(value)}" for name, value in row.rates.items() if name in _WAYS
    )
    summary = element(
        "summary",
        element("span", one_line(request, 160), title=row.case),
        element("span", ", ".join(marks), class_=" ".join(marks) or None),
        element("span", rates, title=rates),
        element("span", f"{tokens:,} tokens"),
        element("span", f"{seconds:.1f} s"),
    )
    return element(
        "details",
        summary,
        element("div", _story(row, case)),
        class_="case",
        data_text=one_line(f"{row.case} {row.model} {request}", 400).lower(),
        data_outcome=" ".join(marks),
        data_place=place,
        data_rate=rate,
        data_delta=delta,
        data_tokens=tokens,
        data_seconds=seconds,
    )


def _story(row: CaseRow, case: EvalCase | None) -> Html:
    parts: list[Html] = [
        element(
            "p", f"{row.case}, {row.model}{f', {case.file}' if case and case.file else ''}", class_="soft"
        )
    ]
    if case:
        for number, turn in enumerate(case.turns, 1):
            label = f"Request {number}" if len(case.turns) > 1 else "Request"
            parts += [element("h3", label), element("pre", cut(turn, _REQUEST))]
    columns = [_expected(case.expect)] if case else []
    columns += [_run(each, name, len(runs)) for name, runs in row.runs.items() for each in runs]
    parts.append(element("div", columns, class_="columns"))
    parts += _answers(row.runs)
    if row.undecided:
        said = "Alike with and without the skill, so they say nothing about it:"
        parts += [
            element("p", said, class_="soft"),
            element("ul", [element("li", each) for each in row.undecided]),
        ]
    return joined(parts)


def _expected(expect: Expected) -> Html:
    written = msgspec.json.format(msgspec.json.encode(expect), indent=2).decode("utf-8", "replace")
    return element("section", element("h3", "Expected"), element("pre", cut(written, _ANSWER)))


def _run(result: EvalResult, name: str, of: int) -> Html:
    number = f", run {result.repeat + 1}" if of > 1 else ""
    shown = result.trajectory.calls[:_CALLS]
    steps = [element("li", element("code", _call_text(each)), _result_text(each)) for each in shown]
    if len(result.trajectory.calls) > _CALLS:
        steps.append(element("li", f"and {len(result.trajectory.calls) - _CALLS} more"))
    parts: list[Html] = [
        element(
            "h3",
            f"{_WAYS.get(name, name).capitalize()}{number}: ",
            element("span", result.outcome, class_=result.outcome),
        )
    ]
    if result.error:
        parts.append(element("p", cut(result.error, _ANSWER), class_="failed"))
    if loaded := [f"{each.name} ({each.by})" for each in result.trajectory.loaded]:
        parts.append(element("p", f"Loaded: {', '.join(loaded)}"))
    parts.append(element("ul", steps) if steps else element("p", "No calls.", class_="soft"))
    parts.append(element("ul", [_check(each) for each in result.checks], class_="checks"))
    if result.trajectory.files:
        parts.append(element("p", f"Files: {', '.join(list(result.trajectory.files)[:20])}"))
    if result.thread and name != "before":
        command = f"skills-agent threads show {result.thread}"
        parts.append(
            element("p", element("code", command), element("button", "copy", type="button", class_="copy"))
        )
    return element("section", parts)


def _call_text(call: MadeCall) -> str:
    args = msgspec.json.encode(call.args).decode("utf-8", "replace") if call.args else ""
    return f"{call.tool} {one_line(args, _ARGUMENTS)}".strip()


def _result_text(call: MadeCall) -> Html | None:
    said = one_line(call.result, _RESULT)
    kind = {"error": "failed: ", "refused": "not run: ", "unanswered": "no result"}.get(call.status, "")
    return element("small", f" {kind}{said}") if kind or said else None


def _check(check: CheckResult) -> Html:
    mark, kind = ("✓ ", "passed") if check.passed else ("✗ ", "failed")
    votes = [
        element("li", f"{'yes' if vote.passed else 'no'}: {one_line(vote.reason, _RESULT)}")
        for vote in check.votes
    ]
    return element(
        "li",
        element("span", mark, class_=kind),
        cut(check.text, 300),
        element("small", f" {cut(check.evidence, 300)}") if check.evidence and not check.passed else None,
        element("ul", votes) if votes else None,
    )


def _answers(runs: Mapping[str, Sequence[EvalResult]]) -> list[Html]:
    """Return the answer, and how it differs from that of the other arm or of the run before."""
    now = next(iter(runs.get("with", ())), None)
    if now is None:
        return []
    answer = cut(now.trajectory.answer, _ANSWER)
    for name in ("before", "without"):
        other = next(iter(runs.get(name, ())), None)
        if other is None or not (other.trajectory.answer or answer):
            continue
        old = cut(other.trajectory.answer, _ANSWER)
        if old == answer:
            return [element("h3", f"Answer, the same {_WAYS[name]}"), element("pre", answer)]
        return [element("h3", f"Answer, and {_WAYS[name]}"), element("pre", _difference(old, answer))]
    return [element("h3", "Answer"), element("pre", answer)] if answer else []


def _difference(old: str, new: str) -> list[Html]:
    """Return two texts as one, line by line: deleted is what only the old one has."""
    lines: list[Html] = []
    for line in difflib.ndiff(old.splitlines(), new.splitlines()):
        if line.startswith("?"):
            continue
        tag = {"-": "del", "+": "ins"}.get(line[0], "span")
        lines.append(element(tag, f"{line}\n"))
    return lines
