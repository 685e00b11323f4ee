"""Which skills were chosen for which requests: precision, recall, the confusion among skills, near misses."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import EvalCase, ExpectedSkills
from skills_agent.evals.cases.checks import choice_holds
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.scores import BROKEN_OFF
from skills_agent.evals.cases.statistics import wilson
from skills_agent.evals.cases.summary import NO_SKILL, Choices, NearMiss, Triggering
from skills_agent.skills.text import one_line

MAX_REQUEST: Final = 300
"""Characters of a request that are shown."""


class _Judgement(NamedTuple):
    """What one choice was, skill by skill."""

    right: frozenset[str]
    missed: frozenset[str]
    wrong: frozenset[str]


_Asked = Sequence[tuple[EvalCase, ExpectedSkills, Sequence[EvalResult]]]


def choices_of(runs: Mapping[str, Sequence[EvalResult]], cases: Mapping[str, EvalCase]) -> Choices | None:
    """Return what was chosen in the runs of each case, by its id; None: no case says what it expects."""
    asked = [
        (cases[name], expected, results)
        for name, results in runs.items()
        if results and (expected := cases[name].expect.skills) is not None
    ]
    if not asked:
        return None
    right = sum(sum(choice_score(one, case) for one in results) / len(results) for case, _, results in asked)
    cells = Counter(cell for case, expected, results in asked for cell in _cells(case, expected, results))
    names = _names(asked, cells)
    return Choices(
        accuracy=wilson(right, len(asked)),
        skills=tuple(_triggering(asked, names)),
        names=names,
        confusion=tuple(tuple(cells[row, column] for column in names) for row in names),
        near_misses=tuple(sorted(_near_misses(asked), key=lambda each: (-each.rate, each.case))),
    )


def choice_score(result: EvalResult, case: EvalCase) -> float:
    """Return 1 where the skills are those that the case expects; a run that broke off before is 0."""
    chosen = _chosen(result, case)
    expected = case.expect.skills
    return float(chosen is not None and expected is not None and choice_holds(expected, chosen))


def _chosen(result: EvalResult, case: EvalCase) -> tuple[str, ...] | None:
    """Return the skills that were chosen; None: it broke off before any was, and says nothing."""
    chosen = tuple(name for name in result.trajectory.chosen if name not in case.load)
    return None if result.outcome in BROKEN_OFF and not chosen else chosen


def _judge(expected: ExpectedSkills, chosen: tuple[str, ...] | None) -> _Judgement:
    """Return what a choice was. Where others may be loaded, one is wrong only instead of the expected."""
    names, there = frozenset(expected.names), frozenset(chosen or ())
    none: frozenset[str] = frozenset()
    if expected.mode == "none":
        return _Judgement(none, none, names & there if names else there)
    right = names & there
    if expected.mode == "any":
        return _Judgement(right, none if right else names, none if right else there)
    missed = names - there
    return _Judgement(right, missed, there - names if missed or expected.mode == "only" else none)


def _cells(
    case: EvalCase, expected: ExpectedSkills, results: Sequence[EvalResult]
) -> Iterator[tuple[str, str]]:
    """Yield a row and a column for each run: what was expected, and what was chosen."""
    for result in results:
        chosen = _chosen(result, case)
        if chosen is None:
            continue
        right, missed, wrong = _judge(expected, chosen)
        rows = missed or right or {NO_SKILL}
        yield from ((name, name) for name in right)
        yield from ((row, name) for row in rows for name in wrong)
        if not wrong:
            yield from ((row, NO_SKILL) for row in rows - right)


def _names(asked: _Asked, cells: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    expected = {name for _, skills, _ in asked for name in skills.names}
    return (*sorted(expected | {name for cell in cells for name in cell} - {NO_SKILL}), NO_SKILL)


def _triggering(asked: _Asked, names: Sequence[str]) -> Iterator[Triggering]:
    """Yield each skill's counts; of several runs of a request, half of them are enough."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names if name != NO_SKILL}
    for case, expected, results in asked:
        judged = [_judge(expected, _chosen(one, case)) for one in results]
        for part in _Judgement._fields:
            times = Counter(name for one in judged for name in getattr(one, part))
            for name, number in times.items():
                is_tie = part == "missed" and 2 * number == len(results)
                counts[name][part] += 2 * number >= len(results) and not is_tie
    for name, count in counts.items():
        right, missed, wrong = count["right"], count["missed"], count["wrong"]
        yield Triggering(
            skill=name,
            right=right,
            missed=missed,
            wrong=wrong,
            precision=wilson(right, right + wrong) if right + wrong else None,
            recall=wilson(right, right + missed) if right + missed else None,
            f1=2 * right / (2 * right + missed + wrong) if right + missed + wrong else None,
        )


def _near_misses(asked: _Asked) -> Iterator[NearMiss]:
    for case, expected, results in asked:
        made = [chosen for one in results if (chosen := _chosen(one, case)) is not None]
        wrong = [chosen for chosen in made if not choice_holds(expected, chosen)]
        if wrong:
            times = Counter(name for chosen in wrong for name in chosen)
            yield NearMiss(
                case=case.id,
                request=one_line(case.turns[0], MAX_REQUEST),
                expected=() if expected.mode == "none" else expected.names,
                chosen=tuple(name for name, _ in times.most_common()),
                rate=len(wrong) / len(made),
            )
