"""The results of a run, sorted, and what each is worth."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.checks import choice_holds
from skills_agent.evals.cases.result import Arm, CheckKind, EvalResult, Outcome, RunHead

CAME_OUT: Final[frozenset[CheckKind]] = frozenset({"answer", "file", "script", "rubric", "limits"})
"""Checks that can hold without the skill, too: only these compare the two arms."""
BROKEN_OFF: Final[frozenset[Outcome]] = frozenset({"error", "timeout", "refused"})
"""Runs without an answer: they count as not passed."""

Scores = Mapping[str, Sequence[float]]
"""What the runs of each case are worth, by its id and in the order of the runs; no case is without one."""
Worth = Callable[[EvalResult, EvalCase], float | None]
"""Returns what one run is worth; None: nothing decides."""


class ScoredRun(NamedTuple):
    """The results of a run, sorted by model, arm and case."""

    head: RunHead
    cases: Mapping[str, EvalCase]
    runs: Mapping[tuple[str, Arm], Mapping[str, Sequence[EvalResult]]]

    @classmethod
    def of(cls, head: RunHead, results: Sequence[EvalResult]) -> "ScoredRun":
        """Sort results of the cases that the head has; of two with the same key the first counts."""
        cases = {case.id: case for case in head.cases}
        unique = {one.key: one for one in reversed(results) if one.case in cases}.values()
        places = {name: at for at, name in enumerate(cases)}
        models = {name: at for at, name in enumerate([*head.labels, *(one.model for one in results)])}
        runs: dict[tuple[str, Arm], dict[str, list[EvalResult]]] = {}
        for one in sorted(unique, key=lambda one: (models[one.model], one.arm, places[one.case], one.repeat)):
            runs.setdefault((one.model, one.arm), {}).setdefault(one.case, []).append(one)
        return cls(head, cases, runs)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that there are results of."""
        return tuple(dict.fromkeys(model for model, _ in self.runs))

    def scores(self, model: str, arm: Arm, worth: Worth) -> Scores:
        """Return what the runs of a model in an arm are worth, without those that nothing decides about."""
        by_case = self.runs.get((model, arm), {}).items()
        found = {name: [worth(one, self.cases[name]) for one in some] for name, some in by_case}
        known = {name: [each for each in some if each is not None] for name, some in found.items()}
        return {name: some for name, some in known.items() if some}

    def passed(self, result: EvalResult, case: EvalCase) -> float | None:
        """Return 1 for a run that passed, else 0."""
        decides = case.has_checks or (case.expect.rubric and self.head.grader)
        return float(result.outcome == "passed") if decides and result.outcome != "ungraded" else None

    def came_out(self, result: EvalResult, case: EvalCase) -> float | None:
        """Return 1 where what came out of a run is right, else 0: what compares the arms."""
        expect = case.expect
        graded = expect.rubric if self.head.grader else None
        given = any((expect.answer, expect.files, expect.scripts, expect.limits, graded))
        if case.kind == "trigger" or not given:
            return None
        if result.outcome in BROKEN_OFF:
            return 0.0
        counted = [check.passed for check in result.checks if check.kind in CAME_OUT]
        return float(all(counted)) if counted else None


def chosen(result: EvalResult, case: EvalCase) -> tuple[str, ...] | None:
    """Return the skills that were chosen; None: it broke off before any was, and says nothing."""
    names = tuple(name for name in result.trajectory.chosen if name not in case.load)
    return None if result.outcome in BROKEN_OFF and not names else names


def choice(result: EvalResult, case: EvalCase) -> float | None:
    """Return 1 where the skills are those that the case expects; a run that broke off before is 0."""
    if (expected := case.expect.skills) is None:
        return None
    names = chosen(result, case)
    return float(names is not None and choice_holds(expected, names))
