"""The evals of the bundled skills pass without a key, and fail when an instruction that matters is broken."""

import shutil
from pathlib import Path

import pytest

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.running import Setup, run_case
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
def skills(tmp_path: Path) -> Path:
    """Return a copy of the bundled skills, which the setup is of."""
    copy = tmp_path / "skills"
    shutil.copytree(BUNDLED, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


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
@needs_bwrap
@pytest.mark.variants
@pytest.mark.slow
def test_the_evals_of_a_bundled_skill_pass_without_a_key(skills: Path, skill: str, setup: Setup) -> None:
    assert failed(skills, skill, setup) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("skill", "told", "instead"), MUTATIONS)
@needs_bwrap
def test_evals_fail_when_an_instruction_is_broken(
    skills: Path, skill: str, told: str, instead: str, setup: Setup
) -> None:
    file = skills / skill / "SKILL.md"
    text = file.read_text(encoding="utf-8")
    if told == "description:*":
        told = next(line for line in text.splitlines() if line.startswith("description:"))
    assert told in text
    file.write_text(text.replace(told, instead), encoding="utf-8")
    assert failed(skills, skill, setup)
