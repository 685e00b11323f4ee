"""How figures are said, in every report alike."""

from collections.abc import Iterator

from skills_agent.skills.evals.result import CheckResult, EvalResult
from skills_agent.skills.evals.summary import Delta, Interval, Spread, Summary
from skills_agent.skills.text import count, cut, one_line

GOOD = frozenset({"passed", "ungraded"})
"""Outcomes that fail no run."""
_LONGEST = 300


def share(interval: Interval | None) -> str:
    """Return a share with its interval: `80 % (49 to 94)`; a dash where there is none."""
    if interval is None:
        return "-"
    return f"{percent(interval.value)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def percent(value: float) -> str:
    """Return a share as people read it."""
    return f"{100 * value:.0f} %"


def spread(values: Spread | None, unit: str = "") -> str:
    """Return a median with its range; a dash where nothing is known."""
    if values is None:
        return "-"
    of = f" {unit}" if unit else ""
    if values.least == values.most:
        return f"{_number(values.median)}{of}"
    return f"{_number(values.median)}{of} ({_number(values.least)} to {_number(values.most)})"


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.4f}"


def delta_text(delta: Delta) -> str:
    """Return what a comparison shows, as one sentence."""
    cases = count(delta.n, "case")
    moves = f"{delta.wins} better, {delta.losses} worse, {delta.ties} the same"
    p = f", p = {delta.p:.3f}" if delta.p is not None else ""
    return f"{delta.verdict}: {change(delta)} over {cases} ({moves}{p})"


def change(delta: Delta) -> str:
    """Return a difference with its interval."""
    if delta.metric in SHARES:
        points = [100 * each for each in (delta.value, delta.low, delta.high)]
        return f"{points[0]:+.0f} points (95 %: {points[1]:+.0f} to {points[2]:+.0f})"
    return f"{_signed(delta.value)} (95 %: {_signed(delta.low)} to {_signed(delta.high)})"


SHARES = frozenset({"passed", "chosen", "output", "sequence"})
"""Metrics that are shares; all others are amounts."""


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{_number(abs(value))}"


def headline(summary: Summary) -> str:
    """Answer the question that the run was made for, in one sentence."""
    if summary.deltas:
        first = next((each for each in summary.deltas if each.metric in SHARES), summary.deltas[0])
        return f"{_subject(first)}: {delta_text(first)}."
    arm = summary.arms[0] if summary.arms else None
    if arm is None:
        return "Nothing was run."
    passed = arm.outcomes.get("passed", 0)
    return f"{passed} of {count(arm.runs, 'run')} passed: {share(arm.passed)} of {count(arm.cases, 'case')}."


def _subject(delta: Delta) -> str:
    return "Your edit" if delta.name.startswith("now") else "The skill"


def failed_checks(result: EvalResult) -> Iterator[CheckResult]:
    """Yield the checks of a result that do not hold."""
    return (each for each in result.checks if not each.passed)


def reason(result: EvalResult) -> str:
    """Say why a result is no pass: its error, or its first failed check."""
    if result.error:
        return one_line(result.error, _LONGEST)
    first = next(failed_checks(result), None)
    if first is None:
        return ""
    evidence = f" {first.evidence}" if first.evidence else ""
    return one_line(cut(f"{first.text}{evidence}", _LONGEST))


def failures(summary: Summary) -> Iterator[EvalResult]:
    """Yield the results of the arm with the skill that are no pass."""
    for row in summary.cases:
        for result in row.runs.get("with", ()):
            if result.outcome not in GOOD:
                yield result
