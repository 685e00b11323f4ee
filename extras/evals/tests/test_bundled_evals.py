"""The evals of the bundled skills pass without a key, and fail when an instruction that matters is broken."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.running import Setup, run_case
from skills_agent.evals.skill_folders import sources_of
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import open_database
from tests.machine import needs_bwrap

BUNDLED = Path(__file__).parents[3] / "skills" / "bundled"
SKILLS = ("csv-report", "decision-record", "git-release-notes", "text-stats")
NO_DESCRIPTION = "description: Helps with many things, quickly and well."

MUTATIONS = [
    ("csv-report", "scripts/profile.py", "scripts/profiler.py"),
    ("csv-report", "(references/interpreting.md)", "(references/interpretation.md)"),
    ("csv-report", "description:*", NO_DESCRIPTION),
    ("git-release-notes", "[--from REF]", "[--since REF]"),
    ("text-stats", "`--top N`", "`--first N`"),
    ("decision-record", "- Status: proposed", "- State: proposed"),
    ("decision-record", "\n4. **Collect", "\n5. **Collect"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the bundled skills."""
    copy = tmp_path / "skills"
    shutil.copytree(BUNDLED, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def setup(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    with open_database(settings) as database:
        yield Setup(settings, database, "run", lambda: sources_of(settings, [folder]))


def cases_of(folder: Path, skill: str) -> tuple[EvalCase, ...]:
    (read,) = read_all([folder / skill])
    assert not read.skipped
    return read.cases


def run(case: EvalCase, setup: Setup) -> EvalResult:
    return run_case(case, "offline", "with", 0, setup)


def failed(folder: Path, skill: str, setup: Setup) -> dict[str, str]:
    """Return the cases that do not pass, with what was found."""
    results = [run(case, setup) for case in cases_of(folder, skill)]
    assert {result.outcome for result in results} <= {"passed", "failed"}
    return {
        result.case: " ".join(check.evidence for check in result.checks if not check.passed)
        for result in results
        if result.outcome != "passed"
    }


@pytest.mark.parametrize("skill", SKILLS)
def test_every_bundled_skill_has_task_cases_with_checks_and_near_misses(skill: str) -> None:
    cases = cases_of(BUNDLED, skill)
    tasks = [case for case in cases if case.kind == "task"]
    triggers = [case for case in cases if case.kind == "trigger"]
    assert 3 <= len(tasks) <= 5
    assert all(case.has_checks and case.skill == skill for case in cases)
    expected = [case.expect.skills.names for case in triggers if case.expect.skills]
    others = {name for names in expected for name in names} - {skill}
    assert others == {*SKILLS} - {skill}
    assert sum(names == (skill,) for names in expected) >= 4
    assert () in expected
    assert not any(
        case.replies for case in cases
    )  # one model runs them all: `skills-agent eval skills/bundled`


def test_the_programs_that_judge_instructions_are_one() -> None:
    programs = [path.read_bytes() for path in BUNDLED.glob("*/evals/checks/instructions.py")]
    assert len(programs) == 3
    assert len({*programs}) == 1


@pytest.mark.parametrize("skill", SKILLS)
@needs_bwrap
@pytest.mark.variants
@pytest.mark.slow
def test_the_evals_of_a_bundled_skill_pass_without_a_key(folder: Path, skill: str, setup: Setup) -> None:
    assert failed(folder, skill, setup) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("skill", "told", "instead"), MUTATIONS)
@needs_bwrap
def test_evals_fail_when_an_instruction_is_broken(
    folder: Path, skill: str, told: str, instead: str, setup: Setup
) -> None:
    file = folder / skill / "SKILL.md"
    text = file.read_text(encoding="utf-8")
    if told == "description:*":
        told = next(line for line in text.splitlines() if line.startswith("description:"))
    assert told in text
    file.write_text(text.replace(told, instead), encoding="utf-8")
    assert failed(folder, skill, setup)
