"""Which checks count for which figure, and what a run is worth in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import EvalCase, ExpectedCalls
from skills_agent.evals.cases.result import Arm, CheckKind, EvalResult, Outcome, RunHead

SEQUENCE: Final[frozenset[CheckKind]] = frozenset({"calls", "order", "forbidden"})
OUTPUT: Final[frozenset[CheckKind]] = frozenset({"answer", "file", "script", "rubric"})
ALL: Final[frozenset[CheckKind]] = SEQUENCE | OUTPUT | {"skills", "limits"}
CAME_OUT: Final[frozenset[CheckKind]] = OUTPUT | {"limits"}
BROKEN_OFF: Final[frozenset[Outcome]] = frozenset({"error", "timeout", "refused"})
"""Runs without an answer: they count as not passed."""


Scores = Mapping[str, Sequence[float]]
"""What the runs of each case are worth, by its id and in the order of the runs; no case is without one."""


class ScoredRun(NamedTuple):
    """The results of a run, sorted by model, arm and case."""

    head: RunHead
    cases: Mapping[str, EvalCase]
    runs: Mapping[tuple[str, Arm], Mapping[str, Sequence[EvalResult]]]
    strays: int
    """Results of cases that the head does not have: they count for nothing."""

    @classmethod
    def of(cls, head: RunHead, results: Sequence[EvalResult]) -> "ScoredRun":
        """Sort results; of two with the same key the first counts."""
        cases = {case.id: case for case in head.cases}
        unique = {result.key: result for result in reversed(results)}.values()
        models = dict.fromkeys([*head.models, *sorted({one.model for one in unique})])
        arms: tuple[Arm, ...] = ("with", "without")
        runs: dict[tuple[str, Arm], dict[str, list[EvalResult]]] = {
            (model, arm): {name: [] for name in cases} for model in models for arm in arms
        }
        known = [one for one in unique if one.case in cases]
        for one in sorted(known, key=lambda one: one.repeat):
            runs[one.model, one.arm][one.case].append(one)
        there = {key: {name: found for name, found in each.items() if found} for key, each in runs.items()}
        return cls(head, cases, {key: each for key, each in there.items() if each}, len(unique) - len(known))

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that there are results of."""
        return tuple(dict.fromkeys(model for model, _ in self.runs))

    def kinds(self, case: str, arm: Arm) -> frozenset[CheckKind]:
        """Return the kinds of checks that decide about a case in an arm."""
        find = kinds_of if arm == "with" else kinds_without
        return find(self.cases[case], is_graded=bool(self.head.grader))

    def passed(self, model: str, arm: Arm) -> Scores:
        """Return 1 for each run that passed, else 0; without the runs that nothing decides about."""
        if arm == "without":
            return self.of_kinds(model, arm, ALL, within="without")
        runs = self.runs.get((model, arm), {}).items()
        return _known({name: [passed(one, self.kinds(name, arm)) for one in found] for name, found in runs})

    def of_kinds(self, model: str, arm: Arm, kinds: frozenset[CheckKind], within: Arm) -> Scores:
        """Return the same by checks of some kinds, of those that decide in the arm `within`."""
        runs = self.runs.get((model, arm), {}).items()
        return _known(
            {name: [score(one, kinds & self.kinds(name, within)) for one in found] for name, found in runs}
        )


def kinds_of(case: EvalCase, *, is_graded: bool) -> frozenset[CheckKind]:
    """Return the kinds of checks that decide about a case; rubrics do where there is a grader."""
    return frozenset(_kinds(case, is_graded=is_graded))


def kinds_without(case: EvalCase, *, is_graded: bool) -> frozenset[CheckKind]:
    """Return the kinds that can hold without the skill, too: only these compare the two arms.

    What came out can be right either way; which skills are chosen and which calls are made is the skill's.
    """
    return kinds_of(case, is_graded=is_graded) & CAME_OUT


def passed(result: EvalResult, kinds: frozenset[CheckKind]) -> float | None:
    """Return 1 for a run that passed, else 0; None: nothing decides. `kinds` are those of its case."""
    if result.outcome == "ungraded" or not (kinds or result.checks):
        return None
    return result.score


def score(result: EvalResult, kinds: frozenset[CheckKind]) -> float | None:
    """Return 1 where all checks of these kinds hold, else 0; None: nothing decides.

    A run without an answer is 0 wherever something would have decided.
    """
    if not kinds:
        return None
    if result.outcome in BROKEN_OFF:
        return 0.0
    counted = [check.passed for check in result.checks if check.kind in kinds]
    return float(all(counted)) if counted else None


def _known(worth: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    known = {name: [one for one in found if one is not None] for name, found in worth.items()}
    return {name: found for name, found in known.items() if found}


def _kinds(case: EvalCase, *, is_graded: bool) -> Iterator[CheckKind]:
    expect = case.expect
    if expect.skills is not None:
        yield "skills"
    if case.kind == "trigger":
        return
    calls = expect.calls or ExpectedCalls()
    given: tuple[tuple[CheckKind, object], ...] = (
        ("calls", calls.calls is not None),
        ("order", any(calls.order)),
        ("forbidden", calls.forbidden),
        ("limits", expect.limits),
        ("answer", expect.answer),
        ("file", expect.files),
        ("script", expect.scripts),
        ("rubric", expect.rubric if is_graded else None),
    )
    yield from (kind for kind, part in given if part)
