"""How figures are said, in every report alike."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from skills_agent.evals.cases.comparing import ARMS, MIN_CASES
from skills_agent.evals.cases.result import CheckResult, EvalResult
from skills_agent.evals.cases.statistics import MIN_DISCORDANT
from skills_agent.evals.cases.summary import Delta, Interval, Spread, Summary
from skills_agent.skills.text import count, cut, one_line

GOOD: Final = frozenset({"passed", "ungraded"})
"""Outcomes that fail no run."""
SHARES: Final = frozenset({"passed", "chosen", "output", "sequence"})
"""Metrics that are shares; all others are amounts."""
_LONGEST = 300

Tone = Literal["better", "worse", "passed", "failed", "open"]


class Answer(NamedTuple):
    """What a run says to the question that it was made for."""

    tone: Tone
    sentence: str
    details: str
    """The figures behind it, as sentences; empty where there are none."""
    delta: Delta | None = None
    """What it is of; None: nothing was compared."""


def answers(summary: Summary) -> tuple[Answer, ...]:
    """Return the answers: whether the edit helped, whether the skill does, and last what passed."""
    shares = [each for each in summary.deltas if each.metric == "passed"]
    edits, arms = ([each for each in shares if (each.name == ARMS) is is_arms] for is_arms in (False, True))
    compared = tuple(_compared(summary, each) for each in (*edits, *arms))
    return compared + _counted(summary)


def _compared(summary: Summary, delta: Delta) -> Answer:
    words = _skill_words(summary) if delta.name == ARMS else _edit_words(summary, delta)
    model = f"{delta.model}: " if len(summary.head.models) > 1 else ""
    cases = count(delta.n, "case")
    tone: Tone
    match delta.verdict:
        case "better" | "worse":
            tone, said = delta.verdict, words.better if delta.verdict == "better" else words.worse
            sentence = f"{said}: {change(delta)}, {cases}."
        case "no difference shown":
            tone, sentence = "open", f"No difference shown {words.between}: {change(delta)}, {cases}."
        case "too few cases":
            differing = delta.wins + delta.losses
            few = (
                f"there are {delta.n}, and it takes {MIN_CASES}"
                if delta.n < MIN_CASES
                else f"{differing} of {cases} came out differently, and it takes {MIN_DISCORDANT}"
            )
            tone, sentence = "open", f"Too few cases to tell {words.whether}: {few}."
    return Answer(tone, model + sentence, " ".join(_details(summary, delta)), delta)


class _Words(NamedTuple):
    better: str
    worse: str
    between: str
    whether: str


def _skill_words(summary: Summary) -> _Words:
    names = {case.skill for case in summary.head.cases if case.skill}
    is_one = len(names) == 1
    name, s = (names.pop(), "s") if is_one else ("The skills", "")
    subject = name if is_one else "the skills"
    return _Words(
        f"{name} help{s}",
        f"{name} make{s} it worse",
        f"between with and without {subject}",
        f"whether {subject} help{s}",
    )


def _edit_words(summary: Summary, delta: Delta) -> _Words:
    before = summary.before
    other = delta.name.removeprefix("now - ")
    if before and before.skills == summary.head.skills:  # then it was no edit of a skill that made it so
        return _Words(
            f"This run did better than {other}",
            f"This run did worse than {other}",
            f"between this run and {other}",
            f"whether this run did better than {other}",
        )
    return _Words(
        "Your edit helped",
        "Your edit made it worse",
        "between before and after your edit",
        "whether your edit helped",
    )


def _details(summary: Summary, delta: Delta) -> Iterator[str]:
    p = f" ({p_text(delta.p)})" if delta.p is not None else ""
    yield f"{count(delta.wins, 'case')} better, {delta.losses} worse, {delta.ties} the same{p}."
    if delta.verdict == "no difference shown" and delta.low * delta.high > 0:
        yield "The interval leaves out 0, but the exact test over all that was compared does not bear it out."
    others = [each for each in summary.deltas if (each.model, each.name) == (delta.model, delta.name)]
    for each in others:
        if each.metric == "chosen":
            yield f"The right skills were chosen: {change(each)}, {each.verdict}."
        if each.metric == "tokens":
            yield f"Tokens of a run: {change(each)}."
    if delta.verdict in {"no difference shown", "too few cases"} and summary.visible is not None:
        yield f"A difference below {100 * summary.visible:.0f} points would not show with so many cases."


def _counted(summary: Summary) -> tuple[Answer, ...]:
    found = []
    for arm in summary.arms:
        if arm.arm != "with":
            continue
        passed = arm.outcomes.get("passed", 0)
        model = f"{arm.model}: " if len(summary.head.models) > 1 else ""
        runs, cases = count(arm.runs, "run"), count(arm.passed.n, "case")
        sentence = (
            f"{model}{passed} of {runs} passed: {share(arm.passed)} of {cases}."
            if arm.passed.n
            else f"{model}Nothing decides about {runs}: there are rubrics alone, and no grader."
        )
        is_good = not set(arm.outcomes) - GOOD
        tone: Tone = "open" if not arm.passed.n else "passed" if is_good else "failed"
        found.append(Answer(tone, sentence, ""))
    return tuple(found) or (Answer("open", "Nothing was run.", ""),)


def share(interval: Interval | None) -> str:
    """Return a share with its interval: `80 % (49 to 94)`; a dash where there is none."""
    if interval is None:
        return "-"
    return f"{percent(interval.value)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def percent(value: float) -> str:
    """Return a share as people read it; what is not all is never 100 %, and what is something never 0 %."""
    return f"{min(99.0, max(1.0, 100 * value)) if 0 < value < 1 else 100 * value:.0f} %"


def spread(values: Spread | None, unit: str = "") -> str:
    """Return a median with its range; a dash where nothing is known."""
    if values is None:
        return "-"
    of = f" {unit}" if unit else ""
    if values.least == values.most:
        return f"{number(values.median)}{of}"
    return f"{number(values.median)}{of} ({number(values.least)} to {number(values.most)})"


def number(value: float) -> str:
    """Return an amount with as many digits as say something."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.4f}"


