"""All that a case expects, held against one run."""

from pathlib import Path

import pytest

from skills_agent.evals.cases.case import (
    CaseLimits,
    EvalCase,
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    ScriptCheck,
    SkillsMode,
)
from skills_agent.evals.cases.checks import check, unfit
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.trajectory import LoadedBy, LoadedSkill, MadeCall, Spent, Trajectory


def case(expect: Expected, **fields: object) -> EvalCase:
    return EvalCase(id="set/one", turns=("Do it.",), expect=expect, **fields)  # type: ignore[arg-type]


def no_script(script: ScriptCheck, workspace: Path) -> tuple[bool, str]:
    raise AssertionError


def loading(*names: str, by: LoadedBy = "model") -> Trajectory:
    return Trajectory(loaded=tuple(LoadedSkill(name=name, by=by) for name in names))


def checked(
    one: EvalCase, workspace: Path, trajectory: Trajectory | None = None, spent: Spent | None = None
) -> tuple[CheckResult, ...]:
    return check(one, trajectory or Trajectory(), spent or Spent(), workspace, no_script)


@pytest.mark.parametrize(
    ("mode", "names", "chosen", "passes"),
    [
        ("all", ("a", "b"), ("b", "a", "c"), True),
        ("all", ("a", "b"), ("a",), False),
        ("any", ("a", "b"), ("b",), True),
        ("any", ("a", "b"), ("c",), False),
        ("any", (), ("c",), False),
        ("none", ("a",), ("b",), True),
        ("none", ("a",), ("a", "b"), False),
        ("none", (), (), True),
        ("none", (), ("a",), False),
        ("only", ("a",), ("a",), True),
        ("only", ("a",), ("a", "b"), False),
        ("only", ("a",), (), False),
        ("only", (), (), True),
    ],
)
def test_skills_are_chosen_as_expected(
    workspace: Path, mode: SkillsMode, names: tuple[str, ...], chosen: tuple[str, ...], passes: bool
) -> None:
    one = case(Expected(skills=ExpectedSkills(mode=mode, names=names)))
    (result,) = checked(one, workspace, loading(*chosen))
    assert result.passed is passes
    assert result.evidence == f"It chose {', '.join(chosen) or 'none'}."


def test_a_skill_that_the_case_loads_does_not_count(workspace: Path) -> None:
    one = case(Expected(skills=ExpectedSkills(mode="none")), load=("a",))
    assert checked(one, workspace, loading("a", by="person"))[0].passed
    assert checked(one, workspace, loading("a"))[0].passed
    assert not checked(one, workspace, loading("b", by="required"))[0].passed
    wanted = case(Expected(skills=ExpectedSkills(names=("a",))), load=("a",))
    assert not checked(wanted, workspace, loading("a", by="person"))[0].passed


def test_of_a_trigger_case_only_the_skills_count(workspace: Path) -> None:
    expect = Expected(
        skills=ExpectedSkills(names=("a",)),
        calls=ExpectedCalls(calls=(ExpectedCall(tool="x"),)),
        limits=CaseLimits(calls=0),
        answer=ExpectedText(contains=("x",), regex=("(?=a)",)),
        files=(ExpectedFile(path="x"),),
        scripts=(ScriptCheck(path="/x"),),
    )
    one = case(expect, kind="trigger")
    assert [each.kind for each in checked(one, workspace)] == ["skills"]
    assert unfit(one) == ()
    assert one.has_checks
    assert not case(Expected(answer=ExpectedText(contains=("x",))), kind="trigger").has_checks


@pytest.mark.parametrize(
    ("limits", "text", "evidence", "passes"),
    [
        (CaseLimits(calls=1), "It takes at most 1 call of a tool.", "It made 2.", False),
        (CaseLimits(calls=2), "It takes at most 2 calls of a tool.", "It made 2.", True),
        (CaseLimits(model_calls=2), "It takes at most 2 calls of the model.", "It made 3.", False),
        (CaseLimits(tokens=1_500), "It takes at most 1,500 tokens.", "It took 1,600.", False),
        (CaseLimits(tokens=1_600), "It takes at most 1,600 tokens.", "It took 1,600.", True),
        (CaseLimits(seconds=2.5), "It takes at most 2.5 seconds.", "It took 3.0 s.", False),
        (CaseLimits(calls=0), "It takes at most 0 calls of a tool.", "It made 2.", False),
    ],
)
def test_a_limit_is_told_with_what_was_taken(
    workspace: Path, limits: CaseLimits, text: str, evidence: str, passes: bool
) -> None:
    spent = Spent(seconds=3.0, model_calls=3, input_tokens=1_000, output_tokens=600)
    trajectory = Trajectory(calls=(MadeCall(tool="a"), MadeCall(tool="b", status="refused")))
    (result,) = checked(case(Expected(limits=limits)), workspace, trajectory, spent)
    assert (result.kind, result.text, result.evidence, result.passed) == ("limits", text, evidence, passes)


def test_tokens_that_nobody_counted_are_told(workspace: Path) -> None:
    one = case(Expected(limits=CaseLimits(tokens=10)))
    (result,) = checked(one, workspace, spent=Spent(model_calls=1))
    assert result.passed
    assert "nothing was counted" in result.evidence


def test_the_last_answer_counts(workspace: Path) -> None:
    one = case(Expected(answer=ExpectedText(contains=("two",))))
    assert checked(one, workspace, Trajectory(answers=("one", "two")))[0].passed
    assert not checked(one, workspace, Trajectory(answers=("two", "one")))[0].passed
    assert checked(one, workspace)[0].evidence == "It is empty."


def test_a_script_of_the_case_judges_the_workspace(workspace: Path) -> None:
    asked = []

    def run(script: ScriptCheck, place: Path) -> tuple[bool, str]:
        asked.append((script, place))
        return False, "line 3 is wrong\n" + "x" * 1_000

    script = ScriptCheck(path="/place/of/check.py", args=("a",))
    (result,) = check(case(Expected(scripts=(script,))), Trajectory(), Spent(), workspace, run)
    assert asked == [(script, workspace)]
    assert (result.kind, result.text, result.passed) == ("script", "The script check.py exits with 0.", False)
    assert result.evidence.startswith("line 3 is wrong")
    assert len(result.evidence) == 500


def test_results_come_in_the_order_of_the_case(workspace: Path) -> None:
    (workspace / "a.txt").write_text("a")
    expect = Expected(
        files=(ExpectedFile(path="a.txt", text=ExpectedText(equals="a")),),
        answer=ExpectedText(contains=("x",)),
        limits=CaseLimits(calls=1, seconds=1),
        calls=ExpectedCalls(
            calls=(), order=((ExpectedCall(tool="a"),),), forbidden=(ExpectedCall(tool="b"),)
        ),
        skills=ExpectedSkills(mode="none"),
    )
    kinds = ["skills", "calls", "order", "forbidden", "limits", "limits", "answer", "file", "file"]
    assert [each.kind for each in checked(case(expect), workspace)] == kinds


def test_what_nothing_can_be_held_against_is_found_before_a_run() -> None:
    expect = Expected(
        answer=ExpectedText(regex=("(?=a)\x1b[2J",), not_regex=("a",)),
        files=(ExpectedFile(path="a", text=ExpectedText(json_schema={"type": "x"})),),
    )
    first, second = unfit(case(expect))
    assert first.startswith('set/one: RE2 does not understand the pattern "(?=a)<U+001B>[2J"')
    assert second.startswith("set/one: The JSON schema is of no use: it is not valid at")
