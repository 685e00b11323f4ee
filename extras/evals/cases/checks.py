"""Hold what a case expects against what happened in one run of it: all but what a model grades."""

from collections.abc import Callable, Iterator
from pathlib import Path

from skills_agent.evals.cases.call_checks import check_calls
from skills_agent.evals.cases.case import CaseLimits, EvalCase, ExpectedSkills, ExpectedText, ScriptCheck
from skills_agent.evals.cases.errors import CheckError
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.file_checks import check_files
from skills_agent.evals.cases.json_checks import check_schema
from skills_agent.evals.cases.patterns import compile_pattern
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text
from skills_agent.evals.cases.trajectory import Spent, Trajectory
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line

RunScript = Callable[[ScriptCheck, Path], tuple[bool, str]]
"""Runs a script of a case in the workspace: whether it exited with 0, and what it wrote."""


def check(
    case: EvalCase, trajectory: Trajectory, spent: Spent, workspace: Path, run_script: RunScript
) -> tuple[CheckResult, ...]:
    """Return a result for everything that a case expects, in the order of its fields.

    Of a `trigger` case only the skills count. A pattern or a schema that is of no use fails, and says
    why: `unfit` finds these before a model was paid.
    """
    return tuple(_results(case, trajectory, spent, workspace, run_script))


def unfit(case: EvalCase) -> tuple[str, ...]:
    """Return sentences about the patterns and schemas of a case that nothing can be held against."""
    return tuple(f"{case.id}: {fault}" for fault in _unfit(case))


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


def _results(
    case: EvalCase, trajectory: Trajectory, spent: Spent, workspace: Path, run_script: RunScript
) -> Iterator[CheckResult]:
    expect = case.expect
    if expect.skills is not None:
        yield _check_skills(expect.skills, tuple(name for name in trajectory.chosen if name not in case.load))
    if case.kind == "trigger":
        return
    if expect.calls is not None:
        yield from check_calls(expect.calls, trajectory.calls)
    if expect.limits is not None:
        yield from _check_limits(expect.limits, trajectory, spent)
    if expect.answer is not None:
        yield from check_text(expect.answer, trajectory.answer, "The answer", "answer")
    yield from check_files(expect.files, workspace)
    for script in expect.scripts:
        passed, output = run_script(script, workspace)
        sentence = f"The script {visible_line(Path(script.path).name)} exits with 0."
        yield result("script", sentence, passed=passed, evidence=output.strip() or "It wrote nothing.")


def _check_skills(expected: ExpectedSkills, chosen: tuple[str, ...]) -> CheckResult:
    names = listed([visible_line(name) for name in expected.names])
    sentence = {
        "all": f"The model chooses {names}." if names else "Any skills may be chosen.",
        "any": f"The model chooses one of {names} at least.",
        "none": f"The model does not choose {names}." if names else "The model chooses no skill.",
        "only": f"The model chooses {names} and no other." if names else "The model chooses no skill.",
    }[expected.mode]
    evidence = f"It chose {listed([visible_line(name) for name in chosen]) or 'none'}."
    return result("skills", sentence, passed=choice_holds(expected, chosen), evidence=evidence)


def _check_limits(limits: CaseLimits, trajectory: Trajectory, spent: Spent) -> Iterator[CheckResult]:
    calls = len(trajectory.calls)
    figures = (
        (limits.calls, calls, "call of a tool", f"It made {calls:,}."),
        (limits.model_calls, spent.model_calls, "call of the model", f"It made {spent.model_calls:,}."),
        (limits.tokens, spent.tokens, "token", _tokens_text(spent)),
        (limits.seconds, spent.seconds, "second", f"It took {spent.seconds:.1f} s."),
    )
    for limit, taken, noun, evidence in figures:
        if limit is not None:
            yield result(
                "limits", f"It takes at most {_count(limit, noun)}.", passed=taken <= limit, evidence=evidence
            )


def _count(limit: float, noun: str) -> str:
    noun, of, what = noun.partition(" of ")
    return count(f"{limit:,.12g}" if limit != 1 else 1, noun) + of + what


def _tokens_text(spent: Spent) -> str:
    if spent.model_calls and not spent.tokens:
        return "The model does not say how many tokens it took: nothing was counted."
    return f"It took {spent.tokens:,}."


def _unfit(case: EvalCase) -> Iterator[str]:
    if case.kind == "trigger":
        return
    for text in (case.expect.answer, *(each.text for each in case.expect.files)):
        yield from _unfit_text(text or ExpectedText())


def _unfit_text(text: ExpectedText) -> Iterator[str]:
    for pattern in (*text.regex, *text.not_regex):
        try:
            compile_pattern(pattern, ignore_case=text.ignore_case)
        except CheckError as error:
            yield str(error)
    if text.json_schema is not None:
        try:
            check_schema(text.json_schema)
        except CheckError as error:
            yield str(error)
