"""`--fail-under METRIC=VALUE`: what a run has to reach, so that a pipeline stops where it does not.

Of several models, and of several skills, the worst counts.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import Frozen
from skills_agent.evals.cases.comparing import ARMS
from skills_agent.evals.cases.errors import ThresholdError
from skills_agent.evals.cases.excerpts import listed
from skills_agent.evals.cases.summary import ArmSummary, Interval, Summary, Triggering
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line

OF_SKILLS: Final = ("precision", "recall", "f1")
"""Metrics of one skill each: `recall:csv-report` is that of one, `recall` the least of all."""
METRICS: Final = ("passed", "all_passed", "sequence", "output", "accuracy", *OF_SKILLS, "delta")
_VALUE: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(%?)", re.ASCII)
_TOLERANCE: Final = 1e-9
"""Sums of floats that should be .8 are a little less."""


class Threshold(Frozen, frozen=True, kw_only=True):
    """What one metric has to reach."""

    text: str
    """As it was typed."""
    metric: str
    skill: str = ""
    """Of `precision`, `recall` and `f1`: of which skill; empty: of each."""
    value: float
    """From 0 to 1; of `delta` from -1."""


class _Reached(NamedTuple):
    value: float
    of: str
    """Of what it is: `12 cases of gpt-x`."""


def parse_threshold(text: str) -> Threshold:
    """Read `passed=0.8`, `passed=80%` or `recall:csv-report=90%`. Raises ThresholdError."""
    name, equals, value = text.partition("=")
    metric, colon, skill = name.strip().partition(":")
    if not equals:
        raise ThresholdError(visible_line(text), "write METRIC=VALUE, such as passed=80%")
    if metric not in METRICS:
        near = get_close_matches(metric.lower(), METRICS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        known = listed(METRICS, len(METRICS))
        raise ThresholdError(visible_line(text), f"there is no such metric; {hint}There are: {known}")
    if colon and (metric not in OF_SKILLS or not skill):
        raise ThresholdError(
            visible_line(text), f"only {listed(OF_SKILLS)} are of one skill, as in recall:NAME"
        )
    return Threshold(text=text, metric=metric, skill=skill, value=_value(text, value.strip(), metric))


def missed(summary: Summary, thresholds: Iterable[Threshold]) -> tuple[str, ...]:
    """Return a sentence for each threshold that a run does not reach, or has no cases for."""
    return tuple(sentence for each in thresholds if (sentence := _missed(summary, each)))


def _value(text: str, value: str, metric: str) -> float:
    match = _VALUE.fullmatch(value)
    number = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    least = -1.0 if metric == "delta" else 0.0
    if least <= number <= 1.0:
        return number
    if match and not match[2] and 1 < number <= 100:
        raise ThresholdError(visible_line(text), f"write {value}% or {number / 100:g}")
    raise ThresholdError(visible_line(text), f"the value is a number from {least:g} to 1, or per cent")


def _missed(summary: Summary, threshold: Threshold) -> str:
    reached = list(_reached(summary, threshold))
    name = visible_line(f"{threshold.metric}:{threshold.skill}" if threshold.skill else threshold.metric)
    if not reached:
        return f"{name} is asked for, and {_nothing(threshold)}."
    worst = min(reached, key=lambda each: each.value)
    if worst.value >= threshold.value - _TOLERANCE:
        return ""
    is_, wanted = _per_cent(worst.value, threshold.value)
    return f"{name} is {is_} of {worst.of}, below {wanted}."


def _nothing(threshold: Threshold) -> str:
    if threshold.metric == "delta":
        return "no case ran with and without the skill that could show it"
    if threshold.skill:
        return f"no case has to do with {visible_line(threshold.skill)}"
    if threshold.metric in {"accuracy", *OF_SKILLS}:
        return "no case says which skill it expects"
    return "the run has no cases for it"


def _reached(summary: Summary, threshold: Threshold) -> Iterator[_Reached]:
    """Yield the metric of each model, and of each skill where it is one of skills."""
    if threshold.metric == "delta":
        for delta in summary.deltas:
            if (delta.name, delta.metric) == (ARMS, "passed"):
                yield _Reached(delta.value, _of(delta.n, delta.model))
        return
    for arm in (each for each in summary.arms if each.arm == "with"):
        if threshold.metric in OF_SKILLS:
            yield from _of_skills(arm, threshold)
        else:
            yield from _of_arm(arm, threshold.metric)


def _of_skills(arm: ArmSummary, threshold: Threshold) -> Iterator[_Reached]:
    for each in arm.choices.skills if arm.choices else ():
        value = _SKILL_FIGURES[threshold.metric](each)
        if value is not None and threshold.skill in {"", each.skill}:
            yield _Reached(value, f"{visible_line(each.skill)} chosen by {visible_line(arm.model)}")


def _of_arm(arm: ArmSummary, metric: str) -> Iterator[_Reached]:
    if metric == "all_passed" and arm.passed.n:
        yield _Reached(arm.all_passed, _of(arm.passed.n, arm.model))
        return
    figures: dict[str, Interval | None] = {
        "passed": arm.passed,
        "sequence": arm.sequence,
        "output": arm.output,
        "accuracy": arm.choices.accuracy if arm.choices else None,
    }
    interval = figures.get(metric)
    if interval is not None and interval.n:
        yield _Reached(interval.value, _of(interval.n, arm.model))


def _of(number: int, model: str) -> str:
    return f"{count(number, 'case')} of {visible_line(model)}"


def _per_cent(*values: float) -> Sequence[str]:
    """Return values as per cent, with as many digits as it takes to tell them apart."""
    texts: Sequence[str] = ()
    for digits in range(7):
        texts = [f"{value:.{digits}%}" for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _interval_value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value


_SKILL_FIGURES: Final[dict[str, Callable[[Triggering], float | None]]] = {
    "precision": lambda each: _interval_value(each.precision),
    "recall": lambda each: _interval_value(each.recall),
    "f1": lambda each: each.f1,
}