def p_text(p: float) -> str:
    """Return how likely so much is by chance; never nothing."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def delta_text(delta: Delta) -> str:
    """Return what a comparison shows, as one sentence."""
    cases = count(delta.n, "case")
    moves = f"{delta.wins} better, {delta.losses} worse, {delta.ties} the same"
    p = f", {p_text(delta.p)}" if delta.p is not None else ""
    return f"{delta.verdict}: {change(delta)} over {cases} ({moves}{p})"


def change(delta: Delta) -> str:
    """Return a difference with its interval: `+12 points, 95 % interval +3 to +21`."""
    if delta.metric in SHARES:
        value, low, high = (_signed_points(each) for each in (delta.value, delta.low, delta.high))
        return f"{value} points, 95 % interval {low} to {high}"
    range_of = "95 % interval" if delta.n >= MIN_CASES else "from least to most"
    return f"{signed(delta.value)}, {range_of} {signed(delta.low)} to {signed(delta.high)}"


def short_change(delta: Delta) -> str:
    """Return the same for a table: `+12 points (+3 to +21)`."""
    return change(delta).replace(", 95 % interval ", " (").replace(", from least to most ", " (") + ")"


def compared(delta: Delta) -> str:
    """Return what a comparison is of, as a title."""
    if delta.name == ARMS:
        return "With the skill and without it"
    return f"Now and before ({delta.name.removeprefix('now - ')})"


def _signed_points(value: float) -> str:
    said = f"{100 * value:+.0f}"
    return "0" if said in {"+0", "-0"} else said


def signed(value: float) -> str:
    """Return an amount with its sign."""
    said = number(abs(value))
    return said if not said.strip("0.") else f"{'-' if value < 0 else '+'}{said}"


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
    """Yield the results with the skill that are no pass: what failed first, then what broke off."""
    found = [
        result for row in summary.cases for result in row.runs.get("with", ()) if result.outcome not in GOOD
    ]
    return iter(sorted(found, key=lambda result: result.outcome != "failed"))
