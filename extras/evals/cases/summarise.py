"""Make of the results of a run what a report shows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median, stdev
from typing import Final

from skills_agent.evals.cases.choices import choices_of
from skills_agent.evals.cases.comparing import (
    MIN_CASES,
    Comparison,
    compare_arms,
    compare_runs,
    deltas,
    differences,
)
from skills_agent.evals.cases.notes import notes_before, notes_of
from skills_agent.evals.cases.result import Arm, EvalResult, Outcome, RunHead
from skills_agent.evals.cases.scores import OUTPUT, SEQUENCE, ScoredRun, Scores
from skills_agent.evals.cases.statistics import MIN_DISCORDANT, pass_at, pass_every, smallest_visible, wilson
from skills_agent.evals.cases.summary import ArmSummary, CaseRow, Interval, Spread, Summary

_NOTHING: Final = Interval(value=0.0, low=0.0, high=1.0, n=0)
_MIN_DEVIATION: Final = 0.5
"""Of the differences of single cases: that of few may be small by chance."""


def summarise(
    head: RunHead, results: Sequence[EvalResult], before: tuple[RunHead, Sequence[EvalResult]] | None = None
) -> Summary:
    """Return all figures of a run: by model and arm, by case, and what differs, also from a run `before`.

    The same results give the same figures: what is drawn by chance begins at the head's seed.
    """
    run = ScoredRun.of(head, results)
    earlier = ScoredRun.of(*before) if before else None
    compared = [*compare_arms(run), *(compare_runs(run, earlier) if earlier else ())]
    found = deltas(compared, head.seed)
    return Summary(
        head=head,
        arms=tuple(_arm(run, model, arm) for model, arm in run.runs),
        deltas=found,
        cases=tuple(_rows(run, earlier)),
        before=earlier.head if earlier else None,
        notes=(*notes_of(run), *(notes_before(run, earlier) if earlier else ())),
        visible=_visible(compared),
    )


def _arm(run: ScoredRun, model: str, arm: Arm) -> ArmSummary:
    by_case = run.runs[model, arm]
    results = [one for found in by_case.values() for one in found]
    scores = run.passed(model, arm)
    passes = [(len(found), round(sum(found))) for found in scores.values()]
    ended = [one for one in results if one.outcome != "error"] or results
    prices = [one.spent.usd for one in ended if one.spent.usd is not None]
    return ArmSummary(
        model=model,
        arm=arm,
        cases=len(by_case),
        runs=len(results),
        outcomes=dict(Counter[Outcome](one.outcome for one in results)),
        passed=_share(scores) or _NOTHING,
        any_passed=_mean([pass_at(runs, right, runs) for runs, right in passes]),
        all_passed=_mean([pass_every(runs, right, runs) for runs, right in passes]),
        sequence=_share(run.of_kinds(model, arm, SEQUENCE, arm)),
        output=_share(run.of_kinds(model, arm, OUTPUT, arm)),
        choices=choices_of(by_case, run.cases) if arm == "with" else None,
        tokens=_spread([one.spent.tokens for one in ended]),
        calls=_spread([len(one.trajectory.calls) for one in ended]),
        seconds=_spread([one.spent.seconds for one in ended]),
        usd=_spread(prices) if len(prices) == len(ended) else None,
        total=sum((one.spent for one in results[1:]), results[0].spent),
    )


def _share(scores: Scores) -> Interval | None:
    return wilson(sum(map(_mean, scores.values())), len(scores)) if scores else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median=median(values), least=min(values), most=max(values))


def _visible(compared: Sequence[Comparison]) -> float | None:
    """Return what the smallest comparison of `passed` could show; of the arms, where there are two."""
    passed = [each for each in compared if each.metric == "passed"]
    found = [differences(each.ours, each.theirs) for each in passed if each.name == passed[0].name]
    if not found or min(map(len, found)) < MIN_CASES:
        return None
    fewest = min(found, key=len)
    by_interval = smallest_visible(len(fewest), max(_MIN_DEVIATION, stdev(fewest)))
    return min(1.0, max(by_interval, MIN_DISCORDANT / len(fewest)))


def _rows(run: ScoredRun, earlier: ScoredRun | None) -> Iterator[CaseRow]:
    """Yield each case of each model, in the order of the cases."""
    sides: dict[str, tuple[ScoredRun, Arm]] = {"with": (run, "with"), "without": (run, "without")}
    if earlier:
        sides["before"] = (earlier, "with")
    scores = {
        (side, model): of.passed(model, arm) for side, (of, arm) in sides.items() for model in run.models
    }
    for case in run.cases:
        for model in run.models:
            runs = {
                side: tuple(of.runs.get((model, arm), {}).get(case, ())) for side, (of, arm) in sides.items()
            }
            runs = {side: found for side, found in runs.items() if found}
            worth = {side: scores[side, model][case] for side in runs if case in scores[side, model]}
            if runs.keys() - {"before"}:
                yield CaseRow(
                    case=case,
                    model=model,
                    runs=runs,
                    rates={side: _mean(found) for side, found in worth.items()},
                    flaky=any(0 < _mean(worth[side]) < 1 for side in worth.keys() - {"before"}),
                    undecided=_undecided(runs.get("with", ()), runs.get("without", ())),
                )


def _undecided(ours: Sequence[EvalResult], theirs: Sequence[EvalResult]) -> tuple[str, ...]:
    """Return the checks that came out the same in every run of both arms."""
    sides = [_outcomes_of_checks(each) for each in (ours, theirs)]
    return tuple(text for text, found in sides[0].items() if len(found) == 1 and found == sides[1].get(text))


def _outcomes_of_checks(results: Sequence[EvalResult]) -> dict[str, set[bool]]:
    found: dict[str, set[bool]] = {}
    for check in (check for one in results for check in one.checks):
        found.setdefault(check.text, set()).add(check.passed)
    return found
