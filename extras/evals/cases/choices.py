"""Which skills were chosen for which requests: precision and recall."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from skills_agent.evals.cases.case import EvalCase, ExpectedSkills
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.scored import choice, chosen
from skills_agent.evals.cases.statistics import wilson
from skills_agent.evals.cases.summary import Interval, Triggering

Asked = Sequence[tuple[EvalCase, ExpectedSkills, Sequence[EvalResult]]]


def asked_of(runs: Mapping[str, Sequence[EvalResult]], cases: Mapping[str, EvalCase]) -> Asked:
    """Return the cases that say which skills they expect, with these and their runs."""
    return [
        (cases[name], expected, results)
        for name, results in runs.items()
        if (expected := cases[name].expect.skills) is not None
    ]


def accuracy_of(asked: Asked) -> Interval | None:
    """Return for how many requests the right skills were chosen; None for no requests."""
    right = sum(sum(choice(one, case) or 0.0 for one in found) / len(found) for case, _, found in asked)
    return wilson(right, len(asked)) if asked else None


def _usual(case: EvalCase, results: Sequence[EvalResult]) -> frozenset[str]:
    """Return the skills that were chosen in more than half of the runs of a case."""
    times = Counter(name for one in results for name in set(chosen(one, case) or ()))
    return frozenset(name for name, number in times.items() if 2 * number > len(results))


def triggering(asked: Asked) -> Iterator[Triggering]:
    """Yield each skill's counts. Where others may be loaded, one is wrong only instead of the expected."""
    counts: dict[str, Counter[str]] = {}
    for case, expected, results in asked:
        there, names = _usual(case, results), frozenset(expected.names)
        right = frozenset[str]() if expected.mode == "none" else names & there
        missed = (
            frozenset[str]()
            if expected.mode == "none" or (expected.mode == "any" and right)
            else names - there
        )
        wrong = there - right
        if expected.mode == "none" and names:
            wrong = names & there
        elif expected.mode in {"all", "any"} and not missed:
            wrong = frozenset()
        for name in names:
            counts.setdefault(name, Counter())
        for kind, some in (("right", right), ("missed", missed), ("wrong", wrong)):
            for name in some:
                counts.setdefault(name, Counter())[kind] += 1
    for name, count in sorted(counts.items()):
        hit, lost, taken = count["right"], count["missed"], count["wrong"]
        yield Triggering(
            skill=name,
            right=hit,
            missed=lost,
            wrong=taken,
            precision=wilson(hit, hit + taken) if hit + taken else None,
            recall=wilson(hit, hit + lost) if hit + lost else None,
            f1=2 * hit / (2 * hit + lost + taken) if hit + lost + taken else None,
        )
