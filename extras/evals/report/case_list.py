"""The cases on the page of a run: a list to filter and to sort, worst first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import CaseRow, Summary
from skills_agent.evals.pages.elements import Html, element, joined
from skills_agent.evals.report.case_story import Detail, Stories, labels
from skills_agent.evals.report.wording import percent
from skills_agent.skills.text import one_line

_BROKEN_OFF: Final = ("error", "timeout", "refused")
_GROUPS: Final = {
    "failed": "failed",
    "broken-off": "no answer",
    "flaky": "flaky",
    "lost": "lost",
    "gained": "gained",
    "ungraded": "ungraded",
    "passed": "passed",
}
"""Marks of a case, the worst first, and the buttons that show those alone."""
_MEANINGS: Final = {
    "broken-off": "It ended with an error, in time or at a question: that is no failed check",
    "flaky": "Some of its runs pass, and some do not",
    "lost": "It passed more often in the other column",
    "gained": "It passes more often than in the other column",
}
_SIGNS: Final = {"failed": "\u2717", "passed": "\u2713", "ungraded": "?"}
_REQUEST: Final = 160
_TAG: Final = 60
_MOST_TAGS: Final = 50
_COLUMNS: Final = (
    ("place", "worst first"),
    ("request", "request"),
    ("rate", "passed"),
    ("delta", "change"),
    ("tokens", "tokens"),
    ("seconds", "seconds"),
)


def case_list(summary: Summary, detail: Detail) -> Iterator[Html]:
    """Yield the title, the tools and the cases: what failed, what broke off, what is flaky, the rest."""
    if not summary.cases:
        return
    stories = Stories(summary, detail)
    cases = {case.id: case for case in summary.head.cases}
    marks = [_marks(row) for row in summary.cases]
    # The id of a case is its place in the summary: other parts of the page lead to it.
    order = sorted(range(len(marks)), key=lambda place: (_badness(marks[place]), place))
    yield element("h2", "Cases", id="cases-title")
    yield _tools(
        marks, sorted({one_line(tag, _TAG) for case in cases.values() for tag in case.tags[:_MOST_TAGS]})
    )
    yield element(
        "div",
        [element("button", label, type="button", data_sort=key) for key, label in _COLUMNS],
        class_="case-head scripted",
        role="group",
        aria_label="Sort the cases",
    )
    has_models = len(summary.head.models) > 1
    rows = [
        _case(
            summary.cases[place],
            cases.get(summary.cases[place].case),
            stories,
            number,
            place,
            has_models=has_models,
        )
        for number, place in enumerate(order)
    ]
    yield element("div", rows, id="cases", data_run=summary.head.id)


def _tools(marks: Sequence[Sequence[str]], tags: Sequence[str]) -> Html:
    counts = Counter(mark for each in marks for mark in each)
    buttons = [
        _group("", f"all {len(marks)}", is_pressed=True),
        *(_group(mark, f"{label} {counts[mark]}") for mark, label in _GROUPS.items() if counts[mark]),
    ]
    tag_choice = element(
        "select",
        element("option", "every tag", value=""),
        [element("option", each, value=each) for each in tags[:_MOST_TAGS]],
        id="tag",
        aria_label="Tag",
    )
    return element(
        "div",
        element("label", "Filter", for_="filter"),
        element("input", id="filter", type="search", placeholder="words, anywhere in a case ( / )"),
        tag_choice if tags else None,
        element("span", buttons, class_="groups", role="group", aria_label="Outcome"),
        element("button", "Open all", id="open", type="button", aria_pressed="false"),
        element("button", "Save notes", id="save", type="button", hidden=True),
        element("span", "", id="shown", class_="soft", role="status"),
        class_="bar-of-tools scripted",
    )


def _group(mark: str, label: str, *, is_pressed: bool = False) -> Html:
    return element(
        "button",
        label,
        type="button",
        data_group=mark,
        aria_pressed="true" if is_pressed else "false",
        class_=mark or None,
        title=_MEANINGS.get(mark),
    )


def _marks(row: CaseRow) -> list[str]:
    """Return what is said of a case: how its runs came out, and whether it changed."""
    outcomes = {each.outcome for each in row.runs.get("with", ())}
    found = {"broken-off" if each in _BROKEN_OFF else each for each in outcomes}
    if row.flaky:
        found.add("flaky")
    if change := _change(row):
        found.add("gained" if change > 0 else "lost")
    return [mark for mark in _GROUPS if mark in found]


def _badness(marks: Sequence[str]) -> int:
    return min((place for place, mark in enumerate(_GROUPS) if mark in marks), default=len(_GROUPS))


def _other(row: CaseRow) -> str:
    """Return with what a case is compared: the run before, else the arm without the skill."""
    return next((name for name in ("before", "without") if name in row.rates), "")


def _change(row: CaseRow) -> float:
    other = _other(row)
    return row.rates.get("with", 0.0) - row.rates[other] if other and "with" in row.rates else 0.0


def _case(
    row: CaseRow, case: EvalCase | None, stories: Stories, number: int, place: int, *, has_models: bool
) -> Html:
    now = row.runs.get("with", ())
    marks, change = _marks(row), _change(row)
    tokens, seconds = (_mean(now, what) for what in ("tokens", "seconds"))
    request = one_line(case.turns[0] if case else row.case, _REQUEST)
    under = f"{row.case}, {row.model}" if has_models else row.case
    summary = element(
        "summary",
        element("span", _signs(now), class_="signs"),
        element("span", element("span", request), element("small", under), _labels(marks), class_="request"),
        element("span", _rates(row)),
        element("span", f"{100 * change:+.0f}" if change else "", class_="gained" if change > 0 else "lost"),
        element("span", f"{tokens:,.0f}"),
        element("span", f"{seconds:,.1f}"),
    )
    return element(
        "details",
        summary,
        element("div", stories.story(row, case)),
        class_="case",
        id=f"case-{place}",
        data_case=row.case,
        data_model=row.model,
        data_marks=" ".join(marks),
        data_tags="\n".join(one_line(each, _TAG) for each in case.tags[:_MOST_TAGS])
        if case and case.tags
        else None,
        data_place=number,
        data_rate=round(row.rates.get("with", -1.0), 4),
        data_delta=round(change, 4),
        data_tokens=round(tokens),
        data_seconds=round(seconds, 2),
    )


def _mean(results: Sequence[EvalResult], what: str) -> float:
    return sum(getattr(each.spent, what) for each in results) / len(results) if results else 0.0


def _signs(results: Sequence[EvalResult]) -> Html:
    """Return a sign for each run, with its word for those who do not see it."""
    return joined(
        [
            element(
                "span",
                _SIGNS.get(each.outcome, "!"),
                class_=each.outcome,
                title=each.outcome,
                role="img",
                aria_label=each.outcome,
            )
            for each in results[:10]
        ]
    )


def _labels(marks: Sequence[str]) -> list[Html]:
    return [element("span", _GROUPS[mark], class_=f"mark {mark}") for mark in marks if mark != "passed"]


def _rates(row: CaseRow) -> Html:
    named = labels(row.runs)
    shown = [(label, row.rates[side]) for side, label in named.items() if side in row.rates]
    return joined(
        [
            element(
                "span", element("small", f"{label} " if len(shown) > 1 else ""), percent(rate), class_="rate"
            )
            for label, rate in shown
        ]
    )
