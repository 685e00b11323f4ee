"""The same cases in two ways: what differs, and whether so many cases can show it.

A difference is shown only where its interval leaves out 0 and the exact test says so, too, after an
adjustment for all that was tested, of shares and of costs. Below six cases, or six that differ, none.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.eval_folder import file_of
from skills_agent.evals.cases.result import Arm, EvalResult, label_of
from skills_agent.evals.cases.scored import ScoredRun, Scores, Worth, choice
from skills_agent.evals.cases.statistics import MIN_DISCORDANT, bootstrap, holm, mcnemar
from skills_agent.evals.cases.summary import Delta, Verdict

ARMS: Final = "with - without"
AGENTS: Final = "beside "
"""What the name of a comparison with the first agent of a run begins with."""
MIN_CASES: Final = 6
MAX_P: Final = 0.05
SHARES: Final = frozenset({"passed", "chosen"})
"""Metrics that are shares; all others are amounts."""
_COSTS: Final[Mapping[str, Worth]] = {
    "tokens": lambda one, _: one.spent.tokens,
    "seconds": lambda one, _: one.spent.seconds,
    "calls": lambda one, _: len(one.trajectory.calls),
}
_MODEL_COSTS: Final[Mapping[str, Worth]] = {
    "input tokens": lambda one, _: one.spent.input_tokens,
    "model calls": lambda one, _: one.spent.model_calls,
}


def compare_arms(run: ScoredRun) -> Iterator[Delta]:
    """Yield what compares the arms: of both sides, only the checks of what came out."""
    for model in run.models:
        worths = {"passed": run.came_out, **_COSTS}
        yield from _compared(model, ARMS, worths, (run, "with"), (run, "without"))


def compare_agents(run: ScoredRun) -> Iterator[Delta]:
    """Yield what compares each other agent of a run with the first, model by model."""
    worths = {"passed": run.passed, "chosen": choice, **_COSTS, **_MODEL_COSTS}
    for model in run.head.models:
        first, *others = [label_of(agent, model) for agent in run.head.agents] or [""]
        for other in others:
            yield from _compared(other, f"{AGENTS}{first}", worths, (run, "with"), (run, "with"), first)


def compare_runs(now: ScoredRun, before: ScoredRun) -> Iterator[Delta]:
    """Yield what compares two runs: of the same models, the cases that did not change."""
    same = same_cases(now, before)
    now, before = (each._replace(runs=_only(each, same)) for each in (now, before))
    for model in now.models:
        worths = {"passed": now.passed, "chosen": choice, **_COSTS}
        yield from _compared(model, f"now - {before.head.id}", worths, (now, "with"), (before, "with"))


def same_cases(now: ScoredRun, before: ScoredRun) -> frozenset[str]:
    """Return the ids of the cases that ask and expect the same in both runs."""
    both = now.cases.keys() & before.cases.keys()
    return frozenset(name for name in both if _substance(now.cases[name]) == _substance(before.cases[name]))


def adjusted(deltas: Iterable[Delta]) -> tuple[Delta, ...]:
    """Return what differs with its p adjusted over all, and with its verdict."""
    found = list(deltas)
    ps: dict[int, float] = {}
    for is_share in (True, False):
        family = [
            at for at, each in enumerate(found) if each.p is not None and (each.metric in SHARES) is is_share
        ]
        ps |= zip(family, holm([found[at].p or 0.0 for at in family]), strict=True)
    return tuple(
        msgspec.structs.replace(delta, p=ps.get(at), verdict=_verdict(delta, ps.get(at)))
        for at, delta in enumerate(found)
    )


def _compared(
    model: str,
    name: str,
    worths: Mapping[str, Worth],
    ours: tuple[ScoredRun, Arm],
    theirs: tuple[ScoredRun, Arm],
    first: str = "",
) -> Iterator[Delta]:
    """Yield what differs in each metric; one that no case has on both sides is left out."""
    for metric, worth in worths.items():
        # One that an error ended took less than an answer does, and is left out of the costs.
        counted = worth if metric in SHARES else _of_answers(worth)
        sides = ((model, *ours), (first or model, *theirs))
        now, then = (run.scores(name, arm, counted) for name, run, arm in sides)
        if found := _differences(now, then):
            yield _delta(model, name, metric, found)


def _differences(ours: Scores, theirs: Scores) -> list[float]:
    """Return the difference of the means of each case that both have.

    Of a case with more runs on one side the first count, as many as the other has: it is likelier that one of
    three fails than one of one, and wins and losses would not be even where nothing differs.
    """
    found = []
    for name, scores in ours.items():
        runs = min(len(scores), len(theirs.get(name, ())))
        if runs:
            found.append((sum(scores[:runs]) - sum(theirs[name][:runs])) / runs)
    return found


def _of_answers(worth: Worth) -> Worth:
    return lambda one, case: None if one.outcome == "error" else worth(one, case)


def _only(run: ScoredRun, names: frozenset[str]) -> dict[tuple[str, Arm], dict[str, Sequence[EvalResult]]]:
    return {
        key: {name: some for name, some in found.items() if name in names} for key, found in run.runs.items()
    }


def _delta(model: str, name: str, metric: str, found: Sequence[float]) -> Delta:
    of_shares = metric in SHARES
    interval = bootstrap(found, is_share=of_shares)
    more, less = sum(one > 0 for one in found), sum(one < 0 for one in found)
    wins, losses = (more, less) if of_shares else (less, more)
    return Delta(
        model=model,
        name=name,
        metric=metric,
        **msgspec.structs.asdict(interval),
        wins=wins,
        losses=losses,
        ties=interval.n - wins - losses,
        p=mcnemar(wins, losses) if wins + losses >= MIN_DISCORDANT else None,
    )


def _verdict(delta: Delta, p: float | None) -> Verdict:
    if delta.n < MIN_CASES or 0 < delta.wins + delta.losses < MIN_DISCORDANT:
        return "too few cases"
    if delta.low <= 0 <= delta.high or p is None or p > MAX_P:
        return "no difference shown"
    return "better" if (delta.value > 0) == (delta.metric in SHARES) else "worse"


def _substance(case: EvalCase) -> bytes:
    """Return what makes a case what it is: not where it lies, and not how people call it."""
    plain = msgspec.structs.replace(case, name="", file="", note="", repeat=None)
    folder = os.fspath(file_of(case).parent.parent) if case.file else ""
    return msgspec.json.encode(plain).replace(folder.encode(), b"")
