"""`--fail-under METRIC=VALUE`: what a run has to reach, so that a pipeline stops where it does not.

Of several models, and of several skills, the worst counts.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from skills_agent.evals.cases.case import Frozen
from skills_agent.evals.cases.comparing import ARMS
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.summary import ArmSummary, Interval, Summary
from skills_agent.skills.visible import visible_line

OF_SKILLS: Final = ("precision", "recall", "f1")
"""Metrics of one skill each: `recall:csv-report` is that of one, `recall` the least of all."""
METRICS: Final = ("passed", "all_passed", "accuracy", *OF_SKILLS, "delta")
_WRITTEN: Final = re.compile(r"(\w+)(?::([^=]+))?=([+-]?[0-9]*\.?[0-9]+)(%?)", re.ASCII)
_TOLERANCE: Final = 1e-9
"""Sums of floats that should be .8 are a little less."""


class Threshold(Frozen, frozen=True, kw_only=True):
    """What one metric has to reach."""

    metric: str
    skill: str = ""
    """Of `precision`, `recall` and `f1`: of which skill; empty: of each."""
    value: float
    """From 0 to 1; of `delta` from -1."""


def parse_threshold(text: str) -> Threshold:
    """Read `passed=0.8`, `passed=80%` or `recall:csv-report=90%`. Raises EvalError."""
    match = _WRITTEN.fullmatch(text.replace(" ", ""))
    value = float(match[3]) / (100 if match[4] else 1) if match else 2.0
    if match is None or match[1] not in METRICS or (match[2] and match[1] not in OF_SKILLS):
        raise EvalError(
            f"--fail-under {visible_line(text)}: write METRIC=VALUE, as passed=80% or recall:NAME=0.9. "
            f"Metrics: {', '.join(METRICS)}."
        )
    if not (-1.0 if match[1] == "delta" else 0.0) <= value <= 1.0:
        raise EvalError(f"--fail-under {visible_line(text)}: the value is from 0 to 1, or per cent.")
    return Threshold(metric=match[1], skill=match[2] or "", value=value)


def missed(summary: Summary, thresholds: Iterable[Threshold]) -> tuple[str, ...]:
    """Return a sentence for each threshold that a run does not reach, or has no cases for."""
    return tuple(sentence for threshold in thresholds if (sentence := _missed(summary, threshold)))


def _missed(summary: Summary, threshold: Threshold) -> str:
    name = f"{threshold.metric}:{threshold.skill}" if threshold.skill else threshold.metric
    worst = min(_reached(summary, threshold), default=None)
    if worst is None:
        return f"{visible_line(name)} is asked for, and no case of the run can show it."
    value, of = worst
    if value >= threshold.value - _TOLERANCE:
        return ""
    return f"{visible_line(name)} is {value:.4g} of {visible_line(of)}, below {threshold.value:.4g}."


def _reached(summary: Summary, threshold: Threshold) -> Iterator[tuple[float, str]]:
    """Yield the metric of each model, and of each skill where it is one of skills."""
    if threshold.metric == "delta":
        for delta in summary.deltas:
            if (delta.name, delta.metric) == (ARMS, "passed"):
                yield delta.value, delta.model
    for arm in summary.arms:
        if arm.arm == "with":
            for value, of in _figures(arm, threshold):
                if value is not None:
                    yield value, of


def _figures(arm: ArmSummary, threshold: Threshold) -> Iterator[tuple[float | None, str]]:
    if threshold.metric == "passed" and arm.passed.n:
        yield arm.passed.value, arm.model
    if threshold.metric == "all_passed" and arm.passed.n:
        yield arm.all_passed, arm.model
    if arm.accuracy and threshold.metric == "accuracy":
        yield arm.accuracy.value, arm.model
    if threshold.metric in OF_SKILLS:
        for skill in arm.choices:
            if threshold.skill in {"", skill.skill}:
                figure: Interval | float | None = getattr(skill, threshold.metric)
                value = figure.value if isinstance(figure, Interval) else figure
                yield value, f"{skill.skill} chosen by {arm.model}"
