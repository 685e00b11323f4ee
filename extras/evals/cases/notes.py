"""Sentences that belong to the figures of a run: what is left out of them, and what they cannot say."""

from collections import Counter
from collections.abc import Iterator

from skills_agent.evals.cases.comparing import same_cases
from skills_agent.evals.cases.excerpts import listed
from skills_agent.evals.cases.scored import BROKEN_OFF, ScoredRun
from skills_agent.skills.text import count


def notes_of(run: ScoredRun) -> Iterator[str]:
    """Yield what has to be known about the figures of a run."""
    if run.head.partial:
        yield f"The run did not end: {run.head.partial.rstrip('.')}."
    results = [one for found in run.runs.values() for some in found.values() for one in some]
    outcomes = Counter(one.outcome for one in results)
    broken = {name: outcomes[name] for name in sorted(BROKEN_OFF) if outcomes[name]}
    if broken:
        parts = ", ".join(f"{number} {name}" for name, number in broken.items())
        runs = f"{sum(broken.values())} of {count(len(results), 'run')}"
        yield f"{runs} ended without an answer ({parts}), not passed."
    if ungraded := list(dict.fromkeys(one.case for one in results if one.outcome == "ungraded")):
        yield (
            f"Nothing decides about {count(len(ungraded), 'case')} ({listed(ungraded, 5)}): "
            "in no share of passed cases. A grader decides about rubrics."
        )
    if "without" in run.head.arms:
        alone = [case.id for case in run.cases.values() if case.kind == "trigger" or not case.skill]
        if alone:
            yield (
                f"Not run without the skill: {count(len(alone), 'case')} ({listed(alone, 5)}), "
                "which ask for a choice or name no skill."
            )


def notes_before(now: ScoredRun, before: ScoredRun) -> Iterator[str]:
    """Yield what changed between two runs, and what of them is not compared."""
    name = before.head.id
    if models := [model for model in now.models if model not in before.models]:
        yield f"Not compared, for {name} did not ask them: {listed(models)}."
    same = same_cases(now, before)
    if cases := [case for case in dict.fromkeys([*now.cases, *before.cases]) if case not in same]:
        yield f"Not compared with {name}: {count(len(cases), 'new or changed case')} ({listed(cases, 5)})."
    ours, theirs = now.head.skills, before.head.skills
    changed = sorted(skill for skill in ours.keys() | theirs.keys() if ours.get(skill) != theirs.get(skill))
    yield f"Skills that changed since {name}: {listed(changed) or 'none'}."
    if (grader := now.head.grader) != before.head.grader:
        yield f"The grader is {grader or 'none'}, and was {before.head.grader or 'none'} in {name}."
