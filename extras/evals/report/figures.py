"""The figures of a run on its page: results, what changed, and which skills were chosen."""

from collections.abc import Iterator
from typing import Final

from skills_agent.evals.cases.comparing import ARMS
from skills_agent.evals.cases.result import Outcome
from skills_agent.evals.cases.summary import ArmSummary, Choices, Delta, Spread, Summary
from skills_agent.evals.pages.charts import Point, bar, difference, scatter
from skills_agent.evals.pages.elements import Child, Html, element, joined, table
from skills_agent.evals.report.wording import SHARES, change, compared, number, p_text, percent, share
from skills_agent.skills.text import one_line

_ARMS: Final = {"with": "with the skill", "without": "without it"}
_METRICS: Final = {"passed": "passed", "chosen": "right skills chosen", "usd": "USD"}
_ORDER: Final[tuple[Outcome, ...]] = ("passed", "failed", "error", "timeout", "refused", "ungraded")
_SHADES: Final = 10
_MISSES: Final = 100
_CONFUSED: Final = 25
_TABLE: Final = 200
_WIDE: Final = 280


def answer_chart(delta: Delta) -> Html:
    """Return the chart that stands beside an answer."""
    return difference(delta.value, delta.low, delta.high, _tone(delta), width=_WIDE, has_scale=True)


def _tone(delta: Delta) -> str:
    """Return the tone of what a comparison shows: an interval alone may leave out what the test does not."""
    return delta.verdict if delta.verdict in {"better", "worse"} else "open"


def arms_part(summary: Summary) -> Html:
    """Return the results of each model in each arm, and what they cost."""
    rows: list[list[Child]] = [
        [
            arm.model,
            _ARMS[arm.arm],
            joined(
                bar(arm.passed.value, arm.passed.low, arm.passed.high), element("small", share(arm.passed))
            ),
            percent(arm.all_passed) if arm.runs > arm.cases else None,
            _amount(arm.tokens),
            _amount(arm.seconds),
            _amount(arm.calls),
            _amount(arm.usd) if arm.usd else "not known",
            _outcomes(arm),
        ]
        for arm in summary.arms
    ]
    header = ["model", "arm", "passed", "in all runs", "tokens", "seconds", "calls", "USD", "runs"]
    if all(row[3] is None for row in rows):
        header, rows = _without(3, header, rows)
    caption = "Shares of the cases with 95 % intervals; amounts of a run: the median, and the range."
    parts = [
        element("h2", "Results"),
        element("div", table(header, rows, caption, class_="results"), class_="wide"),
    ]
    if len(summary.arms) > 1:
        parts += [element("h3", "What it costs, and how good it is"), _cost_chart(summary.arms)]
    return joined(parts)


def _without(column: int, header: list[str], rows: list[list[Child]]) -> tuple[list[str], list[list[Child]]]:
    return header[:column] + header[column + 1 :], [row[:column] + row[column + 1 :] for row in rows]


def _amount(values: Spread) -> Html:
    if values.least == values.most:
        return joined(number(values.median))
    return joined(
        number(values.median),
        element("small", f"{number(values.least)} to {number(values.most)}", class_="below"),
    )


def _outcomes(arm: ArmSummary) -> Html:
    # Without the skill only what came out counts, and an outcome is of all checks.
    said = _ORDER if arm.arm == "with" else _ORDER[2:]
    counts = [(each, arm.outcomes[each]) for each in said if arm.outcomes.get(each)]
    return joined(
        [joined(element("span", f"{many} {each}", class_=f"count {each}"), " ") for each, many in counts]
    )


def _cost_chart(arms: tuple[ArmSummary, ...]) -> Html:
    prices = [arm.usd.median for arm in arms if arm.usd]
    is_priced = len(prices) == len(arms) and any(prices)
    points = [
        Point(
            f"{one_line(arm.model, 40)}, {_ARMS[arm.arm]}",
            arm.usd.median if is_priced and arm.usd else arm.tokens.median,
            arm.passed.value,
            arm.passed.low,
            arm.passed.high,
            is_filled=arm.arm == "with",
        )
        for arm in arms
    ]
    return element(
        "div", scatter(points, "USD of a run" if is_priced else "tokens of a run", "passed"), class_="wide"
    )


def deltas_part(summary: Summary) -> Iterator[Html]:
    """Yield what differs from the arm without the skill, and from the run before."""
    if not summary.deltas:
        return
    yield element("h2", "What changed")
    groups: dict[tuple[str, str], list[Delta]] = {}
    for each in sorted(summary.deltas, key=lambda delta: delta.name == ARMS):
        groups.setdefault((compared(each), each.model), []).append(each)
    for (title, model), found in groups.items():
        where = f"{title}: {model}" if len(summary.head.models) > 1 else title
        rows = [_delta_row(each) for each in found]
        header = ["metric", "", "difference", "better", "worse", "same", "p", "shows"]
        yield element("div", table(header, rows, where), class_="wide")


