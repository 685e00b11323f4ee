"""The command that compares agents: what it runs, and what its table says."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from msgspec import structs

from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedSkills
from skills_agent.evals.cases.result import CheckResult, EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.trajectory import Spent, Trajectory

AGENTS = Path(__file__).resolve().parents[3] / "benchmarks" / "agents"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(AGENTS))
    yield import_module("table")
    sys.modules.pop("table")


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(AGENTS))
    return run_path(str(AGENTS / "__main__.py"), run_name="proof")


def made(agent: str, case: str, *, good: bool, tokens: int = 100, chosen: tuple[str, ...] = ()) -> EvalResult:
    return EvalResult(
        case=case,
        model=f"{agent}@m",
        outcome="passed" if good else "failed",
        checks=(CheckResult(kind="answer", text="It is 42.", passed=good),),
        spent=Spent(model_calls=2, input_tokens=tokens),
        trajectory=Trajectory(chosen=chosen),
    )


def head(names: list[str], agents: tuple[str, ...] = ("ours", "deepagents"), **fields: Any) -> RunHead:
    cases = [EvalCase(id=name, turns=("go",), expect=Expected(**fields)) for name in names]
    return RunHead(id="r", at="", models=("m",), agents=agents, cases=tuple(cases))


def test_goals_are_met_or_missed_by_pairs_of_the_same_case(table: Any) -> None:
    names = [f"c{number}" for number in range(8)]
    others = [made("deepagents", name, good=False) for name in names]
    results = [*others, *(made("ours", name, good=True, tokens=70) for name in names)]
    found = list(table.goals({"tasks-20": (head(names), results)}))
    assert found[0].startswith("done beside deepagents, 8 pairs: +100 points (+")
    ends = ["to +100); met", "0.70, goal 0.8: met", "1.00, goal 1.0: met"]
    assert [text.endswith(end) for text, end in zip(found, ends, strict=False)] == [True] * 3
    lost = list(
        table.goals({"tasks-20": (head(names), [*others, made("ours", "c0", good=False, tokens=90)])})
    )
    assert lost[1].endswith("0.90, goal 0.8: missed")


def test_a_choice_is_right_or_loaded_for_none(table: Any) -> None:
    wanted = head(["w"], skills=ExpectedSkills(mode="only", names=("a",)))
    none = head(["n"], skills=ExpectedSkills(mode="none"))
    both = structs.replace(wanted, agents=("ours", "plain"), cases=(*wanted.cases, *none.cases))
    results = [made("ours", "w", good=True, chosen=("a",)), made("ours", "n", good=True)]
    results += [made("plain", name, good=True, chosen=("b",)) for name in "wn"]
    right, false = table.goals({"choice-5": (both, results)})
    assert right == "choice-5: chosen right +100 points, goal +5: met"
    assert false == "choice-5: loaded for none 0% beside 100%, goal half: met"


def test_an_agent_that_is_run_again_stands_beside_what_is_known_of_the_others(
    proof: dict[str, Any], tmp_path: Path
) -> None:
    old = RunFolder.create(tmp_path, head(["c"]))
    old.append(made("ours", "c", good=False))
    old.append(made("deepagents", "c", good=True))
    new = RunFolder(tmp_path / "new", head(["c"], ("ours",)))
    new.folder.mkdir()
    new.append(made("ours", "c", good=True))
    merged, results = proof["merged"]([new, old])
    assert merged.agents == ("ours", "deepagents")
    assert {(one.model, one.outcome) for one in results} == {("ours@m", "passed"), ("deepagents@m", "passed")}


def test_a_checkout_without_a_task_that_can_be_laid_is_said_and_the_rest_counts(
    proof: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(proof["laid"].__globals__, "SETS", ())
    (tmp_path / "checkout" / "tasks").mkdir(parents=True)
    chosen = Namespace(folder=tmp_path, half="tuned", set=[], skillsbench=tmp_path / "checkout", every=1)
    assert [*proof["laid"](chosen)] == []
    assert "No task of SkillsBench is laid" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["agents", "--model", "offline", "--budget", "5"])
    with pytest.raises(SystemExit, match="2"):
        run_path(str(AGENTS), run_name="__main__")
    assert "--prices" in capsys.readouterr().err
