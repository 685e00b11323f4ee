"""What a report says of a run, in plain texts: a terminal and a page show the same.

Texts of cases, models and repositories are as they came: whoever shows them makes them harmless.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.summary import ArmSummary, CaseRow, Delta, Interval, Summary
from skills_agent.evals.report.figures import GOOD, change, compared, delta_text, number, percent, share
from skills_agent.skills.text import count

_MOST: Final = 40
"""Cases that a note names."""

Tone = Literal["better", "worse", "passed", "failed", "open"]


class Figures(NamedTuple):
    """Figures; no row is empty, and the first cell says what it is of."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def title(summary: Summary) -> str:
    """Return what a run is called: by the skills that it is about."""
    skills = _skills(summary)
    return f"Evals of {', '.join(skills[:3]) or 'no skill'}{' and others' if len(skills) > 3 else ''}"


def facts(summary: Summary) -> Mapping[str, str]:
    """Return what a run was made of."""
    head = summary.head
    known = [name for name in _skills(summary) if name in head.skills]
    return {
        "Run": f"{head.id}, {head.at}",
        "Models": ", ".join(head.models),
        "Graded by": head.grader,
        "Skills": ", ".join(f"{name} {head.skills[name]:.12}" for name in known),
        "Command": head.command,
    }


def name(one: CaseRow | EvalResult, summary: Summary) -> str:
    """Return what a case or a run of it is called: of several models, with its model."""
    return f"{one.case} ({one.model})" if len(summary.head.labels) > 1 else one.case


def _skills(summary: Summary) -> list[str]:
    return sorted({case.skill for case in summary.head.cases if case.skill})


def answers(summary: Summary) -> Iterator[tuple[Tone, str]]:
    """Yield whether the edit helped, whether the skill does, and last what passed: each a sentence."""
    is_one = len(summary.head.labels) < 2
    for delta in summary.deltas:
        if delta.metric == "passed":
            model = "" if is_one else f", {delta.model}"
            tone: Tone = delta.verdict if delta.verdict in {"better", "worse"} else "open"
            yield tone, f"Cases passed, {compared(delta)}{model}: {delta_text(delta)}."
    for arm in summary.arms:
        if arm.arm != "with":
            continue
        model, runs = "" if is_one else f"{arm.model}: ", count(arm.runs, "run")
        if not arm.passed.n:
            yield "open", f"{model}Nothing decides about {runs}: there is no grader for rubrics."
            continue
        passed = arm.outcomes.get("passed", 0)
        tone = "failed" if set(arm.outcomes) - GOOD else "passed"
        yield tone, f"{model}{passed} of {runs} passed: {share(arm.passed)} of {count(arm.passed.n, 'case')}."
    if not summary.arms:
        yield "open", "Nothing was run."


def notes(summary: Summary) -> Iterator[str]:
    """Yield what has to be known about the figures."""
    yield from summary.notes
    yield from summary.head.skipped
    if flaky := [row.case for row in summary.cases if row.flaky]:
        yield f"Flaky, passed in some of the runs only: {', '.join(flaky[:_MOST])}"


def tables(summary: Summary) -> Iterator[Figures]:
    """Yield the figures."""
    for arm in summary.arms:
        if arm.accuracy:
            yield from _choices(arm, arm.accuracy)
    if summary.arms:
        yield Figures(
            "Results",
            (
                "model",
                "arm",
                "cases",
                "passed",
                "replies",
                "calls",
                "tokens",
                "cached",
                "seconds",
                "asked",
            ),
            [_arm_row(arm) for arm in summary.arms],
        )
    if summary.deltas:
        yield Figures(
            "What changed",
            ("metric", "compared", "model", "shows", "difference", "better/worse/same"),
            [_delta_row(delta) for delta in summary.deltas],
        )


def _arm_row(arm: ArmSummary) -> tuple[str, ...]:
    cases = f"{arm.cases} x {arm.runs // arm.cases}" if arm.cases and arm.runs > arm.cases else str(arm.cases)
    calls, tokens = map(number, (arm.model_calls, arm.calls)), number(arm.tokens)
    amounts = (*calls, tokens, percent(arm.cached), number(arm.seconds), str(arm.approvals))
    return (arm.model, arm.arm, cases, share(arm.passed), *amounts)


def _delta_row(delta: Delta) -> tuple[str, ...]:
    moves = f"{delta.wins}/{delta.losses}/{delta.ties}"
    return (delta.metric, compared(delta), delta.model, delta.verdict, change(delta), moves)


def _choices(arm: ArmSummary, accuracy: Interval) -> Iterator[Figures]:
    yield Figures(
        f"Which skill {arm.model} chose: right for {share(accuracy)} of the requests",
        ("skill", "right", "missed", "wrong", "precision", "recall", "F1"),
        [
            (
                row.skill,
                *(str(times) for times in (row.right, row.missed, row.wrong)),
                share(row.precision),
                share(row.recall),
                "-" if row.f1 is None else f"{row.f1:.2f}",
            )
            for row in arm.choices
        ],
    )
