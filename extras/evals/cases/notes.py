"""Sentences that belong to the figures of a run: what is left out of them, and what they cannot say."""

from collections import Counter
from collections.abc import Iterator

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.comparing import MIN_CASES, same_cases
from skills_agent.evals.cases.excerpts import listed
from skills_agent.evals.cases.scores import BROKEN_OFF, ScoredRun
from skills_agent.skills.text import count

_OUTCOMES = {"error": "error", "timeout": "timeout", "refused": "refusal"}


def notes_of(run: ScoredRun) -> Iterator[str]:
    """Yield what has to be known about the figures of a run."""
    if run.head.partial:
        yield f"The run did not end: {run.head.partial.rstrip('.')}."
    for model in run.models:
        missing = [name for name in run.cases if name not in run.runs.get((model, "with"), {})]
        if missing:
            yield f"No result of {model} for {count(len(missing), 'case')}: {listed(missing, 5)}."
    if run.strays:
        yield f"{count(run.strays, 'result')} of cases that the run does not have: left out."
    yield from _broken_off(run)
    yield from _undecided(run)
    if "without" in run.head.arms:
        yield from _arms(run)
    if 0 < len(run.cases) < MIN_CASES:
        yield f"With {count(len(run.cases), 'case')} no difference can be shown: {MIN_CASES} are the least."


def notes_before(now: ScoredRun, before: ScoredRun) -> Iterator[str]:
    """Yield what changed between two runs, and what of them is not compared."""
    name = before.head.id
    models = [model for model in now.models if model not in before.models]
    if models:
        there = listed(before.models) or "none"
        yield f"{listed(models)} did not run in {name}, and {_is(models)} not compared; its models: {there}."
    new = [case for case in now.cases if case not in before.cases]
    gone = [case for case in before.cases if case not in now.cases]
    same = same_cases(now, before)
    changed = [case for case in now.cases if case in before.cases and case not in same]
    for cases, what in ((new, "new"), (gone, "missing"), (changed, "changed")):
        if cases:
            yield f"Not compared with {name}: {count(len(cases), f'{what} case')} ({listed(cases, 5)})."
    yield from _skills(now, before)
    if now.head.grader != before.head.grader:
        graders = (now.head.grader or "no grader", before.head.grader or "no grader")
        yield f"Rubrics were graded by {graders[0]}, in {name} by {graders[1]}."
    if now.head.program != before.head.program:
        yield f"This is skills-agent {now.head.program}, in {name} it was {before.head.program}."
    if now.head.repeat != before.head.repeat:
        yield (
            f"{count(now.head.repeat, 'run')} of a case, in {name} {before.head.repeat}: "
            "the first of each are compared, as many as both have."
        )


def _skills(now: ScoredRun, before: ScoredRun) -> Iterator[str]:
    ours, theirs = now.head.skills, before.head.skills
    changed = sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    parts = (
        (changed, "changed"),
        (sorted(ours.keys() - theirs.keys()), "new"),
        (sorted(theirs.keys() - ours.keys()), "gone"),
    )
    there = [f"{word}: {listed(names)}" for names, word in parts if names]
    yield f"Skills since {before.head.id}: {'; '.join(there) or 'none changed'}."


def _broken_off(run: ScoredRun) -> Iterator[str]:
    results = [one for by_case in run.runs.values() for found in by_case.values() for one in found]
    outcomes = Counter(one.outcome for one in results if one.outcome in BROKEN_OFF)
    if outcomes:
        parts = ", ".join(count(number, _OUTCOMES[outcome]) for outcome, number in sorted(outcomes.items()))
        number = sum(outcomes.values())
        yield f"{count(number, 'run')} of {len(results)} ended without an answer ({parts}), not passed."


def _undecided(run: ScoredRun) -> Iterator[str]:
    ungraded = sorted(
        {
            name
            for (_, arm), by_case in run.runs.items()
            if arm == "with"
            for name, found in by_case.items()
            if any(one.outcome == "ungraded" for one in found)
        }
    )
    if ungraded:
        yield (
            f"Nothing decides about {count(len(ungraded), 'case')} ({listed(ungraded, 5)}): "
            "in no share of passed cases. A grader decides about rubrics."
        )


def _arms(run: ScoredRun) -> Iterator[str]:
    without = {name for (_, arm), found in run.runs.items() if arm == "without" for name in found}
    if without:
        yield (
            "With and without are compared by what came out (answers, files, scripts, rubrics, limits), "
            "not by the skills that are chosen and the calls that are made."
        )
    alone = [name for name in run.cases if name in without and not run.kinds(name, "without")]
    if alone:
        yield f"Left out of that, with no such check: {count(len(alone), 'case')} ({listed(alone, 5)})."
    reasons: dict[str, list[str]] = {}
    for name, case in run.cases.items():
        if name not in without:
            reasons.setdefault(_why_alone(case), []).append(name)
    for why, names in reasons.items():
        yield f"Without the skill did not run: {count(len(names), 'case')} ({listed(names, 5)}): {why}."


def _why_alone(case: EvalCase) -> str:
    if case.kind == "trigger":
        return "which skill is chosen is asked of what is there"
    return "nothing came of it" if case.skill else "they name no skill (`skill`) to go without"


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
