"""Hold what a case expects against what happened in one run of it: all but what a model grades."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.evals.cases.call_checks import check_calls
from skills_agent.evals.cases.case import CaseLimits, EvalCase, ExpectedSkills, ScriptCheck
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.file_checks import check_files
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text
from skills_agent.evals.cases.trajectory import Spent, Trajectory
from skills_agent.skills.visible import visible_line

RunScript = Callable[[ScriptCheck, Path], tuple[bool, str]]
"""Runs a script of a case in the workspace: whether it exited with 0, and what it wrote."""


class Run(NamedTuple):
    """What happened in one run of a case."""

    case: EvalCase
    trajectory: Trajectory
    spent: Spent
    workspace: Path
    run_script: RunScript


def check(run: Run) -> tuple[CheckResult, ...]:
    """Return a result for everything that a case expects; of a `trigger` case only the skills count."""
    expect = run.case.expect
    names = ["skills"] if run.case.kind == "trigger" else list(_CHECKS)
    parts = ((_CHECKS[name], getattr(expect, name)) for name in names)
    return tuple(each for function, part in parts if part for each in function(part, run))


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


def _skills(expected: ExpectedSkills, run: Run) -> Iterator[CheckResult]:
    chosen = tuple(name for name in run.trajectory.chosen if name not in run.case.load)
    names = listed(list(map(visible_line, expected.names)))
    sentence = {
        "all": f"The model chooses {names or 'any skills'}.",
        "any": f"The model chooses one of {names} at least.",
        "none": f"The model does not choose {names or 'a skill'}.",
        "only": f"The model chooses {names or 'no skill'} and no other.",
    }[expected.mode]
    evidence = f"It chose {listed(list(map(visible_line, chosen))) or 'none'}."
    yield result("skills", sentence, passed=choice_holds(expected, chosen), evidence=evidence)


def _limits(limits: CaseLimits, run: Run) -> Iterator[CheckResult]:
    taken = {
        "calls": len(run.trajectory.calls),
        "model_calls": run.spent.model_calls,
        "tokens": run.spent.tokens,
        "seconds": run.spent.seconds,
    }
    for name, amount in taken.items():
        limit = getattr(limits, name)
        if limit is not None:
            sentence = f"It takes at most {limit:,.12g} {name.replace('_', ' ')}."
            is_unknown = name == "tokens" and not amount and run.spent.model_calls
            evidence = "The model does not say how many." if is_unknown else f"It took {amount:,.12g}."
            yield result("limits", sentence, passed=amount <= limit, evidence=evidence)


def _scripts(scripts: tuple[ScriptCheck, ...], run: Run) -> Iterator[CheckResult]:
    for script in scripts:
        passed, output = run.run_script(script, run.workspace)
        sentence = f"The script {visible_line(Path(script.path).name)} exits with 0."
        yield result("script", sentence, passed=passed, evidence=output.strip() or "It wrote nothing.")


_CHECKS: Final[dict[str, Callable[[Any, Run], Iterator[CheckResult]]]] = {
    "skills": _skills,
    "calls": lambda expected, run: check_calls(expected, run.trajectory.calls),
    "limits": _limits,
    "answer": lambda expected, run: check_text(expected, run.trajectory.answer, "The answer", "answer"),
    "files": lambda expected, run: check_files(expected, run.workspace),
    "scripts": _scripts,
}
"""By the fields of `Expected`, in their order."""
