"""How figures are said, in every report alike."""

from typing import Final

from skills_agent.evals.cases.comparing import AGENTS, ARMS, SHARES
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import Delta, Interval, Summary
from skills_agent.skills.text import count, one_line

GOOD: Final = frozenset({"passed", "ungraded"})
"""Outcomes that fail no run."""
_LONGEST: Final = 300


def share(interval: Interval | None) -> str:
    """Return a share with its interval: `80 % (49 to 94)`; a dash where there is none."""
    if interval is None:
        return "-"
    return f"{percent(interval.value)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def percent(value: float) -> str:
    """Return a share as people read it; what is not all is never 100 %, and what is something never 0 %."""
    return f"{min(99.0, max(1.0, 100 * value)) if 0 < value < 1 else 100 * value:.0f} %"


def number(value: float) -> str:
    """Return an amount with as many digits as say something."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.4f}"


def change(delta: Delta) -> str:
    """Return a difference with its interval: `+12 points (+3 to +21)`."""
    if delta.metric in SHARES:
        value, low, high = (_signed(round(100 * each)) for each in (delta.value, delta.low, delta.high))
        return f"{value} points ({low} to {high})"
    return f"{_signed(delta.value)} ({_signed(delta.low)} to {_signed(delta.high)})"


def delta_text(delta: Delta) -> str:
    """Return what a comparison shows, as one sentence."""
    p = "" if delta.p is None else f", p = {delta.p:.3f}" if delta.p >= 0.001 else ", p < 0.001"
    moves = f"{delta.wins} better, {delta.losses} worse, {delta.ties} the same{p}"
    return f"{delta.verdict}: {change(delta)} over {count(delta.n, 'case')} ({moves})"


def compared(delta: Delta) -> str:
    """Return what a comparison is of."""
    if delta.name.startswith(AGENTS):
        return delta.name
    return (
        "with and without the skill"
        if delta.name == ARMS
        else f"now and in {delta.name.removeprefix('now - ')}"
    )


def reason(result: EvalResult) -> str:
    """Say why a result is no pass: its error, or its first failed check."""
    failed = (f"{check.text} {check.evidence}" for check in result.checks if not check.passed)
    return one_line(result.error or next(failed, ""), _LONGEST)


def failures(summary: Summary) -> list[EvalResult]:
    """Return the results with the skill that are no pass: what failed first, then what broke off."""
    found = [
        result for row in summary.cases for result in row.runs.get("with", ()) if result.outcome not in GOOD
    ]
    return sorted(found, key=lambda result: result.outcome != "failed")


def _signed(value: float) -> str:
    said = number(abs(value))
    return said if not said.strip("0.") else f"{'-' if value < 0 else '+'}{said}"
