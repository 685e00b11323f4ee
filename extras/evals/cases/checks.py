"""Hold what a case expects against what happened in one run of it: all but what a model grades."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from skills_agent.evals.cases.call_checks import check_calls
from skills_agent.evals.cases.case import Amount, Command, EvalCase, ExpectedSkills, Metric
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.file_checks import check_files
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text
from skills_agent.evals.cases.trajectory import Spent, Trajectory
from skills_agent.skills.visible import visible_line

RunScript = Callable[[Command, Path], tuple[bool, str]]
"""Runs a script of a case in the workspace: whether it exited with 0, and what it wrote."""


def check(
    case: EvalCase, trajectory: Trajectory, spent: Spent, workspace: Path, run_script: RunScript
) -> Iterator[CheckResult]:
    """Yield a result for everything that a case expects; of a `trigger` case only the skills count."""
    expect = case.expect
    if expect.skills:
        yield _skills(expect.skills, tuple(name for name in trajectory.chosen if name not in case.load))
    if case.kind == "trigger":
        return
    if expect.calls:
        yield from check_calls(expect.calls, trajectory.calls)
    yield from _limits(expect.limits, len(trajectory.calls), spent)
    if expect.answer:
        yield from check_text(expect.answer, trajectory.answer, "The answer", "answer")
    yield from check_files(expect.files, workspace)
    for script in expect.scripts:
        passed, output = run_script(script, workspace)
        sentence = f"The script {visible_line(Path(script[0]).name)} exits with 0."
        yield result("script", sentence, passed=passed, evidence=output.strip() or "It wrote nothing.")


def choice_holds(expected: ExpectedSkills, chosen: tuple[str, ...]) -> bool:
    """Return whether the chosen skills are those that are expected."""
    names, there = set(expected.names), set(chosen)
    match expected.mode:
        case "all":
            return names <= there
        case "any":
            return bool(names & there)
        case "none":
            return not (names & there if names else there)
        case "only":
            return names == there


def _skills(expected: ExpectedSkills, chosen: tuple[str, ...]) -> CheckResult:
    names = listed(list(map(visible_line, expected.names)))
    sentence = {
        "all": f"The model chooses {names or 'any skills'}.",
        "any": f"The model chooses one of {names} at least.",
        "none": f"The model does not choose {names or 'a skill'}.",
        "only": f"The model chooses {names or 'no skill'} and no other.",
    }[expected.mode]
    evidence = f"It chose {listed(list(map(visible_line, chosen))) or 'none'}."
    return result("skills", sentence, passed=choice_holds(expected, chosen), evidence=evidence)


def _limits(limits: Mapping[Metric, Amount], calls: int, spent: Spent) -> Iterator[CheckResult]:
    taken: dict[Metric, float] = {
        "calls": calls,
        "model_calls": spent.model_calls,
        "tokens": spent.tokens,
        "seconds": spent.seconds,
    }
    for name, limit in limits.items():
        amount = taken[name]
        sentence = f"It takes at most {limit:,.12g} {name.replace('_', ' ')}."
        is_unknown = name == "tokens" and not amount and spent.model_calls
        evidence = "The model does not say how many." if is_unknown else f"It took {amount:,.12g}."
        yield result("limits", sentence, passed=amount <= limit, evidence=evidence)