def _delta_row(each: Delta) -> list[Child]:
    is_share = each.metric in SHARES
    tone = _tone(each)
    return [
        _METRICS.get(each.metric, each.metric),
        difference(each.value, each.low, each.high, _tone(each)) if is_share else None,
        change(each),
        each.wins,
        each.losses,
        each.ties,
        p_text(each.p).removeprefix("p = ").removeprefix("p ") if each.p is not None else None,
        element("span", each.verdict, class_="soft" if tone == "open" else tone),
    ]


def choices_parts(summary: Summary) -> Iterator[Html]:
    """Yield, for each model, the requests that went to a wrong skill, and the confusion among skills."""
    places: dict[tuple[str, str], int] = {}
    for place, row in enumerate(summary.cases):
        places.setdefault((row.case, row.model), place)
    for arm in summary.arms:
        if arm.choices is None or arm.arm != "with":
            continue
        choices = arm.choices
        yield element("h2", f"Which skill {arm.model} chose")
        yield element("p", f"Right for {share(choices.accuracy)} of {choices.accuracy.n} requests.")
        if choices.near_misses:
            yield element("div", _misses(choices, arm.model, places), class_="wide")
        both = [
            element("div", _confusion(choices), class_="wide"),
            element("div", _skills(choices), class_="wide"),
        ]
        yield element("div", both, class_="side-by-side")


def _misses(choices: Choices, model: str, places: dict[tuple[str, str], int]) -> Html:
    rows: list[list[Child]] = []
    for each in choices.near_misses[:_MISSES]:
        place = places.get((each.case, model))
        request = one_line(each.request, 160)
        rows.append(
            [
                request if place is None else element("a", request, href=f"#case-{place}"),
                ", ".join(each.expected) or "none",
                element("span", ", ".join(each.chosen) or "none", class_="failed"),
                percent(each.rate),
            ]
        )
    more = len(choices.near_misses) - _MISSES
    caption = "Requests that went wrong" + (f"; {more} more are among the cases" if more > 0 else "")
    return table(["request", "expected", "chosen", "of its runs"], rows, caption, class_="sortable")


def _confusion(choices: Choices) -> Html:
    shown = _most_confused(choices)
    names = [choices.names[place] for place in shown]
    body = []
    for place, name in zip(shown, names, strict=True):
        row = choices.confusion[place]
        most = max(row) or 1
        cells = [
            element("td", row[other] or "\u00b7", class_=_shade(row[other], most, is_right=other == place))
            for other in shown
        ]
        body.append(element("tr", element("th", name, scope="row"), cells))
    head = element(
        "tr",
        element("th", "expected \u2193  chosen \u2192", scope="col"),
        [element("th", each, scope="col") for each in names],
    )
    left_out = len(choices.names) - len(shown)
    caption = element("caption", "Confusion, in runs" + (f" ({left_out} more skills)" if left_out else ""))
    return element("table", caption, element("thead", head), element("tbody", body), class_="confusion")


def _most_confused(choices: Choices) -> list[int]:
    """Return the places of the skills that are shown, in their order: of many, those that go wrong most."""
    wrong = [
        sum(row) - row[place] + sum(other[place] for other in choices.confusion) - row[place]
        for place, row in enumerate(choices.confusion)
    ]
    worst = sorted(range(len(wrong)), key=lambda place: (-wrong[place], -choices.confusion[place][place]))
    return sorted(worst[:_CONFUSED])


def _shade(many: int, most: int, *, is_right: bool) -> str | None:
    """Return the classes of a cell: the fuller the more of its row went there."""
    if not many:
        return "soft"
    return f"{'right' if is_right else 'wrong'} shade-{max(1, round(_SHADES * many / most))}"


def _skills(choices: Choices) -> Html:
    rows: list[list[Child]] = [
        [
            each.skill,
            each.right,
            each.missed,
            each.wrong,
            share(each.precision),
            share(each.recall),
            "-" if each.f1 is None else f"{each.f1:.2f}",
        ]
        for each in choices.skills[:_TABLE]
    ]
    header = ["skill", "right", "missed", "wrong", "precision", "recall", "F1"]
    more = len(choices.skills) - _TABLE
    caption = "Precision and recall, in requests" + (f" ({more} more skills)" if more > 0 else "")
    return table(header, rows, caption, class_="sortable")
