"""The tasks that agents are compared by: each can be failed, can be passed, and does not give itself away."""

import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from skills_agent.evals.cases.case import Command, EvalCase
from skills_agent.evals.cases.checks import check
from skills_agent.evals.cases.read import read_all, read_set
from skills_agent.evals.cases.trajectory import Spent, Trajectory
from skills_agent.evals.workspaces import lay as lay_files

AGENTS = Path(__file__).resolve().parents[3] / "benchmarks" / "agents"
HALVES = ("tuned", "reported")
SETS = {half: read_all(sorted((AGENTS / "tasks" / half).glob("*.yaml"))) for half in HALVES}
CASES = {half: {case.id: case for each in SETS[half] for case in each.cases} for half in HALVES}
TASKS = [(half, name) for half in HALVES for name, case in CASES[half].items() if case.kind == "task"]
RESULTS = yaml.safe_load(Path(__file__).with_name("reference_results.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def laying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module that lays the tasks; a test is skipped without the real skills."""
    monkeypatch.syspath_prepend(AGENTS)
    module = import_module("lay")
    if not module.CORPUS.is_dir():
        pytest.skip(f"the real skills are not in {module.CORPUS}")
    return module


def faults(case: EvalCase, workspace: Path, answer: str) -> list[str]:
    """Return what does not hold of what came out."""
    results = check(case, Trajectory(answers=(answer,)), Spent(), workspace, run)
    return [f"{one.text} {one.evidence}" for one in results if one.kind != "skills" and not one.passed]


def run(command: Command, workspace: Path) -> tuple[bool, str]:
    """Run a verifier, as a case has it run."""
    done = subprocess.run([sys.executable, *command], cwd=workspace, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("half", "name"), TASKS)
def test_doing_nothing_fails_a_task_and_a_good_result_passes_it(tmp_path: Path, half: str, name: str) -> None:
    case, result = CASES[half][name], RESULTS[half][name]
    lay_files(case, tmp_path)
    assert faults(case, tmp_path, "")
    assert not any(run(script, tmp_path)[0] for script in case.expect.scripts)
    for path, text in result.get("files", {}).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert faults(case, tmp_path, result.get("answer", "")) == []


def test_the_halves_are_alike_share_nothing_and_no_request_names_its_skill() -> None:
    for half in HALVES:
        kinds = Counter(name.partition("/")[0] for name in CASES[half])
        assert kinds == {"answers": 5, "written": 5, "changed": 5, "plain": 5, "turns": 3, "choice": 30}
        assert not any(each.skipped for each in SETS[half])
        assert RESULTS[half].keys() == {name for each, name in TASKS if each == half}
    tuned, reported = ({case.skill for case in CASES[half].values()} - {""} for half in HALVES)
    assert not tuned & reported
    every = [case for half in HALVES for case in CASES[half].values()]
    requests = [request for case in every for request in case.turns]
    assert len({*requests}) == len(requests)
    said = [(case.skill.replace("-", " "), " ".join(case.turns).casefold()) for case in every if case.skill]
    assert not [skill for skill, request in said if skill in request.replace("-", " ")]


@pytest.mark.parametrize("half", HALVES)
def test_a_laid_folder_has_the_wanted_skills_among_so_many(tmp_path: Path, laying: Any, half: str) -> None:
    for kind, skills in (("tasks", 20), ("turns", 5), ("choice", 5), ("choice", 100)):
        folder = laying.lay(tmp_path / f"{kind}-{skills}", half, skills, kind)
        laid = {path.parent.name for path in folder.rglob("SKILL.md")}
        assert len(laid) == skills
        cases = [case for file in folder.glob(".agent/evals/*.yaml") for case in read_set(file).cases]
        assert {case.skill for case in cases} - {""} <= laid
    assert {*laying.distractors(laying.CORPUS, half, 5)} < {*laying.distractors(laying.CORPUS, half, 50)}
    with pytest.raises(laying.NoCorpusError, match="SKILLS_CORPUS"):
        laying.lay(tmp_path / "laid", half, 5, "tasks", tmp_path)


@pytest.mark.parametrize("half", HALVES)
def test_the_text_of_its_skill_passes_no_task(tmp_path: Path, laying: Any, half: str) -> None:
    for case in CASES[half].values():
        if case.kind == "task" and case.skill:
            path = laying.needed([case])[case.skill]
            text = (laying.CORPUS / "skills" / path / "SKILL.md").read_text(encoding="utf-8")
            workspace = tmp_path / case.id
            for name in case.expect.files:
                (workspace / name).parent.mkdir(parents=True, exist_ok=True)
                (workspace / name).write_text(text, encoding="utf-8")
            workspace.mkdir(parents=True, exist_ok=True)
            assert faults(case, workspace, text), case.id
