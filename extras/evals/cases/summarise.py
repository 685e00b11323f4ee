"""Make of the results of a run what a report shows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Final

from skills_agent.evals.cases.choices import accuracy_of, asked_of, triggering
from skills_agent.evals.cases.comparing import adjusted, compare_agents, compare_arms, compare_runs
from skills_agent.evals.cases.notes import notes_before, notes_of
from skills_agent.evals.cases.result import Arm, EvalResult, Outcome, RunHead
from skills_agent.evals.cases.scored import ScoredRun
from skills_agent.evals.cases.statistics import wilson
from skills_agent.evals.cases.summary import ArmSummary, CaseRow, Interval, Summary
from skills_agent.evals.cases.trajectory import Spent

_NOTHING: Final = Interval(value=0.0, low=0.0, high=1.0, n=0)


def summarise(
    head: RunHead, results: Sequence[EvalResult], before: tuple[RunHead, Sequence[EvalResult]] | None = None
) -> Summary:
    """Return all figures of a run: by model and arm, by case, and what differs, also from a run `before`.

    The same results give the same figures.
    """
    run = ScoredRun.of(head, results)
    earlier = ScoredRun.of(*before) if before else None
    compared = [*compare_arms(run), *compare_agents(run), *(compare_runs(run, earlier) if earlier else ())]
    return Summary(
        head=head,
        arms=tuple(_arm(run, model, arm) for model, arm in run.runs),
        deltas=adjusted(compared),
        cases=tuple(_rows(run, earlier)),
        before=earlier.head if earlier else None,
        notes=(*notes_of(run), *(notes_before(run, earlier) if earlier else ())),
    )


def _arm(run: ScoredRun, model: str, arm: Arm) -> ArmSummary:
    by_case = run.runs[model, arm]
    results = [one for found in by_case.values() for one in found]
    scores = run.scores(model, arm, run.passed if arm == "with" else run.came_out)
    ended = [one for one in results if one.outcome != "error"] or results
    total = sum((one.spent for one in results), Spent())
    asked = asked_of(by_case if arm == "with" else {}, run.cases)
    return ArmSummary(
        model=model,
        arm=arm,
        cases=len(by_case),
        runs=len(results),
        outcomes=dict(Counter[Outcome](one.outcome for one in results)),
        passed=wilson(sum(map(fmean, scores.values())), len(scores)) if scores else _NOTHING,
        all_passed=fmean(map(all, scores.values())) if scores else 0.0,
        accuracy=accuracy_of(asked),
        choices=tuple(triggering(asked)),
        tokens=median([one.spent.tokens for one in ended]),
        model_calls=median([one.spent.model_calls for one in ended]),
        calls=median([len(one.trajectory.calls) for one in ended]),
        seconds=median([one.spent.seconds for one in ended]),
        cached=total.cached_tokens / max(1, total.input_tokens),
        approvals=total.approvals,
    )


def _rows(run: ScoredRun, earlier: ScoredRun | None) -> Iterator[CaseRow]:
    """Yield each case of each model, in the order of the cases."""
    sides: dict[str, tuple[ScoredRun, Arm]] = {"with": (run, "with"), "without": (run, "without")}
    if earlier:
        sides["before"] = (earlier, "with")
    scores = {
        (side, model): of.scores(model, arm, of.passed if arm == "with" else of.came_out)
        for side, (of, arm) in sides.items()
        for model in run.models
    }
    for case in run.cases:
        for model in run.models:
            found = {side: of.runs.get((model, arm), {}).get(case) for side, (of, arm) in sides.items()}
            runs = {side: tuple(some) for side, some in found.items() if some}
            worth = {side: scores[side, model][case] for side in runs if case in scores[side, model]}
            if runs.keys() - {"before"}:
                rates = {side: fmean(some) for side, some in worth.items()}
                flaky = any(0 < rate < 1 for side, rate in rates.items() if side != "before")
                yield CaseRow(case=case, model=model, runs=runs, rates=rates, flaky=flaky)
