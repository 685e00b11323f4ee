"""Runs of cases, made up."""

from collections.abc import Iterable, Sequence
from typing import Any

from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedSkills, ExpectedText, SkillsMode
from skills_agent.evals.cases.result import Arm, CheckKind, CheckResult, EvalResult, Outcome, RunHead
from skills_agent.evals.cases.trajectory import Spent, Trajectory

MODEL = "model"


def task(name: str, expect: Expected | None = None, **fields: Any) -> EvalCase:
    """Return a case that expects an answer, and a skill."""
    default = Expected(skills=ExpectedSkills(names=("a",)), answer=ExpectedText(contains=("x",)))
    return EvalCase(id=name, skill="a", turns=(f"Do {name}.",), expect=expect or default, **fields)


def trigger(name: str, *names: str, mode: SkillsMode = "all") -> EvalCase:
    """Return a case that expects skills to be chosen."""
    expect = Expected(skills=ExpectedSkills(mode=mode, names=names))
    return EvalCase(id=name, kind="trigger", turns=(f"Ask {name}.",), expect=expect)


def head(cases: Iterable[EvalCase], **fields: Any) -> RunHead:
    """Return the head of a run."""
    fields.setdefault("id", "now")
    return RunHead(at="2026-11-22T00:00:00Z", models=(MODEL,), cases=tuple(cases), **fields)


def ran(
    case: str,
    *checks: tuple[CheckKind, bool],
    arm: Arm = "with",
    repeat: int = 0,
    outcome: Outcome | None = None,
    chosen: Sequence[str] = (),
    spent: Spent | None = None,
    model: str = MODEL,
) -> EvalResult:
    """Return a result; without an outcome it passed if its checks did."""
    return EvalResult(
        case=case,
        model=model,
        arm=arm,
        repeat=repeat,
        outcome=outcome or ("passed" if all(passed for _, passed in checks) else "failed"),
        checks=tuple(
            CheckResult(kind=kind, text=f"{kind} holds.", passed=passed, evidence="It is so.")
            for kind, passed in checks
        ),
        trajectory=Trajectory(chosen=tuple(chosen)),
        spent=spent or Spent(),
    )


def answered(case: str, *, right: bool, **fields: Any) -> EvalResult:
    """Return a result of `task`: the skill was chosen, and the answer is right or not."""
    is_without = fields.get("arm") == "without"
    chosen = () if is_without else ("a",)
    return ran(case, ("skills", not is_without), ("answer", right), chosen=chosen, **fields)
