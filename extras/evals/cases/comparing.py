"""The same cases in two ways: what differs, and whether so many cases can show it.

A difference is shown only where its interval leaves out 0 and the exact test says so, too, after an
adjustment for all that was tested, of shares and of costs. Below six cases, or six that differ, none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple, TypeVar

import msgspec

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.choices import choice_score
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.scores import ALL, ScoredRun, Scores
from skills_agent.evals.cases.statistics import (
    MIN_DISCORDANT,
    holm,
    mcnemar,
    median_interval,
    paired_bootstrap,
)
from skills_agent.evals.cases.summary import Delta, Verdict

ARMS: Final = "with - without"
MIN_CASES: Final = 6
MAX_P: Final = 0.05
_SHARES: Final = frozenset({"passed", "chosen"})
_Any = TypeVar("_Any")
_Runs = Mapping[str, Sequence[EvalResult]]


class Comparison(NamedTuple):
    """One metric of the cases in two ways; a case that only one side has is left out."""

    model: str
    name: str
    metric: str
    ours: Scores
    theirs: Scores


def compare_arms(run: ScoredRun) -> Iterator[Comparison]:
    """Yield what compares the arms: of both sides, only the checks of what came out."""
    for model in run.models:
        ours, theirs = run.runs.get((model, "with")), run.runs.get((model, "without"))
        if ours and theirs:
            worth = (
                run.of_kinds(model, "with", ALL, "without"),
                run.of_kinds(model, "without", ALL, "without"),
            )
            yield Comparison(model, ARMS, "passed", *worth)
            yield from _costs(model, ARMS, ours, theirs)


def compare_runs(now: ScoredRun, before: ScoredRun) -> Iterator[Comparison]:
    """Yield what compares two runs: of the same models, the cases that did not change."""
    same, name = same_cases(now, before), f"now - {before.head.id}"
    for model in now.models:
        ours, theirs = (_only(each.runs.get((model, "with"), {}), same) for each in (now, before))
        if ours and theirs:
            worth = (_only(each.passed(model, "with"), same) for each in (now, before))
            yield Comparison(model, name, "passed", *worth)
            yield Comparison(model, name, "chosen", _chosen(now, ours), _chosen(before, theirs))
            yield from _costs(model, name, ours, theirs)


def same_cases(now: ScoredRun, before: ScoredRun) -> frozenset[str]:
    """Return the ids of the cases that ask and expect the same in both runs."""
    both = now.cases.keys() & before.cases.keys()
    return frozenset(name for name in both if _substance(now.cases[name]) == _substance(before.cases[name]))


def deltas(comparisons: Iterable[Comparison], seed: int) -> tuple[Delta, ...]:
    """Return what differs, adjusted over all; a metric that no case has on both sides is left out."""
    pairs = [(each, diffs) for each in comparisons if (diffs := differences(each.ours, each.theirs))]
    found = [_delta(each, diffs, seed) for each, diffs in pairs]
    families = [
        [delta.p for delta in found if delta.p is not None and _is_share(delta) == one] for one in (0, 1)
    ]
    costs, shares = (iter(holm(family)) for family in families)
    return tuple(
        _judged(delta, None if delta.p is None else next(shares if _is_share(delta) else costs))
        for delta in found
    )


def differences(ours: Scores, theirs: Scores) -> tuple[float, ...]:
    """Return the difference of the means of each case that both have.

    Of a case with more runs on one side the first count, as many as the other has: it is likelier that one of
    three fails than one of one, and wins and losses would not be even where nothing differs.
    """
    found = []
    for name, scores in ours.items():
        runs = min(len(scores), len(theirs.get(name, ())))
        if runs:
            found.append((sum(scores[:runs]) - sum(theirs[name][:runs])) / runs)
    return tuple(found)


def _is_share(delta: Delta) -> bool:
    return delta.metric in _SHARES


def _delta(each: Comparison, found: Sequence[float], seed: int) -> Delta:
    of_shares = each.metric in _SHARES
    interval = paired_bootstrap(found, seed) if of_shares else median_interval(found)
    more, less = sum(one > 0 for one in found), sum(one < 0 for one in found)
    wins, losses = (more, less) if of_shares else (less, more)
    return Delta(
        model=each.model,
        name=each.name,
        metric=each.metric,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        n=interval.n,
        wins=wins,
        losses=losses,
        ties=interval.n - wins - losses,
        p=mcnemar(wins, losses) if wins + losses >= MIN_DISCORDANT else None,
        verdict="no difference shown",
    )


def _judged(delta: Delta, p: float | None) -> Delta:
    return msgspec.structs.replace(delta, p=p, verdict=_verdict(delta, p))


def _verdict(delta: Delta, p: float | None) -> Verdict:
    if delta.n < MIN_CASES or 0 < delta.wins + delta.losses < MIN_DISCORDANT:
        return "too few cases"
    leaves_out_nothing = delta.low > 0 or delta.high < 0
    if not leaves_out_nothing or p is None or p > MAX_P:
        return "no difference shown"
    return "better" if (delta.value > 0) == _is_share(delta) else "worse"


def _only(found: Mapping[str, Sequence[_Any]], names: frozenset[str]) -> dict[str, Sequence[_Any]]:
    return {name: each for name, each in found.items() if name in names}


def _chosen(run: ScoredRun, runs: _Runs) -> Scores:
    asked = {name: found for name, found in runs.items() if run.cases[name].expect.skills is not None}
    return {name: [choice_score(one, run.cases[name]) for one in found] for name, found in asked.items()}


def _costs(model: str, name: str, ours: _Runs, theirs: _Runs) -> Iterator[Comparison]:
    """Yield what runs took. One that an error ended took less than an answer does, and is left out."""
    for metric in ("tokens", "seconds", "calls", "usd"):
        yield Comparison(model, name, metric, _taken(ours, metric), _taken(theirs, metric))


def _taken(runs: _Runs, metric: str) -> Scores:
    taken = {
        name: [_cost(one, metric) for one in found if one.outcome != "error"] for name, found in runs.items()
    }
    known = {name: [one for one in found if one is not None] for name, found in taken.items()}
    return {name: found for name, found in known.items() if found}


def _cost(result: EvalResult, metric: str) -> float | None:
    return {
        "tokens": result.spent.tokens,
        "seconds": result.spent.seconds,
        "calls": len(result.trajectory.calls),
        "usd": result.spent.usd,
    }[metric]


def _substance(case: EvalCase) -> EvalCase:
    """Return what makes a case what it is: not where it lies, and not how people call it."""
    replace = msgspec.structs.replace
    expect = replace(
        case.expect,
        files=tuple(replace(each, equals_file=_name(each.equals_file)) for each in case.expect.files),
        scripts=tuple(replace(each, path=PurePath(each.path).name) for each in case.expect.scripts),
    )
    files = tuple(replace(each, source=_name(each.source)) for each in case.files)
    return replace(case, expect=expect, files=files, name="", file="", note="", tags=(), more={}, repeat=None)


def _name(path: str | None) -> str | None:
    return None if path is None else PurePath(path).name
